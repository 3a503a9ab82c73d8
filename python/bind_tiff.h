#pragma once

#include <penstock/geo_values.h>
#include <penstock/tiff.h>

#include "bind.h"

namespace penstock::inline v0::python {

/// The contents of an array's header in addition to the array, as a `TiffDetails`; None if it is not an image of a
/// TIFF.
nb::object tiff_of(const array_handle& self);
/// Opens another image of the same file; \param options  In the form of `tiff_options_of`.
array_handle tiff_image_of(const array_handle& self, nb::handle options);
/// From the dict that penstock/geo/tiff.py makes.
tiff_options tiff_options_of(nb::handle from);

/// Converts a Python number to a nodata value. Raises TypeError or ValueError if it is not a number.
nodata_value nodata_of_object(nb::handle value);
/// From (a, b, c, d, e, f).
affine_transform transform_of_object(nb::handle from);

}  // namespace penstock::inline v0::python
