#pragma once

#include <penstock/result.h>

#include <cstddef>
#include <cstdint>
#include <span>
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
    shared_table = 0xF,
    continuation = 0x10,
    symbol_table = 0x11,
    attribute_info = 0x15,
    file_space = 0x17,
  };
  std::uint16_t type = 0;
  bool shared = false;  ///< `body` says where it really is
  std::vector<std::byte> body;
  std::uint64_t order = 0;  ///< of creation, if the object has it
  bool ordered = false;
};

/// The messages of an object header, of version 1 or 2, in their order; continuations are followed.
/// Source: HDF5 File Format Specification 3.0, IV.A.1.
/// \error corrupt_data  No header stands there, it is damaged, or longer than any.
result<std::vector<hdf5_message>> read_hdf5_object(hdf5_file& file, std::uint64_t address);

/// Reads the body of a shared message, from the object header or the heap that `body` names.
/// Source: HDF5 File Format Specification 4.0, III.G (shared messages), IV.A.1, IV.A.2.p.
/// \error corrupt_data  There is no such message. \error unsupported  An unknown way of sharing.
result<std::vector<std::byte>> read_hdf5_shared(hdf5_file& file, std::uint16_t type, std::span<const std::byte> body);

/// Replaces the bodies of shared messages by the bodies that they share.
/// \error As read_hdf5_shared.
result<> resolve_hdf5_shared(hdf5_file& file, std::vector<hdf5_message>& header);

/// Bytes of the pages that the file keeps its metadata in; 0: it has none.
/// Source: HDF5 File Format Specification 3.0, IV.A.2.x (file space info).
result<std::uint64_t> read_hdf5_page_bytes(hdf5_file& file);

/// The one message of a type; null where there is none.
const hdf5_message* find_message(const std::vector<hdf5_message>& in, hdf5_message::kind type) noexcept;

}  // namespace penstock::inline v0
