#include <limits>

#include "bind.h"

namespace penstock::inline v0::python {
namespace {

constexpr const char* kNotAnIndex =
    "only integers, slices (`:`), ellipsis (`...`) and numpy.newaxis (`None`) are valid indices here; "
    "lists, index arrays and masks wait for oindex and vindex, which this release does not have";

void refuse(const char* why) noexcept { set_error(error(errc::out_of_range, why)); }

bool parse_slice(PyObject* item, std::vector<basic_item>& items) {
  Py_ssize_t start = 0, stop = 0, step = 0;
  if (PySlice_Unpack(item, &start, &stop, &step) < 0) {
    if (PyErr_ExceptionMatches(PyExc_ValueError) == 0) return false;
    PyErr_Clear();
    items.emplace_back(slice{std::nullopt, std::nullopt, 0});  // the engine's own words for a step of 0
    return true;
  }
  // Unpack spells an absent part as the number that clips to it; the text of a plan reads better without.
  constexpr Py_ssize_t kMax = std::numeric_limits<Py_ssize_t>::max(), kMin = std::numeric_limits<Py_ssize_t>::min();
  slice parsed;
  if (start != (step < 0 ? kMax : 0)) parsed.start = start;
  if (stop != (step < 0 ? kMin : kMax)) parsed.stop = stop;
  if (step != 1) parsed.step = step;
  items.emplace_back(parsed);
  return true;
}

bool parse_item(PyObject* item, std::vector<basic_item>& items, bool& has_ellipsis) {
  PyTypeObject* const type = Py_TYPE(item);
  if (type == &PyLong_Type) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(item, &overflow);
    if (overflow != 0) {
      refuse("cannot fit 'int' into an index-sized integer");
      return false;
    }
    items.emplace_back(std::int64_t{value});
    return true;
  }
  if (type == &PySlice_Type) return parse_slice(item, items);
  if (item == Py_Ellipsis) {
    if (has_ellipsis) {
      refuse("an index can only have a single ellipsis ('...')");
      return false;
    }
    has_ellipsis = true;
    items.emplace_back(ellipsis);
    return true;
  }
  if (item == Py_None) {
    items.emplace_back(newaxis);
    return true;
  }
  if (type == &PyBool_Type) {
    refuse("a bool is a mask to NumPy, not an index: masks wait for vindex, which this release does not have");
    return false;
  }
  // NumPy integers, 0-d integer arrays, and whatever else says that it is an index.
  PyObject* const number = PyIndex_Check(item) != 0 ? PyNumber_Index(item) : nullptr;
  if (number == nullptr) {
    if (PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_TypeError) == 0) return false;
    PyErr_Clear();
    refuse(kNotAnIndex);
    return false;
  }
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
  Py_DECREF(number);
  if (overflow != 0) {
    refuse("cannot fit 'int' into an index-sized integer");
    return false;
  }
  items.emplace_back(std::int64_t{value});
  return true;
}

}  // namespace

bool parse_key(PyObject* key, std::vector<basic_item>& items, bool& has_ellipsis) noexcept {
  try {
    items.clear();
    has_ellipsis = false;
    if (Py_TYPE(key) != &PyTuple_Type && PyTuple_Check(key) == 0) return parse_item(key, items, has_ellipsis);
    const Py_ssize_t count = PyTuple_Size(key);
    for (Py_ssize_t i = 0; i < count; ++i) {
      if (!parse_item(PyTuple_GetItem(key, i), items, has_ellipsis)) return false;
    }
    return true;
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
    return false;
  }
}

selection selection_of(nb::handle key) {
  basic_selection which;
  bool has_ellipsis = false;
  if (!parse_key(key.ptr(), which.items, has_ellipsis)) throw nb::python_error();
  return which;
}

}  // namespace penstock::inline v0::python
