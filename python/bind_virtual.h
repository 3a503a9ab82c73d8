#pragma once

#include "bind.h"

namespace penstock::inline v0::python {

void bind_virtual(nb::module_& m);

}  // namespace penstock::inline v0::python
