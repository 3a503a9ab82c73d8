#include "bind_virtual.h"
#include "list_argument.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <penstock/virtual.h>

#include "api/joined/open_datasets.h"
#include "bind_nodes.h"
#include "driver/open_hdf5.h"
#include "engine/array_state.h"

namespace penstock::inline v0::python {
namespace {

group_handle open_variables(const store_handle& from, const context_handle& with, nb::list keys, nb::str concat,
                            nb::bytes path, const std::string& order, bool fills, bool all_attributes, bool compares,
                            nb::handle variables, nb::handle without) {
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
  how.variables = list_of<std::string>(variables);
  how.without = list_of<std::string>(without);
  return group_handle{call_engine([&] { return open_virtual(from.store, std::move(names), how); })};
}

nb::tuple open_many_datasets(const context_handle& with, nb::list given, nb::bytes dataset, std::int64_t axis,
                             bool allow_gaps, bool needs_ranges) {
  std::vector<dataset_file> files;
  for (const nb::handle each : given) {
    const nb::tuple parts = tuple_of(each, 4, "a file");
    dataset_file& made = files.emplace_back();
    made.from = nb::cast<const store_handle&>(parts[0]).store;
    made.key = text_from(parts[1]);
    if (!parts[2].is_none()) made.hints.size = nb::cast<std::uint64_t>(parts[2]);
    if (!parts[3].is_none()) made.crc32c = nb::cast<std::uint32_t>(parts[3]);
    made.hints.needs_ranges = needs_ranges;
  }
  dataset_options how;
  how.context = with.context;
  how.dataset = text_of(dataset);
  how.axis = axis;
  if (allow_gaps) how.gaps = shard_gaps::allow;
  dataset_parts found = call_engine([&] { return merge_datasets(files, how); });
  nb::object merged = nb::none();
  if (found.merged) merged = nb::cast(array_handle(std::move(*found.merged)));
  nb::list parts, lengths;
  for (dataset_parts::part& each : found.parts)
    parts.append(
        nb::make_tuple(each.file, nb::bytes(each.path.data(), each.path.size()), array_handle(std::move(each.opened))));
  for (const std::uint64_t each : found.lengths) lengths.append(each);
  return nb::make_tuple(merged, parts, nb::bytes(found.dataset.data(), found.dataset.size()), found.axis, lengths);
}

}  // namespace

void bind_virtual(nb::module_& m) {
  m.def("open_virtual", &open_variables, nb::arg("store"), nb::arg("context"), nb::arg("keys"), nb::arg("concat"),
        nb::arg("path"), nb::arg("order"), nb::arg("fills"), nb::arg("all_attributes"), nb::arg("compares"),
        nb::arg("variables"), nb::arg("without"),
        "Many files of a store as one group; <penstock/virtual.h>. `order` is 'given', 'values' or 'unchecked'.");
  m.def("open_hdf5_datasets", &open_many_datasets, nb::arg("context"), nb::arg("files"), nb::arg("dataset"),
        nb::arg("axis"), nb::arg("allow_gaps"), nb::arg("needs_ranges"),
        "Datasets of HDF5 files as one array; <penstock/datasets.h>. `files` are (store, key, size or "
        "None, CRC-32C or None). Returns (array of references or None, [(file, path, array)] where it is None, name of "
        "the dataset, axis, lengths along it).");
  m.def(
      "has_hdf5_facts", [](const array_handle& of) { return hdf5_facts_of(of.array().state()) != nullptr; },
      nb::arg("array"), "Whether the array has what an HDF5 file says of its first part.");
}

}  // namespace penstock::inline v0::python
