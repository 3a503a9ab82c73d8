#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <penstock/joined.h>
#include <penstock/open.h>

#include "bind.h"
#include "bind_nodes.h"
#include "driver/node_mode.h"
#include "driver/open_hdf5.h"

#include <string>

namespace penstock::inline v0::python {

nb::object node_object(node&& found) {
  if (auto* const an_array = std::get_if<array>(&found)) return nb::cast(array_handle(std::move(*an_array)));
  return nb::cast(group_handle{std::move(std::get<group>(found))});
}

namespace {

nb::list keys(const group_handle& self) {
  nb::list names;
  for (const std::string& name : call_engine([&, g = self.group()] { return g.keys(); })) names.append(to_str(name));
  return names;
}

nb::list members(const group_handle& self) {
  nb::list made;
  for (auto& [name, child] : call_engine([&, g = self.group()] { return open_members(g); })) {
    made.append(nb::make_tuple(to_str(name), node_object(std::move(child))));
  }
  return made;
}

}  // namespace

void bind_group(nb::module_& m) {
  nb::class_<group_handle>(m, "Group", "An open group; penstock.Group derives from it.")
      .def(nb::init<const group_handle&>(), nb::arg("from_"))
      .def_prop_ro("uri", [](const group_handle& self) { return to_str(self.group().uri()); })
      .def_prop_ro("format", [](const group_handle& self) { return to_str(self.group().format()); })
      .def_prop_ro("_attributes_json", [](const group_handle& self) { return self.attributes.get(self.group()); })
      .def_prop_ro("read_only", [](const group_handle& self) { return self.group().read_only(); })
      .def_prop_ro("consolidated", [](const group_handle& self) { return self.group().consolidated(); })
      .def("keys", keys, "Names of the direct children, sorted.")
      .def("_members", members, "The direct children, opened, by name.")
      .def(
          "_open",
          [](const group_handle& self, nb::bytes path) {
            const std::string child(path.c_str(), path.size());
            return node_object(call_engine([&, g = self.group()] { return open(g, child); }));
          },
          nb::arg("path"));
}

void bind_open(nb::module_& m) {
  m.def(
      "check_writable",
      [](nb::object opened) {
        if (nb::isinstance<group_handle>(opened)) {
          unwrap(check_writable(nb::cast<const group_handle&>(opened).group().state()));
        } else {
          unwrap(check_writable(nb::cast<const array_handle&>(opened).array().state()));
        }
      },
      nb::arg("node"), "Fail as a write through the node would before it touches storage.");
  m.def(
      "set_mode",
      [](nb::object opened, const std::string& mode) {
        const open_mode how = mode == "r"    ? open_mode::read
                              : mode == "r+" ? open_mode::read_write
                              : mode == "a"  ? open_mode::append
                                             : open_mode::existing;
        if (nb::isinstance<group_handle>(opened)) {
          auto& self = nb::cast<group_handle&>(opened);
          const auto lock = self.group.lock_changes();
          node as = call_engine([&, before = self.group()] { return in_mode(node(before), how); });
          self.group = std::get<group>(std::move(as));
        } else {
          auto& self = nb::cast<array_handle&>(opened);
          const auto lock = self.array.lock_changes();
          node as = call_engine([&, before = self.array()] { return in_mode(node(before), how); });
          self.array = std::get<array>(std::move(as));
        }
      },
      nb::arg("node"), nb::arg("mode"),
      "Refuse writes through a node that was just opened (\"r\"), or fail if it cannot be written to (\"r+\", \"a\").");
  m.def(
      "open_zarr_arrays",
      [](const context_handle& with, nb::list paths) -> nb::object {
        std::vector<std::string> names;
        for (const nb::handle each : paths) {
          const nb::bytes path = nb::cast<nb::bytes>(each);
          names.emplace_back(path.c_str(), path.size());
        }
        open_options how;
        how.context = with.context;
        auto opened = [&] {
          const without_gil released;
          return open_arrays(names, how);
        }();
        if (!opened.ok()) return nb::none();
        for (const array& each : *opened)
          if (!each.format().starts_with("zarr")) return nb::none();
        nb::list out;
        for (array& each : *opened) out.append(node_object(node(std::move(each))));
        return out;
      },
      nb::arg("context"), nb::arg("paths"), "Open local Zarr arrays, several at a time. None if one cannot be opened.");
  m.def(
      "open_hdf5",
      [](const store_handle& from, const context_handle& with, nb::bytes key, nb::bytes path, nb::object size,
         bool needs_ranges) {
        open_options how;
        how.context = with.context;
        const std::string name(key.c_str(), key.size()), inner(path.c_str(), path.size());
        hdf5_hints hints;
        if (!size.is_none()) hints.size = nb::cast<std::uint64_t>(size);
        hints.needs_ranges = needs_ranges;
        return node_object(call_engine([&] { return open_hdf5(from.store, name, inner, how, hints); }));
      },
      nb::arg("store"), nb::arg("context"), nb::arg("key"), nb::arg("path"), nb::arg("size").none() = nb::none(),
      nb::arg("needs_ranges") = false,
      "The dataset or group at a path of the HDF5 file that has a key in a store. `size`: of the file, in bytes, where "
      "the store does not report it. `needs_ranges`: a server that ignores ranges is to fail now.");
}

}  // namespace penstock::inline v0::python
