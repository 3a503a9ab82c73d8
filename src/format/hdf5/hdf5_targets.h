#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>

#include "format/hdf5/hdf5_heaps.h"
#include "format/hdf5/hdf5_mappings.h"
#include "format/hdf5/hdf5_tree.h"

namespace penstock::inline v0 {

/// Paths of a file's objects by the addresses of their headers: the targets of references.
using hdf5_paths = std::unordered_map<std::uint64_t, std::string>;

/// Finds a path (`/group/data`) with as few links as possible for every object that hard links lead to, level by level.
/// Groups that cannot be read are omitted, with everything below them.
class hdf5_path_search {
 public:
  /// Both are borrowed.
  hdf5_path_search(hdf5_file& file, hdf5_tree& tree) : file_(file), tree_(tree) {}

  /// Searches until `wanted` is found. \param most  The search ends with the group in which it finds this many objects.
  /// \returns false if the search ended before it found `wanted` or had visited all objects.
  bool run(std::uint64_t wanted, std::size_t most);
  const hdf5_paths& found() const noexcept { return found_; }

 private:
  hdf5_file& file_;
  hdf5_tree& tree_;
  hdf5_paths found_;
  std::deque<std::uint64_t> next_;  // objects whose links, if they are groups, were not visited yet
  bool ended_ = false;
};

/// The paths of all objects of a file.
hdf5_paths find_hdf5_paths(hdf5_file& file, hdf5_tree& tree);

/// Finds the path of an object by the address of its header.
using hdf5_path_finder = std::function<std::string(std::uint64_t object)>;

/// The path in `paths`. If no hard link leads to the object, a text that has its address.
std::string hdf5_path_of(const hdf5_paths& paths, std::uint64_t object);

/// Elements of a dataset as text: `/data[0:4, 1:9:2]`. Several boxes follow one another, with " + " between them;
/// `[...]` are all elements, `[]` none, `[(0, 1), (2, 3)]` single ones. Blocks at distances are one box each.
/// \error unsupported  More than 2^16 boxes.
result<std::string> hdf5_region_text(const std::string& path, const hdf5_selection& of);
/// The same for the target of a region reference. \param stored  The reference's object in the global heap.
/// \error As above. corrupt_data  It is damaged.
result<std::string> hdf5_region_text(hdf5_file& file, std::span<const std::byte> stored, const hdf5_path_finder& find);

/// The target of a reference of HDF5 1.12 (H5T_STD_REF) as text: an object's path, a region as above, `/data@name` for
/// an attribute. In another file: `<object at 800 of other.h5>`. Empty: the null reference.
/// \param stored  An element of that type. \param heap  Of the same file.
/// \error corrupt_data  It is damaged. \error unsupported  An unknown kind, or more than 2^16 boxes.
result<std::string> hdf5_reference_text(hdf5_file& file, hdf5_global_heap& heap, std::span<const std::byte> stored,
                                        const hdf5_path_finder& find);

}  // namespace penstock::inline v0
