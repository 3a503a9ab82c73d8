#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <vector>

namespace penstock::inline v0::python {

/// The elements of an argument that is a list or a tuple.
///
/// nanobind's own conversion of arguments to vectors takes any sequence, allocates as many elements as `__len__`
/// reports, and ends the process if that fails.
template <class T>
std::vector<T> list_of(nanobind::handle given) {
  if (!nanobind::isinstance<nanobind::list>(given) && !nanobind::isinstance<nanobind::tuple>(given))
    throw nanobind::type_error("a list or a tuple is needed");
  std::vector<T> out;
  if (!nanobind::try_cast(given, out)) throw nanobind::type_error("an element of a list has another type");
  return out;
}

}  // namespace penstock::inline v0::python
