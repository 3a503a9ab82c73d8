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
  std::uint64_t length = 0;  ///< of an unlimited one: that of the longest dataset
  bool is_unlimited = false;
};

/// Names of the dimensions of datasets. Paths count from the root group and are made of names as they are shown.
struct hdf5_dimension_names {
  std::map<std::string, std::vector<std::string>> datasets;   ///< by path
  std::map<std::string, std::vector<hdf5_dimension>> groups;  ///< by path: what each group defines, in its order
  std::map<std::string, std::string> links;                   ///< further paths of groups, and the first one of each
};

/// A name for each dimension of each dataset of a file. Datasets that cannot be read are left out.
///
/// Dimensions without a scale are numbered as netCDF numbers them (`phony_dim_3`): dimensions of one group and one
/// length are one, but not twice in a dataset. Those of subgroups come before those of their group, and all come after
/// the dimensions that have names. A group is entered once, by its first path.
/// \error corrupt_data, unsupported  A group, or more than 1,000 levels of them.
result<hdf5_dimension_names> name_hdf5_dimensions(hdf5_file& file, hdf5_tree& tree);

}  // namespace penstock::inline v0
