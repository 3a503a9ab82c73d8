#include <nanobind/stl/string.h>
#include <penstock/place.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind_nodes.h"
#include "driver/export_references.h"
#include "driver/open_reference.h"
#include "driver/open_saved.h"
#include "driver/reference_tree.h"
#include "driver/saved_arrays.h"
#include "format/reference/reference_table.h"

namespace penstock::inline v0::python {
namespace {

std::optional<place> place_from(nb::handle found) {
  if (found.is_none()) return std::nullopt;
  const nb::tuple parts = tuple_of(found, 2, "a place");
  return place{nb::cast<const store_handle&>(parts[0]).store, text_of(nb::cast<nb::bytes>(parts[1]))};
}

/// A Python function that any thread may call and drop.
class held_function {
 public:
  explicit held_function(nb::object function)
      : held_(function.release().ptr(), [](PyObject* object) { drop_reference(object); }) {}

  /// The result of `work` for the function, with the GIL held.
  template <class Work>
  auto call(Work&& work) const -> result<decltype(work(nb::handle()))> {
    if (!may_enter_python()) return error(errc::cancelled, "the interpreter is ending");
    const with_gil gil;
    try {
      return work(nb::handle(held_.get()));
    } catch (nb::python_error& failed) {
      failed.restore();
      return take_python_error();
    } catch (const std::exception& failed) {
      return error(errc::invalid_argument, std::string("a function that finds stores failed: ") + failed.what());
    }
  }

 private:
  std::shared_ptr<PyObject> held_;
};

folder_finder folder_finder_of(nb::object function) {
  return [function = held_function(std::move(function))](const std::string& url) {
    return function.call([&](nb::handle find) { return place_from(find(to_str(url))); });
  };
}

object_finder object_finder_of(nb::object function) {
  return [function = held_function(std::move(function))](const std::vector<remote_object>& objects) {
    return function.call([&](nb::handle find) {
      nb::list wanted;
      for (const remote_object& each : objects)
        wanted.append(nb::make_tuple(to_str(each.url), to_str(each.stamp), each.has_version));
      std::vector<std::optional<place>> out;
      for (const nb::handle each : find(wanted)) out.push_back(place_from(each));
      return out;
    });
  };
}

manifest_options manifest_options_of(nb::bytes folder, nb::object find_stamps) {
  manifest_options out{.folder = text_of(folder)};
  if (find_stamps.is_none()) return out;
  out.find_versions = [function = held_function(std::move(find_stamps))](const std::vector<std::string>& urls) {
    return function.call([&](nb::handle find) {
      nb::list wanted;
      for (const std::string& each : urls) wanted.append(to_str(each));
      std::vector<std::string> found;
      for (const nb::handle each : find(wanted)) found.push_back(utf8_of(each));
      return found;
    });
  };
  return out;
}

/// A column of native integers of 64 bits.
template <class Number>
std::vector<Number> numbers_of(const nb::bytes& from) {
  std::vector<std::uint64_t> wide(from.size() / sizeof(std::uint64_t));
  if (!wide.empty()) std::memcpy(wide.data(), from.c_str(), wide.size() * sizeof wide[0]);
  std::vector<Number> out;
  out.reserve(wide.size());
  for (const std::uint64_t each : wide) {
    if (!std::in_range<Number>(each)) raise(error(errc::out_of_range, "a number of a reference is too large"));
    out.push_back(static_cast<Number>(each));
  }
  return out;
}

nb::bytes pack_table(std::uint64_t cells, const nb::bytes& numbers, const nb::bytes& objects, const nb::bytes& offsets,
                     const nb::bytes& lengths, const nb::bytes& chains) {
  reference_table::columns of;
  of.cells = numbers_of<std::uint64_t>(numbers);
  of.objects = numbers_of<std::uint32_t>(objects);
  of.offsets = numbers_of<std::uint64_t>(offsets);
  of.lengths = numbers_of<std::uint64_t>(lengths);
  of.chains = numbers_of<std::uint16_t>(chains);
  const std::vector<std::byte> saved = unwrap(reference_table::make(cells, of))->save();
  return nb::bytes(reinterpret_cast<const char*>(saved.data()), saved.size());
}

nb::bytes save_array(const array_handle& from, nb::bytes folder, nb::str shards, nb::object find_stamps) {
  const manifest_options how = manifest_options_of(std::move(folder), std::move(find_stamps));
  const std::string joined = utf8_of(shards);
  const std::vector<std::byte> saved =
      call_engine([&, a = from.array()] { return save_references_of_shards(a, how, joined); });
  return nb::bytes(saved.data(), saved.size());
}

nb::list omitted_list(const std::vector<std::pair<std::string, std::string>>& omitted) {
  nb::list out;
  for (const auto& [path, why] : omitted) out.append(nb::make_tuple(to_str(path), to_str(why)));
  return out;
}

nb::tuple save_group(const group_handle& from, nb::bytes folder, nb::object find_stamps) {
  std::vector<std::pair<std::string, std::string>> omitted;
  manifest_options how = manifest_options_of(std::move(folder), std::move(find_stamps));
  how.omitted = &omitted;
  const std::vector<std::byte> saved = call_engine([&, g = from.group()] { return save_references(g, how); });
  return nb::make_tuple(nb::bytes(saved.data(), saved.size()), omitted_list(omitted));
}

template <class Number>
nb::bytes column(const std::vector<Number>& values) {
  const std::vector<std::uint64_t> wide(values.begin(), values.end());
  return nb::bytes(wide.data(), wide.size() * sizeof(std::uint64_t));
}

nb::tuple export_group(const group_handle& from) {
  exported_group made = call_engine([&, g = from.group()] { return exported_of(g); });
  nb::dict documents;
  for (const auto& [key, text] : made.documents)
    documents[nb::bytes(key.data(), key.size())] = nb::bytes(text.data(), text.size());
  nb::list arrays;
  for (exported_array& each : made.arrays) {
    nb::list grid;
    for (const std::uint64_t cells : each.grid) grid.append(cells);
    arrays.append(nb::make_tuple(nb::bytes(each.path.data(), each.path.size()), nb::tuple(grid),
                                 array_handle(std::move(each.from))));
  }
  return nb::make_tuple(documents, arrays, omitted_list(made.omitted));
}

nb::tuple export_rows(const array_handle& from, std::uint64_t begin, std::uint64_t end) {
  const exported_rows made = call_engine([&, a = from.array()] { return exported_rows_of(a, begin, end); });
  return nb::make_tuple(column(made.cells), column(made.objects), column(made.offsets), column(made.lengths));
}

nb::list export_objects(const array_handle& from) {
  const std::vector<exported_object> made = call_engine([&, a = from.array()] { return exported_objects_of(a); });
  nb::list out;
  for (const exported_object& each : made) {
    nb::object bytes = nb::none();
    if (each.bytes) bytes = nb::bytes(each.bytes->data(), each.bytes->size());
    out.append(nb::make_tuple(nb::bytes(each.location.data(), each.location.size()), bytes));
  }
  return out;
}

manifest_place manifest_place_of(nb::bytes folder, nb::bytes document, nb::handle allow_local, nb::list expected,
                                 bool missing_is_fill) {
  manifest_place at;
  at.folder = text_of(folder);
  at.rule.document = text_of(document);
  if (!allow_local.is_none()) at.rule.allow_local = nb::cast<bool>(allow_local);
  for (const nb::handle each : expected) at.rule.expected.insert(text_of(nb::cast<nb::bytes>(each)));
  at.missing_is_fill = missing_is_fill;
  return at;
}

std::string opening_note(const manifest_place& at) { return "opening the manifest '" + at.rule.document + "'"; }

nb::object open_saved(const context_handle& with, nb::bytes saved, nb::bytes folder, nb::bytes document,
                      nb::object allow_local, nb::list expected, bool missing_is_fill, nb::object find_objects) {
  manifest_place at = manifest_place_of(folder, document, allow_local, expected, missing_is_fill);
  at.find_objects = object_finder_of(std::move(find_objects));
  const auto* const begin = static_cast<const std::byte*>(saved.data());
  std::vector<std::byte> bytes(begin, begin + saved.size());
  return node_object(call_engine([&]() -> result<node> {
    auto made = open_saved_node(std::move(bytes), at, with.context);
    if (!made.ok()) return std::move(made).error().note(opening_note(at));
    return made;
  }));
}

nb::tuple tuple_of_lengths(const extents& from) {
  nb::list out;
  for (const std::uint64_t each : from) out.append(each);
  return nb::tuple(out);
}

extents lengths_in(nb::handle from) {
  extents out;
  check_rank(nb::len(from));
  for (const nb::handle each : from) out.push_back(nb::cast<std::uint64_t>(each));
  return out;
}

nb::tuple read_arrays(nb::bytes saved, nb::bytes folder, nb::bytes document, nb::object allow_local, nb::list expected,
                      bool missing_is_fill) {
  const manifest_place at = manifest_place_of(folder, document, allow_local, expected, missing_is_fill);
  const std::span bytes(static_cast<const std::byte*>(saved.data()), saved.size());
  const saved_arrays made = call_engine([&]() -> result<saved_arrays> {
    auto parsed = parse_saved_arrays(bytes, at);
    if (!parsed.ok()) return std::move(parsed).error().note(opening_note(at));
    return parsed;
  });
  nb::list shards;
  for (const saved_array& each : made.shards) {
    nb::object sum = nb::none();
    if (each.crc32c) sum = nb::int_(*each.crc32c);
    shards.append(nb::make_tuple(nb::bytes(each.path.data(), each.path.size()), each.stamp.size_bytes,
                                 each.stamp.changed_ns, sum, to_str(each.format), tuple_of_lengths(each.shape),
                                 to_str(each.descr), tuple_of_lengths(each.chunks)));
  }
  return nb::make_tuple(made.axis, shards);
}

nb::bytes write_arrays(nb::list shards, std::size_t axis, nb::bytes folder) {
  saved_arrays out;
  out.axis = axis;
  for (const nb::handle given : shards) {
    const nb::tuple each = tuple_of(given, 8, "a shard");
    saved_array one;
    one.path = text_of(nb::cast<nb::bytes>(each[0]));
    one.stamp = {nb::cast<std::uint64_t>(each[1]), nb::cast<std::int64_t>(each[2])};
    if (!each[3].is_none()) one.crc32c = nb::cast<std::uint32_t>(each[3]);
    one.format = utf8_of(nb::cast<nb::str>(each[4]));
    one.shape = lengths_in(each[5]);
    one.descr = utf8_of(nb::cast<nb::str>(each[6]));
    one.chunks = lengths_in(each[7]);
    out.shards.push_back(std::move(one));
  }
  const std::string made = write_saved_arrays(out, text_of(folder));
  return nb::bytes(made.data(), made.size());
}

nb::object open_found(const context_handle& with, nb::object found, nb::bytes path, nb::bytes uri, nb::bytes base,
                      nb::bytes document, nb::object allow_local, nb::str default_scheme, bool missing_is_fill,
                      nb::object find_folder) {
  reference_tree_place at;
  at.context = with.context;
  at.uri = text_of(uri);
  at.base = text_of(base);
  at.default_scheme = utf8_of(default_scheme);
  at.rule.document = text_of(document);
  if (!allow_local.is_none()) at.rule.allow_local = nb::cast<bool>(allow_local);
  at.missing_is_fill = missing_is_fill;
  at.find_folder = folder_finder_of(std::move(find_folder));
  const std::string inner = text_of(path);
  if (nb::isinstance<nb::bytes>(found)) {
    const auto text = nb::cast<nb::bytes>(found);
    return node_object(call_engine([&]() -> result<node> {
      PENSTOCK_ASSIGN(const auto tree,
                      reference_tree::of_json(std::string_view(text.c_str(), text.size()), std::move(at)));
      return tree->open(inner);
    }));
  }
  const nb::tuple parts = tuple_of(found, 3, "a folder of references");
  const std::shared_ptr<store> from = nb::cast<const store_handle&>(parts[0]).store;
  const std::string folder = text_of(nb::cast<nb::bytes>(parts[1])), metadata = text_of(nb::cast<nb::bytes>(parts[2]));
  return node_object(call_engine([&]() -> result<node> {
    PENSTOCK_ASSIGN(const auto tree, reference_tree::of_folder(from, prefix_of(folder), metadata, std::move(at)));
    return tree->open(inner);
  }));
}

}  // namespace

void bind_references(nb::module_& m) {
  m.def("open_references", &open_found, nb::arg("context"), nb::arg("found"), nb::arg("path"), nb::kw_only(),
        nb::arg("uri"), nb::arg("base"), nb::arg("document"), nb::arg("allow_local").none(), nb::arg("default_scheme"),
        nb::arg("missing_is_fill"), nb::arg("find_folder"),
        "A node of kerchunk's references. `found` is a JSON document, or (store, folder, .zmetadata) of those in "
        "Parquet; `document` is where it is (b'': the caller made it); `find_folder` returns the (store, path) of a "
        "folder at a URL, or None.");
  m.def("open_saved_references", &open_saved, nb::arg("context"), nb::arg("saved"), nb::kw_only(), nb::arg("folder"),
        nb::arg("document"), nb::arg("allow_local").none(), nb::arg("expected"), nb::arg("missing_is_fill"),
        nb::arg("find_objects"),
        "The array or group of a manifest of references whose files are below `folder` (b'': it has whole paths). "
        "`find_objects` returns the (store, key) of each (URL, version, whether the "
        "version is known as HTTP names it), or None.");
  m.def("read_saved_arrays", &read_arrays, nb::arg("saved"), nb::kw_only(), nb::arg("folder"), nb::arg("document"),
        nb::arg("allow_local").none(), nb::arg("expected"), nb::arg("missing_is_fill"),
        "(axis, shards) of a manifest of shards that are arrays; no shard is opened. Each is (path, size, time of "
        "change, CRC-32C or None, format, shape, descr, chunks).");
  m.def("write_saved_arrays", &write_arrays, nb::arg("shards"), nb::arg("axis"), nb::arg("folder"),
        "The manifest of such shards, for a file in `folder`.");
  m.def("save_references", &save_array, nb::arg("from_"), nb::arg("folder"), nb::arg("shards"),
        nb::arg("find_stamps") = nb::none(),
        "The manifest of an array of references, with files named relative to `folder`. `shards`: JSON of the "
        "joined files, or ''. `find_stamps` returns the versions of remote objects by URL, '' if they are not known.");
  m.def("save_group_references", &save_group, nb::arg("group"), nb::arg("folder"), nb::arg("find_stamps") = nb::none(),
        "The manifest of a group of such arrays.");
  m.def("exported_references", &export_group, nb::arg("group"),
        "The documents of Zarr 2 by key, and (path, chunks along each dimension, array) of each array of references "
        "below a group; export_references.h.");
  m.def("exported_rows", &export_rows, nb::arg("array"), nb::arg("begin"), nb::arg("end"),
        "The references of the cells [begin, end) of such an array: cells, objects, offsets, lengths as bytes of "
        "64-bit numbers. Length 0 is the whole object.");
  m.def("exported_objects", &export_objects, nb::arg("array"),
        "The objects of such an array by number: location, and the bytes of those in memory or None.");
  m.def("pack_table", &pack_table, nb::arg("cells"), nb::arg("numbers"), nb::arg("objects"), nb::arg("offsets"),
        nb::arg("lengths"), nb::arg("chains"),
        "The saved form of a reference table of an array of `cells` cells, from columns of 64-bit numbers; b'': all 0, "
        "or, of `numbers`, 0, 1, 2, ...");
}

}  // namespace penstock::inline v0::python
