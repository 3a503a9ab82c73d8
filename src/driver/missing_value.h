#pragma once

#include <penstock/create.h>

#include <penstock/extend/json.h>
#include "engine/array_state.h"
#include "format/zarr/zarr_metadata.h"

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

/// The attributes of a copy in HDF5 or NetCDF: without the names of dimensions, and with the missing value as the
/// number `_FillValue`. Unchanged if the dimensions have no names.
result<json> attributes_in_netcdf(const array_state& from);

/// The attributes of an array of kerchunk's references, with `_FillValue`: kerchunk moves this attribute of a NetCDF
/// file into the fill value of Zarr 2, which is the missing value there. Unchanged if the array has no fill value, no
/// named dimensions, or elements that are not numbers.
/// \param attributes  The content of `.zattrs`: an object, or null.
json with_fill_as_attribute(const zarr_metadata& of, json attributes);

/// The fill value of references of Zarr 2 with which xarray masks only the values that the attribute `_FillValue`
/// masks. It is null if the array's own fill value would mask other values, unless it fills chunks without a reference.
/// \param attributes   The content of `.zattrs`.
/// \param has_gaps     Whether there are chunks without a reference.
json fill_value_of_references(const zarr_metadata& of, const json& attributes, bool has_gaps);

}  // namespace penstock::inline v0
