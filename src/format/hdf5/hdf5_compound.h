#pragma once

#include <penstock/result.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/hdf5/hdf5_tree.h"
#include "format/hdf5/hdf5_type.h"

namespace penstock::inline v0 {

/// A member of a dataset's elements, at any depth.
struct hdf5_field {
  /// `bytes` bytes at `offset` of each item of `item_bytes`.
  struct part {
    std::uint64_t item_bytes = 0, offset = 0, bytes = 0;
  };

  std::uint64_t offset = 0;  ///< of the first part
  /// Of the member. Within an array of compounds, an array of it, whose elements the parts put next to each other.
  hdf5_type type;
  std::string path;                                ///< relative to the dataset
  std::vector<part> parts;                         ///< from an element to the member; at least one
  std::vector<std::vector<std::uint64_t>> levels;  ///< for each compound on the way, the shape of the array of it
};

/// Whether arrays cannot have elements of this compound, or of this array of compounds, because some members are stored
/// elsewhere in the file or have types that structured dtypes lack. Such a dataset is a group of its members.
bool is_hdf5_member_group(const hdf5_type& type);

/// A compound's members with their names as components of paths, in the order of the file, without duplicates.
/// \param of  The compound, or an array of it.
std::vector<hdf5_member_name> hdf5_field_names(const hdf5_type& of);

/// The member at a path of names.
/// \param of  The compound, or an array of it.
std::optional<hdf5_field> find_hdf5_field(const hdf5_type& of, std::string_view path);

/// An object of a file, or a part of a dataset.
struct hdf5_part_place {
  hdf5_place at;
  std::optional<hdf5_type> type;    ///< of the elements of a dataset, or of the member; empty: not supported
  std::optional<hdf5_field> field;  ///< empty: the object itself
  bool is_member_group() const { return type && is_hdf5_member_group(*type); }
};

/// Follows a path like hdf5_tree::find, and into the members of a dataset.
/// \error As hdf5_tree::find.
result<hdf5_part_place> find_hdf5_part(hdf5_file& file, hdf5_tree& tree, std::string_view path);

}  // namespace penstock::inline v0
