#pragma once

#include <penstock/create.h>

#include "engine/array_state.h"

namespace penstock::inline v0 {

/// Whether xarray and netCDF users can open the array: every dimension has a name.
bool has_dimensions(const array_state& of);

/// Sets the options of a copy in another format so that xarray reads the same dimension names and the same missing
/// value.
///
/// | format | names | missing value |
/// |---|---|---|
/// | Zarr 2 | attribute `_ARRAY_DIMENSIONS` | the fill value; if it is null, the attribute `_FillValue` |
/// | Zarr 3 | member `dimension_names` | attribute `_FillValue`, floats as base64 of a double; the fill value is not |
/// | HDF5, NetCDF classic | scales | attribute `_FillValue` |
/// | TIFF | band, y, x | nodata, which is the fill value |
///
/// Therefore a copy in version 2 may have another fill value; it then also contains the chunks that were never written.
/// Only for arrays whose dimensions have names.
/// \param out  Options of an array of another format, complete except for this.
/// Source: xarray, "Zarr Encoding Specification", and `FillValueCoder` of its backends/zarr.py.
result<> keep_meaning(const array_state& from, create_options& out);

}  // namespace penstock::inline v0
