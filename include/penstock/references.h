#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/array.h>
#include <penstock/result.h>

namespace penstock::inline v0 {

/// Versions of remote objects in the caller's own stores, by URL; empty if they are not known.
using version_finder = std::function<result<std::vector<std::string>>(const std::vector<std::string>&)>;
using stamp_finder [[deprecated("it is named version_finder")]] = version_finder;

/// The location of a manifest, and the members that it omits.
struct manifest_options {
  std::string
      folder;  ///< folder of the manifest, absolute: local files in it are named relative to it; empty: full paths
  /// Receives paths and reasons: datasets of HDF5 files that are not readable. Null: such a dataset is an error.
  std::vector<std::pair<std::string, std::string>>* omitted = nullptr;
  version_finder find_versions =
      nullptr;  ///< null: objects in the caller's own stores are saved without their versions
};

/// The manifest of an array that is read through references (HDF5, NetCDF, references, joined files of them). `open`
/// opens a file with these bytes, and reads no metadata of the files that it names.
///
/// Local files are named with their size and modification time, remote objects by their URLs. Bytes in this process's
/// memory are saved in it.
/// \error invalid_argument  Not such an array. \error conflict  An object changed since it was opened.
PENSTOCK_API result<std::vector<std::byte>> save_references(const array& from, const manifest_options& how = {});

/// The manifest of a group whose arrays all have references, including the groups below it: of an HDF5 or NetCDF file,
/// of references, of `open_virtual`.
/// \error invalid_argument  A member is not such an array, by path. \error unsupported  More than 32 levels of groups;
///                          a file in this process's memory. \error conflict  As for an array.
PENSTOCK_API result<std::vector<std::byte>> save_references(const group& from, const manifest_options& how = {});

}  // namespace penstock::inline v0
