#pragma once

#include <penstock/result.h>

#include <cstdint>
#include <vector>

#include "format/hdf5/hdf5_file.h"

namespace penstock::inline v0 {

/// What an object header is made of.
struct hdf5_message {
  enum kind : std::uint16_t {  // NOLINT: numbers of the format
    dataspace = 0x1,
    link_info = 0x2,
    datatype = 0x3,
    old_fill_value = 0x4,
    fill_value = 0x5,
    link = 0x6,
    external_files = 0x7,
    data_layout = 0x8,
    filters = 0xB,
    attribute = 0xC,
    continuation = 0x10,
    symbol_table = 0x11,
    attribute_info = 0x15,
  };
  std::uint16_t type = 0;
  bool shared = false;  ///< `body` says where it really is
  std::vector<std::byte> body;
};

/// The messages of an object header, of version 1 or 2, in their order; continuations are followed.
/// Source: HDF5 File Format Specification 3.0, IV.A.1.
/// \error corrupt_data  No header stands there, it is damaged, or longer than any.
result<std::vector<hdf5_message>> read_hdf5_object(hdf5_file& file, std::uint64_t address);

/// The one message of a type; null where there is none.
const hdf5_message* find_message(const std::vector<hdf5_message>& in, hdf5_message::kind type) noexcept;

}  // namespace penstock::inline v0
