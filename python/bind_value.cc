#include "bind_value.h"

namespace penstock::inline v0::python {
namespace {

// Looked up once; they live as long as the interpreter.
struct names {
  PyObject* ndarray;
  PyObject* dtype;
};
const names& known() {
  static const names all = [] {
    const nb::module_ numpy = nb::module_::import_("numpy");
    return names{nb::object(numpy.attr("ndarray")).release().ptr(), PyUnicode_InternFromString("dtype")};
  }();
  return all;
}

}  // namespace

bool is_native(const array_handle& to, PyObject* value) noexcept {
  if (Py_TYPE(value) != reinterpret_cast<PyTypeObject*>(known().ndarray)) return false;
  PyObject* const type = PyObject_GetAttr(value, known().dtype);
  if (type == nullptr) {
    PyErr_Clear();
    return false;
  }
  const bool same = type == to.dtype.ptr();  // NumPy has one object for each of its own dtypes
  Py_DECREF(type);
  return same;
}

}  // namespace penstock::inline v0::python
