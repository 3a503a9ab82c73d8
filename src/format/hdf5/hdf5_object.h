#pragma once

#include <penstock/result.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "format/hdf5/hdf5_file.h"

namespace penstock::inline v0 {

/// One message of an object header.
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
    cache_image = 0x18,
  };
  std::uint16_t type = 0;
  bool shared = false;  ///< `body` refers to the message itself
  std::vector<std::byte> body;
  std::uint64_t order = 0;  ///< of creation, if the object has it
  bool ordered = false;
};

/// The messages of an object header of version 1 or 2, in order, including continuations.
/// Source: HDF5 File Format Specification 3.0, IV.A.1.
/// \error corrupt_data  `address` has no header, or it is damaged or too long.
result<std::vector<hdf5_message>> read_hdf5_object(hdf5_file& file, std::uint64_t address);

/// Reads the body of a shared message, from the object header or the heap to which `body` refers.
/// Source: HDF5 File Format Specification 4.0, III.G (shared messages), IV.A.1, IV.A.2.p.
/// \error corrupt_data  The message does not exist. \error unsupported  An unknown kind of sharing.
result<std::vector<std::byte>> read_hdf5_shared(hdf5_file& file, std::uint16_t type, std::span<const std::byte> body);

/// Replaces the bodies of shared messages by the bodies that they share.
/// \error As read_hdf5_shared.
result<> resolve_hdf5_shared(hdf5_file& file, std::vector<hdf5_message>& header);

/// The size of the pages in which the file stores its metadata; 0: it has none.
/// Source: HDF5 File Format Specification 3.0, IV.A.2.x (file space info).
result<std::uint64_t> read_hdf5_page_bytes(hdf5_file& file);

/// The only message of a type; null if the header has none.
const hdf5_message* find_message(const std::vector<hdf5_message>& in, hdf5_message::kind type) noexcept;

}  // namespace penstock::inline v0
