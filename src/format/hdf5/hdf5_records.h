#pragma once

#include <penstock/result.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "format/hdf5/hdf5_file.h"

namespace penstock::inline v0 {

/// The records of a B-tree of version 2: of what type they are and how long.
struct hdf5_record_form {
  std::uint64_t type = 0, bytes = 0;
};

/// Calls `check` with the form of the records, then `each` with every record. Nodes on one level are read in order.
///
/// \param each  Reads nothing of the file. The record is valid during the call.
/// Source: HDF5 File Format Specification 4.0, III.A.2.
/// \error corrupt_data  The tree is damaged. Errors of `check` and `each`.
result<> visit_hdf5_records(hdf5_file& file, std::uint64_t address,
                            const std::function<result<>(const hdf5_record_form&)>& check,
                            const std::function<result<>(std::span<const std::byte>)>& each);

}  // namespace penstock::inline v0
