#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <penstock/array.h>
#include <penstock/open.h>
#include <penstock/store.h>

namespace penstock::inline v0 {

/// Opens the dataset or group at `path` of the HDF5 file at `key` of a store, whatever the file's name is.
/// \error As the driver's: not_found, corrupt_data, unsupported, conflict.
result<node> open_hdf5(std::shared_ptr<const store> from, const std::string& key, std::string_view path,
                       const open_options& how);

}  // namespace penstock::inline v0
