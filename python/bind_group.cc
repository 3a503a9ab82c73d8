#include "bind.h"

#include <string>

namespace penstock::inline v0::python {
namespace {

nb::object cast(node&& found) {
  if (auto* const an_array = std::get_if<array>(&found)) return nb::cast(array_handle(std::move(*an_array)));
  return nb::cast(group_handle{std::move(std::get<group>(found))});
}

nb::list keys(const group_handle& self) {
  nb::list names;
  for (const std::string& name : call_engine([&] { return self.group.keys(); })) names.append(to_str(name));
  return names;
}

open_options options_of(const context_handle& with, nb::bytes path, bool cache_index) {
  open_options options;
  options.context = with.context;
  options.path = std::string(path.c_str(), path.size());
  options.cache_unversioned_indexes = cache_index;
  return options;
}

}  // namespace

void bind_group(nb::module_& m) {
  nb::class_<group_handle>(m, "Group", "An open group; penstock.Group derives from it.")
      .def(nb::init<const group_handle&>(), nb::arg("from_"))
      .def_prop_ro("uri", [](const group_handle& self) { return to_str(self.group.uri()); })
      .def_prop_ro("format", [](const group_handle& self) { return to_str(self.group.format()); })
      .def_prop_ro("_attributes_json", [](const group_handle& self) { return to_str(self.group.attributes_json()); })
      .def("keys", keys, "Names of the direct children, sorted.")
      .def(
          "_open",
          [](const group_handle& self, nb::bytes path) {
            const std::string child(path.c_str(), path.size());
            return cast(call_engine([&] { return open(self.group, child); }));
          },
          nb::arg("path"));
}

void bind_open(nb::module_& m) {
  // Paths come as bytes: a file's name need not be UTF-8.
  m.def(
      "open_uri",
      [](nb::bytes uri, const context_handle& with, nb::bytes path, bool cache_index) {
        const std::string target(uri.c_str(), uri.size());
        const open_options options = options_of(with, path, cache_index);
        return cast(call_engine([&] { return open(target, options); }));
      },
      nb::arg("uri"), nb::arg("context"), nb::arg("path"), nb::arg("cache_index"), "Open a path or a URI.");
  m.def(
      "open_store",
      [](const store_handle& from, const context_handle& with, nb::bytes path, bool cache_index) {
        const open_options options = options_of(with, path, cache_index);
        return cast(call_engine([&] { return open(from.store, options); }));
      },
      nb::arg("store"), nb::arg("context"), nb::arg("path"), nb::arg("cache_index"), "Open within a store.");
}

}  // namespace penstock::inline v0::python
