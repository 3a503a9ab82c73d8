#pragma once

#include <penstock/config.h>

#include <cstdint>
#include <string_view>

namespace penstock::inline v0 {

/// The name of a filter in netCDF4-python or h5py, empty if neither names it. Source: the filters that the HDF Group
/// registers, by number.
std::string_view hdf5_filter_name(std::uint32_t id) noexcept;

}  // namespace penstock::inline v0
