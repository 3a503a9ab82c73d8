#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <penstock/array.h>
#include <penstock/extend/json.h>
#include "format/hdf5/hdf5_dimensions.h"
#include "opened.h"

namespace penstock::inline v0::cli {

/// A dimension of a group.
struct dimension {
  std::string name;
  std::uint64_t length = 0;
  bool is_unlimited = false;
};

/// The dimensions of groups; each HDF5 file is read for them once.
class dimension_lists {
 public:
  /// The dimensions of `of` in its file: NetCDF's, and HDF5's dimension scales. Empty for other formats.
  /// \error As hdf5_dimensions_of.
  result<std::optional<std::vector<dimension>>> of(const opened_group& of);

 private:
  std::map<const void*, hdf5_dimension_names> files_;  // by the source of the groups' members
};

/// The dimensions of arrays of a group in a format that does not list them: names with one length.
class collected_dimensions {
 public:
  void add(const array& from);
  std::vector<dimension> take() const;

 private:
  struct length {
    std::uint64_t elements = 0;
    bool differs = false;
  };
  std::vector<std::string> order_;
  std::map<std::string, length> lengths_;
};

json::array_t to_json(const std::vector<dimension>& dimensions);

/// The number of elements along each dimension of an HDF5 dataset to which it may grow, null: without a limit. Null if
/// it cannot grow, or is of another format.
json most_json(const array& of);

}  // namespace penstock::inline v0::cli
