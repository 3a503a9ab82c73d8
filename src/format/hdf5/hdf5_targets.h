#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "format/hdf5/hdf5_mappings.h"
#include "format/hdf5/hdf5_tree.h"

namespace penstock::inline v0 {

/// Paths of a file's objects by the addresses of their headers: the targets of references.
using hdf5_paths = std::unordered_map<std::uint64_t, std::string>;

/// A path (`/group/data`) with as few links as possible for every object that hard links lead to. Groups that cannot be
/// read are omitted, with everything below them.
hdf5_paths find_hdf5_paths(hdf5_file& file, hdf5_tree& tree);

/// Elements of a dataset as text: `/data[0:4, 1:9:2]`. Several boxes follow one another, with " + " between them;
/// `[...]` are all elements, `[]` none, `[(0, 1), (2, 3)]` single ones. Blocks at distances are one box each.
/// \error unsupported  More than 2^16 boxes.
result<std::string> hdf5_region_text(const std::string& path, const hdf5_selection& of);

}  // namespace penstock::inline v0
