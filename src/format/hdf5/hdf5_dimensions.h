#pragma once

#include <penstock/result.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "format/hdf5/hdf5_tree.h"

namespace penstock::inline v0 {

/// A dimension that a scale defines.
struct hdf5_dimension {
  std::string name;
  std::uint64_t length = 0;  ///< for an unlimited one, that of the longest dataset
  bool is_unlimited = false;
};

/// Names of the dimensions of datasets. Paths are relative to the root group and consist of names as they are shown.
struct hdf5_dimension_names {
  std::map<std::string, std::vector<std::string>> datasets;   ///< by path
  std::map<std::string, std::vector<hdf5_dimension>> groups;  ///< by path: dimensions of each group, in its order
  std::map<std::string, std::string> links;                   ///< further paths of groups, each with the first one
};

/// A name for each dimension of each dataset of a file. Datasets that cannot be read are omitted.
///
/// Dimensions without a scale are numbered as in netCDF (`phony_dim_3`). Within a group, dimensions of equal length are
/// one dimension, except two of the same dataset. Those of subgroups are numbered before those of their group, and all
/// after the dimensions that have names. A group is visited once, by its first path.
/// \error corrupt_data, unsupported  A group is damaged, or groups are nested more than 1,000 levels deep.
result<hdf5_dimension_names> name_hdf5_dimensions(hdf5_file& file, hdf5_tree& tree);

}  // namespace penstock::inline v0
