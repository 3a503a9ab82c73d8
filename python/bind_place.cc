#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <penstock/place.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind.h"
#include "bind_nodes.h"
#include "driver/reference_tree.h"
#include "driver/registry.h"
#include "driver/schemes.h"
#include "format/reference/location_rule.h"
#include "list_argument.h"

namespace penstock::inline v0::python {
namespace {

/// s3fs passes options to its client in a dict of their own, and those may have headers.
constexpr int kMostDepth = 3;

/// The pairs of a mapping; an invalid object if `value` is not a mapping.
nb::object pairs_of(nb::handle value) {
  if (nb::hasattr(value, "items")) return value.attr("items")();
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) return nb::borrow(value);
  return {};
}

storage_options options_of(nb::handle given, int depth);

option_value value_of(nb::handle value, int depth) {
  option_value out;
  if (value.is_none()) return out;
  out.type = utf8_of(value.type().attr("__name__"));
  const int truth = PyObject_IsTrue(value.ptr());
  if (truth < 0) PyErr_Clear();  // arrays, for instance: no option has such a value
  out.truth = truth != 0;
  if (nb::isinstance<nb::str>(value) || nb::hasattr(value, "__fspath__")) {
    const nb::object text = nb::module_::import_("os").attr("fsdecode")(value);
    out.is = option_value::kind::text;
    out.text = utf8_of(text);
  } else if (PyFloat_Check(value.ptr()) || nb::hasattr(value, "__index__")) {
    out.is = PyBool_Check(value.ptr()) ? option_value::kind::boolean : option_value::kind::number;
    out.number = PyFloat_AsDouble(value.ptr());
    if (PyErr_Occurred() != nullptr) {  // an integer beyond all limits
      PyErr_Clear();
      out.number = -1;
    }
  } else if (depth < kMostDepth && pairs_of(value).is_valid()) {
    out.is = option_value::kind::fields;
    out.fields = options_of(value, depth + 1);
  } else {
    out.is = option_value::kind::other;
  }
  return out;
}

storage_options options_of(nb::handle given, int depth) {
  storage_options out;
  if (given.is_none()) return out;
  const nb::object pairs = pairs_of(given);
  if (!pairs.is_valid()) raise(error(errc::invalid_argument, "storage_options are a mapping of names and values"));
  for (const nb::handle each : pairs) {
    if (nb::len(each) != 2) raise(error(errc::invalid_argument, "storage options are pairs of a name and a value"));
    out.push_back({utf8_of(nb::str(nb::object(each[0]))), value_of(nb::object(each[1]), depth)});
  }
  return out;
}

/// \param is_installed  Called if another library is preferred: whether one is installed.
bool is_served_here(uri_server server, const nb::callable& is_installed) {
  return server == uri_server::library ||
         (server == uri_server::another_if_installed && !nb::cast<bool>(is_installed()));
}

nb::tuple as_tuple(place&& found) {
  return nb::make_tuple(store_handle{std::move(found.store)}, nb::bytes(found.path.data(), found.path.size()));
}

/// Returns None for a local name. Text: the reason why another library has to open the URI, or empty.
nb::object find_elsewhere(nb::bytes uri, const context_handle& with, nb::handle storage_options,
                          const nb::callable& is_installed) {
  const std::string name = text_of(uri);
  if (added_scheme(name, with.context.get()) == nullptr && !is_elsewhere(name)) return nb::none();
  const auto given = options_of(storage_options, 0);
  if (!is_served_here(server_of(name, given, with.context.get()), is_installed)) return nb::str("");
  place_options how;
  how.context = with.context;
  how.remote = unwrap(remote_options_of(name, given));
  auto found = [&] {
    const without_gil released;
    return find_place(name, how);
  }();
  if (!found.ok() && found.error().code() == errc::unsupported) return to_str(found.error().message());
  return as_tuple(unwrap(std::move(found)));
}

nb::tuple find_here(nb::bytes uri, const context_handle& with, nb::handle storage_options) {
  const std::string name = text_of(uri);
  if (!options_of(storage_options, 0).empty())
    raise(error(errc::unsupported, "storage_options are for remote URIs, not for '" + name + "'"));
  return as_tuple(call_engine([&] { return find_place(name, {with.context, {}}); }));
}

nb::tuple find_object(nb::bytes uri, const context_handle& with) {
  const std::string name = text_of(uri);
  return as_tuple(call_engine([&] { return find_object_place(name, {with.context, {}}); }));
}

bool serves(nb::bytes uri, nb::handle storage_options, const nb::callable& is_installed) {
  return is_served_here(server_of(text_of(uri), options_of(storage_options, 0)), is_installed);
}

void check_location(const std::string& document, std::optional<bool> allow_local,
                    const std::vector<std::string>& expected, const std::string& location) {
  const location_rule rule{document, allow_local, {expected.begin(), expected.end()}};
  unwrap(rule.check(location, location));
}

}  // namespace

void bind_places(nb::module_& m) {
  m.def("find_place", &find_here, nb::arg("uri"), nb::arg("context"), nb::arg("storage_options").none() = nb::none(),
        "The store that a path of this machine names, and the path within it.");
  m.def("find_object_place", &find_object, nb::arg("uri"), nb::arg("context"),
        "The store and the name there of a new file that a path of this machine names.");
  m.def("find_elsewhere", &find_elsewhere, nb::arg("uri"), nb::arg("context"), nb::arg("storage_options").none(),
        nb::arg("is_installed"),
        "The store of a URI and the path within it; None if it names something of this machine; a text if another "
        "library has to open it: why the engine does not.");
  m.def("serves", &serves, nb::arg("uri"), nb::arg("storage_options").none(), nb::arg("is_installed"),
        "Whether the engine's own stores support a remote URI's scheme and every option.");
  m.def(
      "is_elsewhere", [](nb::bytes uri) { return is_elsewhere(text_of(uri)); }, nb::arg("uri"),
      "Whether a name is a URI of something that is not of this machine, or a chain of such.");
  m.def(
      "storage_option_names",
      [](nb::bytes scheme) {
        nb::list out;
        for (const std::string_view name : storage_option_names(text_of(scheme))) out.append(to_str(name));
        return out;
      },
      nb::arg("scheme"), "The names of the engine's storage options for a scheme; none if it has no store for it.");
  m.def(
      "split_at_object",
      [](nb::bytes uri) {
        const object_uri split = split_at_object(text_of(uri));
        return nb::make_tuple(nb::bytes(split.object.data(), split.object.size()),
                              nb::bytes(split.inner.data(), split.inner.size()));
      },
      nb::arg("uri"), "A remote URI that leads into an HDF5 or NetCDF file, and the path within it; else it and \"\".");
  m.def(
      "names_for_others", [](nb::bytes uri) { return names_for_others(text_of(uri)); }, nb::arg("uri"),
      "Whether another process may be given a remote URI: not if it may have a secret.");
  m.def(
      "local_path",
      [](nb::bytes name) {
        const std::string path = unwrap(local_path_of(text_of(name)));
        return nb::bytes(path.data(), path.size());
      },
      nb::arg("name"), "The path that a `file:` URI names; every other name unchanged.");
  m.def(
      "named_location",
      [](nb::bytes folder, nb::bytes name) {
        const std::string found = named_location(text_of(folder), text_of(name));
        return nb::bytes(found.data(), found.size());
      },
      nb::arg("folder"), nb::arg("name"), "The path or URL that a manifest in a folder names: named_location.");
  m.def(
      "check_location",
      [](nb::bytes document, std::optional<bool> allow_local, nb::handle expected, nb::bytes location) {
        std::vector<std::string> names;
        for (const nb::bytes& each : list_of<nb::bytes>(expected)) names.push_back(text_of(each));
        check_location(text_of(document), allow_local, names, text_of(location));
      },
      nb::arg("document"), nb::arg("allow_local").none(), nb::arg("expected"), nb::arg("location"),
      "Fail if a document may not name a location: location_rule.");
}

}  // namespace penstock::inline v0::python
