#pragma once

#include <penstock/tiff.h>

#include "bind.h"

namespace penstock::inline v0::python {

/// What an array's header says beside the array, as a `TiffDetails`; None where it is no image of a TIFF.
nb::object tiff_of(const array_handle& self);
/// Another image of the same file; \param options  As `tiff_options_of` takes them.
array_handle tiff_image_of(const array_handle& self, nb::handle options);
/// From the dict that penstock/geo/tiff.py makes.
tiff_options tiff_options_of(nb::handle from);

}  // namespace penstock::inline v0::python
