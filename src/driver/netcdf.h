#pragma once

#include <memory>
#include <string_view>

#include <penstock/array.h>
#include "format/netcdf/netcdf_layout.h"

namespace penstock::inline v0 {

/// The name that arrays and groups of NetCDF classic files have as their format.
inline constexpr std::string_view kNetcdfFormat = "netcdf";

/// The file of an array or group; null if that file is not NetCDF classic.
std::shared_ptr<const netcdf_file> netcdf_file_of(const array_state& of) noexcept;
std::shared_ptr<const netcdf_file> netcdf_file_of(const group_state& of) noexcept;

/// The variable of an array; null if the array is not from a NetCDF classic file.
const netcdf_variable* netcdf_variable_of(const array_state& of) noexcept;

}  // namespace penstock::inline v0
