#pragma once

#include <optional>

#include <penstock/extend/driver.h>
#include "driver/zarr_nodes.h"

namespace penstock::inline v0 {

const format_driver& tiff_driver() noexcept;        // open_tiff.cc
const format_driver& npy_driver() noexcept;         // npy.cc: one .npy file
const format_driver& manifest_driver() noexcept;    // manifest.cc: a manifest of .npy or raw files
const format_driver& references_driver() noexcept;  // open_saved.cc: a manifest of references
const format_driver& kerchunk_driver() noexcept;    // open_references.cc: references as JSON
const format_driver& hdf5_driver() noexcept;        // open_hdf5.cc
const format_driver& netcdf_driver() noexcept;      // netcdf.cc: NetCDF classic, CDF-1, CDF-2 and CDF-5
const format_driver& table_driver() noexcept;       // tables.cc: Parquet and Arrow, which Python opens
const format_driver& zarr_driver() noexcept;        // zarr_driver.cc: versions 2 and 3

/// The node that the Zarr documents at a location describe; nothing if there are no such documents.
result<std::optional<node>> open_zarr(const location& at, const open_options& how, int prefer);

/// The place of a location in the form that Zarr and TIFF use.
node_place place_of(const location& at, const open_options& how);

}  // namespace penstock::inline v0
