#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <penstock/open.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bind.h"
#include "bind_nodes.h"
#include "bind_tiff.h"
#include "driver/drivers.h"
#include "driver/open_hdf5.h"
#include "driver/open_tiff.h"
#include "driver/registry.h"
#include "driver/tables.h"

namespace penstock::inline v0::python {
namespace {

constexpr std::uint64_t kMostObjectBytes = std::uint64_t{1} << 40;

struct found_handle {
  found_node found;
  open_options how;
};

nb::bytes as_bytes(const std::string& text) { return nb::bytes(text.data(), text.size()); }

open_options options_of(const context_handle& with, bool cache_index, std::optional<bool> consolidated) {
  open_options out;
  out.context = with.context;
  out.cache_unversioned_indexes = cache_index;
  if (consolidated) out.use_consolidated = *consolidated ? consolidation::required : consolidation::never;
  return out;
}

search_order order_of(bool object_first) { return object_first ? search_order::object_first : search_order::by_name; }

found_handle find_in_store(const store_handle& from, const context_handle& with, nb::bytes path, nb::bytes inner,
                           bool cache_index, std::optional<bool> consolidated, bool object_first) {
  const auto trimmed = [](const nb::bytes& given) {
    std::string prefix = prefix_of(text_of(given));
    if (!prefix.empty()) prefix.pop_back();
    return prefix;
  };
  open_options how = options_of(with, cache_index, consolidated);
  target_location target;
  target.inner = trimmed(inner);
  target.at = {with.context, from.store, trimmed(path), {}, nullptr};
  target.at.uri = child_uri(from.store->uri(), prefix_of(target.at.path));
  found_node found = call_engine([&] { return find_node(std::move(target), how, order_of(object_first)); });
  return {std::move(found), std::move(how)};
}

found_handle find_local(nb::bytes uri, const context_handle& with, nb::bytes inner, bool cache_index,
                        std::optional<bool> consolidated, bool object_first) {
  open_options how = options_of(with, cache_index, consolidated);
  how.path = text_of(inner);
  const std::string name = text_of(uri);
  found_node found = call_engine([&]() -> result<found_node> {
    PENSTOCK_ASSIGN(target_location target, resolve(name, how));
    return find_node(std::move(target), how, order_of(object_first));
  });
  return {std::move(found), std::move(how)};
}

// Leaves files in archives to the caller, and objects that cannot be arrays: the caller determines why.
result<> open_hdf5_here(found_handle& made, std::optional<node>& opened) {
  if (!made.found.at.from->uri().starts_with("file://")) return {};
  made.found.inner = prefix_of(made.found.inner);
  if (!made.found.inner.empty()) made.found.inner.pop_back();
  auto read = open_hdf5(made.found.at, made.found.inner, made.how, {});
  if (!read.ok() && read.error().code() == errc::unsupported) return {};
  if (!read.ok()) return std::move(read).error();
  opened = std::move(*read);
  made.found.at.head = nullptr;  // it is not needed again
  return {};
}

/// Opens an image of a TIFF or a node of an HDF5 file, because these are opened by the thousand; for all other formats,
/// returns the found node. With a node of HDF5, it returns the file, too.
nb::object open_local(nb::str path, nb::str inner, const context_handle& with) {
  const nb::bytes name = nb::steal<nb::bytes>(PyUnicode_EncodeFSDefault(path.ptr()));
  if (!name.is_valid()) nb::raise_python_error();
  const std::string file = text_of(name);
  found_handle made{{}, options_of(with, false, std::nullopt)};
  if (PyUnicode_GetLength(inner.ptr()) != 0) {
    const nb::bytes within = nb::steal<nb::bytes>(PyUnicode_EncodeFSDefault(inner.ptr()));
    if (!within.is_valid()) nb::raise_python_error();
    made.how.path = text_of(within);
  }
  std::optional<node> image, dataset;
  call_engine([&]() -> result<> {
    PENSTOCK_ASSIGN(target_location target, resolve(file, made.how));
    PENSTOCK_ASSIGN(made.found, find_node(std::move(target), made.how, search_order::by_name));
    if (made.found.driver.get() == &tiff_driver() && made.found.inner.empty() && !made.found.opened) {
      PENSTOCK_ASSIGN(image, made.found.driver->open(made.found.at, made.how));
    }
    if (made.found.driver.get() == &hdf5_driver() && !made.found.opened) return open_hdf5_here(made, dataset);
    return {};
  });
  if (dataset) return nb::make_tuple(node_object(std::move(*dataset)), nb::cast(std::move(made)));
  return image ? node_object(std::move(*image)) : nb::cast(std::move(made));
}

std::string driver_name(const found_handle& self) {
  if (self.found.driver != nullptr) return std::string(self.found.driver->name());
  if (self.found.references != nullptr) return std::string(kerchunk_driver().name());
  return self.found.at.head != nullptr && !self.found.opened ? "" : "folder";
}

std::optional<std::uint64_t> size_of(const found_handle& self) {
  const auto& head = self.found.at.head;
  if (head == nullptr || head->object_size == byte_range::kAll) return std::nullopt;
  return head->object_size;
}

nb::bytes begin_of(const found_handle& self) {
  const auto& head = self.found.at.head;
  return head == nullptr ? nb::bytes("", 0) : nb::bytes(head->bytes.data(), head->bytes.size());
}

nb::bytes content_of(const found_handle& self) {
  const location& at = self.found.at;
  if (at.head == nullptr) raise(error(errc::invalid_argument, "'" + at.uri + "' is a folder"));
  if (at.head->object_size == at.head->bytes.size()) return begin_of(self);
  const std::vector<std::byte> bytes = call_engine([&]() -> result<std::vector<std::byte>> {
    auto read = read_whole(at, kMostObjectBytes);
    if (!read.ok()) return std::move(read).error().note("opening '" + at.uri + "'");
    return read;
  });
  return nb::bytes(bytes.data(), bytes.size());
}

nb::object references_of(const found_handle& self) {
  if (self.found.references == nullptr) return nb::none();
  return as_bytes(self.found.references->dump());
}

nb::object open_it(const found_handle& self) {
  return node_object(call_engine([&, found = self.found]() mutable { return open_found(std::move(found), self.how); }));
}

nb::object open_image(const found_handle& self, nb::object tiff) {
  const tiff_options image = tiff.is_none() ? tiff_options() : tiff_options_of(tiff);
  return node_object(call_engine([&]() -> result<node> {
    const location& at = self.found.at;
    PENSTOCK_ASSIGN(std::optional<array> opened, open_tiff(place_of(at, self.how), image, at.head.get()));
    if (!opened) return error(errc::not_found, "no TIFF at '" + at.uri + "'");
    return node(std::move(*opened));
  }));
}

nb::object open_in_hdf5(const found_handle& self, std::optional<std::uint64_t> size, bool needs_ranges) {
  hdf5_hints hints;
  hints.size = size;
  hints.needs_ranges = needs_ranges;
  return node_object(call_engine([&] { return open_hdf5(self.found.at, self.found.inner, self.how, hints); }));
}

std::optional<std::string> name_of(const std::shared_ptr<const format_driver>& driver) {
  if (driver == nullptr) return std::nullopt;
  return std::string(driver->name());
}

std::optional<std::string> driver_of_bytes(nb::bytes begin, const context_handle& with) {
  object_head head;
  const auto* const from = static_cast<const std::byte*>(begin.data());
  head.bytes.assign(from, from + begin.size());
  head.object_size = head.bytes.size();
  return name_of(driver_of(*with.context, head, {}));
}

std::optional<std::string> table_kind_of(nb::bytes begin) {
  const auto* const from = static_cast<const std::byte*>(begin.data());
  switch (kind_of_table({from, begin.size()})) {
    case table_kind::parquet:
      return "parquet";
    case table_kind::arrow_file:
      return "arrow file";
    case table_kind::arrow_stream:
      return "arrow stream";
    case table_kind::none:
      break;
  }
  return std::nullopt;
}

nb::object object_in(const store_handle& from, const context_handle& with, nb::bytes path) {
  location at{with.context, from.store, text_of(path), {}, nullptr};
  at.uri = child_uri(at.from->uri(), prefix_of(at.path));
  auto found = call_engine([&] { return object_at(std::move(at)); });
  return found ? nb::cast(found_handle{std::move(*found), options_of(with, false, std::nullopt)}) : nb::none();
}

}  // namespace

void bind_found(nb::module_& m) {
  nb::class_<found_handle>(m, "Found", "The node at a location, not opened yet: found_node of driver/registry.h.")
      .def_prop_ro("driver", &driver_name)
      .def_prop_ro("uri", [](const found_handle& self) { return to_str(self.found.at.uri); })
      .def_prop_ro("store",
                   [](const found_handle& self) {
                     return store_handle{std::const_pointer_cast<penstock::store>(self.found.at.from)};
                   })
      .def_prop_ro("key", [](const found_handle& self) { return as_bytes(self.found.at.path); })
      .def_prop_ro("inner", [](const found_handle& self) { return as_bytes(self.found.inner); })
      .def_prop_ro("size", &size_of)
      .def_prop_ro("begin", &begin_of)
      .def_prop_ro("zmetadata", &references_of)
      .def(
          "within",
          [](const found_handle& self, nb::bytes inner) {
            found_handle other = self;
            other.found.inner = text_of(inner);
            return other;
          },
          nb::arg("inner"), "The same object, to open another of its nodes.")
      .def("content", &content_of, "All bytes of the object.")
      .def("open", &open_it, "Open it as the library does.")
      .def("open_tiff", &open_image, nb::arg("tiff").none(), "Open an image of the TIFF.")
      .def("open_hdf5", &open_in_hdf5, nb::arg("size").none(), nb::arg("needs_ranges"),
           "Open a node of the HDF5 file. `size`: of the file, if the store does not report it. `needs_ranges`: a "
           "server that ignores ranges fails now.");
  m.def("table_kind", &table_kind_of, nb::arg("begin"),
        "The kind of Parquet or Arrow file with these first bytes; None: another file.");
  m.def(
      "is_archive",
      [](nb::bytes begin) { return begins_as_archive({static_cast<const std::byte*>(begin.data()), begin.size()}); },
      nb::arg("begin"), "Whether bytes begin a zip archive.");
  m.def("driver_of_bytes", &driver_of_bytes, nb::arg("begin"), nb::arg("context"),
        "The driver that recognises the first bytes of an object; None if none does.");
  m.def(
      "driver_by_name",
      [](nb::bytes name, const context_handle& with) { return name_of(driver_by_name(*with.context, text_of(name))); },
      nb::arg("name"), nb::arg("context"), "The driver whose objects have names with such an ending; None: any may.");
  m.def(
      "names_references", [](nb::bytes name) { return names_references(text_of(name)); }, nb::arg("name"),
      "Whether a folder of reference tables may have this name.");
  m.def("object_at", &object_in, nb::arg("store"), nb::arg("context"), nb::arg("path"),
        "The object at a path, of any kind; None if no object has that name. One request.");
  m.def("find_node", &find_in_store, nb::arg("store"), nb::arg("context"), nb::arg("path"), nb::arg("inner"),
        nb::arg("cache_index") = false, nb::arg("consolidated").none() = nb::none(), nb::arg("object_first") = false,
        "Find the node at `inner` below `path` of a store.");
  m.def(
      "open_local", &open_local, nb::arg("path"), nb::arg("inner"), nb::arg("context"),
      "Find the node at `inner` below a path of this machine. The image if it is a TIFF, a node and its file if it is "
      "in an HDF5 file, else not opened.");
  m.def("find_local", &find_local, nb::arg("uri"), nb::arg("context"), nb::arg("inner"), nb::arg("cache_index") = false,
        nb::arg("consolidated").none() = nb::none(), nb::arg("object_first") = false,
        "Find the node at `inner` below a path of this machine, or below a `file:` or `zip:` URI.");
}

}  // namespace penstock::inline v0::python
