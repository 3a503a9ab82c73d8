#pragma once

#include <penstock/device.h>
#include "bind.h"

namespace penstock::inline v0::python {

/// A `_DeviceRead` of values that are, or will be, in device memory. `owner`: owns that memory, if the tensor does not.
nb::object device_read_of(device_tensor made, nb::object dtype, nb::object owner = nb::none());

}  // namespace penstock::inline v0::python
