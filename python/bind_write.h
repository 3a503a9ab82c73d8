#pragma once

#include "bind.h"

namespace penstock::inline v0::python {

/// `a[key] = value`, as the type's slot: returns -1 if a Python exception is set.
int set_item(PyObject* self, PyObject* key, PyObject* value);

/// Adds the methods that change an array.
void bind_write(nb::module_& m, nb::class_<array_handle>& type);

}  // namespace penstock::inline v0::python
