#pragma once

#include <penstock/result.h>

#include <cstddef>
#include <string>
#include <vector>

#include "format/hdf5/hdf5_dataset.h"
#include "format/hdf5/hdf5_file.h"
#include "format/hdf5/hdf5_object.h"
#include "format/hdf5/hdf5_type.h"

namespace penstock::inline v0 {

/// An attribute of an object, with its bytes as stored. Parts of variable length are in the global heap.
struct hdf5_attribute {
  std::string name;
  hdf5_type type;
  hdf5_dataspace space;
  std::vector<std::byte> bytes;
  /// The reason why its value is not readable, if its type or its dataspace is not supported. It then only has a name.
  std::string unreadable = {};
  std::uint64_t order = 0;  ///< of creation, if the object has it
  bool ordered = false;
};

/// Every attribute of an object, from its header or from a fractal heap. They are in the order of creation if the
/// object stores it, otherwise sorted by name.
///
/// Source: HDF5 File Format Specification 4.0, IV.A.2.m and v.
/// \param header  Shared messages are resolved (see resolve_hdf5_shared).
/// \error corrupt_data  An attribute is damaged.
/// \error unsupported   An attribute has an unknown version, so that its name cannot be read.
result<std::vector<hdf5_attribute>> list_hdf5_attributes(hdf5_file& file, const std::vector<hdf5_message>& header);

}  // namespace penstock::inline v0
