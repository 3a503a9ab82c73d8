#pragma once

#include <penstock/device.h>
#include "bind.h"

namespace penstock::inline v0::python {

/// A `_DeviceRead` of values that are, or will be, in device memory.
nb::object device_read_of(device_tensor made, nb::object dtype);

}  // namespace penstock::inline v0::python
