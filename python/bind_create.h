#pragma once

#include <penstock/create.h>
#include <penstock/tiff_writer.h>

#include "bind.h"

namespace penstock::inline v0::python {

/// Options of a new array: all members that Python passes have the names of those of create_options.
create_options create_options_of(const context_handle& with, const nb::bytes& path, const nb::dict& given);

/// From the dict that penstock/geo/writing.py makes.
tiff_create_options tiff_create_options_of(const nb::dict& given);

}  // namespace penstock::inline v0::python
