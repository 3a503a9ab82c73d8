#include "bind_virtual.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include <penstock/virtual.h>

#include "driver/open_hdf5.h"
#include "engine/array_state.h"

namespace penstock::inline v0::python {
namespace {

group_handle open_many(const store_handle& from, const context_handle& with, nb::list keys, nb::str concat,
                       nb::bytes path, const std::string& order, bool fills, bool all_attributes, bool compares,
                       const std::vector<std::string>& variables, const std::vector<std::string>& without) {
  std::vector<std::string> names;
  for (const nb::handle each : keys) {
    const nb::bytes name = nb::cast<nb::bytes>(each);
    names.emplace_back(name.c_str(), name.size());
  }
  virtual_options how;
  how.context = with.context;
  how.concat = utf8_of(concat);
  how.path = std::string(path.c_str(), path.size());
  how.order = order == "values"      ? virtual_order::values
              : order == "unchecked" ? virtual_order::unchecked
                                     : virtual_order::given;
  how.missing = fills ? virtual_missing::fill : virtual_missing::refuse;
  how.attributes = all_attributes ? virtual_attributes::all : virtual_attributes::meaning;
  how.compare_values = compares;
  how.variables = variables;
  how.without = without;
  return group_handle{call_engine([&] { return open_virtual(from.store, std::move(names), how); })};
}

}  // namespace

void bind_virtual(nb::module_& m) {
  m.def("open_virtual", &open_many, nb::arg("store"), nb::arg("context"), nb::arg("keys"), nb::arg("concat"),
        nb::arg("path"), nb::arg("order"), nb::arg("fills"), nb::arg("all_attributes"), nb::arg("compares"),
        nb::arg("variables"), nb::arg("without"),
        "Many files of a store as one group; <penstock/virtual.h>. `order` is 'given', 'values' or 'unchecked'.");
  m.def(
      "has_hdf5_facts", [](const array_handle& of) { return hdf5_facts_of(of.array.state()) != nullptr; },
      nb::arg("array"), "Whether the array has what an HDF5 file says of its first part.");
}

}  // namespace penstock::inline v0::python
