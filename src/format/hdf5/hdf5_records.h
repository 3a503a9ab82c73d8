#pragma once

#include <penstock/result.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "format/hdf5/hdf5_file.h"

namespace penstock::inline v0 {

/// The records of a B-tree of version 2: their type and their length.
struct hdf5_record_form {
  std::uint64_t type = 0, bytes = 0;
};

/// The dimensions of a B-tree of version 2, from its header, and those of its nodes.
/// Source: HDF5 File Format Specification 4.0, III.A.2.
class hdf5_record_tree {
 public:
  /// \param check  Called with the form of the records.
  /// \error corrupt_data  `address` has no such header, or an impossible one. Errors of `check`.
  static result<hdf5_record_tree> read(hdf5_file& file, std::uint64_t address,
                                       const std::function<result<>(const hdf5_record_form&)>& check);

  const hdf5_record_form& form() const noexcept { return form_; }
  std::uint64_t root() const noexcept { return root_; }
  std::uint64_t root_count() const noexcept { return root_count_; }
  std::uint64_t depth() const noexcept { return depth_; }

  /// The length, with its checksum, of a node of `count` records that is `depth` levels above the leaves.
  /// \error corrupt_data  A node cannot have so many records.
  result<std::uint64_t> node_bytes(std::uint64_t count, std::uint64_t depth) const;
  /// Checks the prefix of a node, and skips it: its records follow.
  result<> check_prefix(hdf5_cursor& cursor, std::uint64_t depth) const;

  struct child {
    std::uint64_t address = 0, count = 0;
  };
  std::uint64_t pointer_bytes(std::uint64_t depth) const noexcept;
  /// Reads the next of the pointers that follow the records of a node above the leaves.
  child take_child(hdf5_cursor& cursor, std::uint64_t depth) const noexcept;

 private:
  result<> measure(std::uint64_t node_bytes);

  hdf5_record_form form_;
  std::uint64_t root_ = 0, root_count_ = 0, depth_ = 0;
  std::size_t offset_bytes_ = 0, count_width_ = 0;
  std::vector<std::uint64_t> most_;       // the most records in a node of each depth
  std::vector<std::size_t> total_width_;  // width of the count of records in a tree of each depth
};

/// Calls `check` with the form of the records, then `each` with every record. Nodes of one level are read in order.
///
/// \param each  Must not read from the file. The record is valid during the call.
/// Source: HDF5 File Format Specification 4.0, III.A.2.
/// \error corrupt_data  The tree is damaged. Errors of `check` and `each`.
result<> visit_hdf5_records(hdf5_file& file, std::uint64_t address,
                            const std::function<result<>(const hdf5_record_form&)>& check,
                            const std::function<result<>(std::span<const std::byte>)>& each);

}  // namespace penstock::inline v0
