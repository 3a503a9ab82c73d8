#pragma once

#include "bind.h"

namespace penstock::inline v0::python {

/// The Python `_core.Array` or `_core.Group` of a node.
nb::object node_object(node&& found);

void bind_references(nb::module_& m);
void bind_found(nb::module_& m);

}  // namespace penstock::inline v0::python
