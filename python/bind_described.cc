#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind.h"

#include "driver/export_references.h"
#include "driver/hdf5_index.h"
#include "driver/netcdf.h"
#include "driver/open_hdf5.h"
#include "driver/open_reference.h"
#include "driver/zarr_nodes.h"
#include "format/netcdf/netcdf_header.h"

namespace penstock::inline v0::python {
namespace {

extents shape_extents(nb::handle shape) {
  extents out;
  for (const nb::handle each : shape) {
    if (out.size() == kMaxRank) raise(error(errc::unsupported, "a shape has at most 32 dimensions"));
    out.push_back(nb::cast<std::uint64_t>(each));
  }
  return out;
}

// (skipped filters, shape or None)
chain_variant variant_of(nb::handle from) {
  const nb::tuple parts = tuple_of(from, 2, "a variant");
  chain_variant out;
  for (const nb::handle each : parts[0]) out.skipped.push_back(nb::cast<std::uint32_t>(each));
  if (!parts[1].is_none()) out.shape = shape_extents(parts[1]);
  return out;
}

// (name, Store or bytes, key, whether it is pinned, CRC-32C or None, path of a local file or b"", (size, time) or None,
// remote stamp or ""). Bytes become an object in memory that belongs to this array.
referenced_object object_of(nb::handle from, const std::shared_ptr<store>& inlined) {
  const nb::tuple parts = tuple_of(from, 8, "an object");
  referenced_object out;
  out.name = text_of(nb::cast<nb::bytes>(parts[0]));
  out.pinned = nb::cast<bool>(parts[3]);
  if (!parts[4].is_none()) out.crc32c = nb::cast<std::uint32_t>(parts[4]);
  out.path = text_of(nb::cast<nb::bytes>(parts[5]));
  if (!parts[6].is_none()) {
    const nb::tuple stamp = tuple_of(parts[6], 2, "a size and time of change");
    out.stamp = file_stamp{nb::cast<std::uint64_t>(stamp[0]), nb::cast<std::int64_t>(stamp[1])};
  }
  out.remote_stamp = utf8_of(parts[7]);
  if (nb::isinstance<nb::bytes>(parts[1])) {
    const auto value = nb::cast<nb::bytes>(parts[1]);
    const part whole(static_cast<const std::byte*>(value.data()), value.size());
    unwrap(inlined->put(out.name, {&whole, 1}, {}));
    out.from = inlined;
    out.key = out.name;
    out.inlined = true;
    return out;
  }
  out.from = nb::cast<const store_handle&>(parts[1]).store;
  out.key = text_of(nb::cast<nb::bytes>(parts[2]));
  return out;
}

std::vector<std::uint64_t> numbers_of(nb::handle buffer) {
  const auto bytes = nb::cast<nb::bytes>(buffer);
  std::vector<std::uint64_t> out(bytes.size() / sizeof(std::uint64_t));
  if (!out.empty()) std::memcpy(out.data(), bytes.c_str(), out.size() * sizeof(std::uint64_t));
  return out;
}

// (axis, edges, decoded lengths), the lists as bytes of native 64-bit numbers.
std::vector<joined_axis> joined_of(nb::handle from) {
  if (from.is_none()) return {};
  const nb::tuple parts = tuple_of(from, 3, "joined");
  return {joined_axis{nb::cast<std::size_t>(parts[0]), numbers_of(parts[1]), numbers_of(parts[2])}};
}

array_handle open_described(const context_handle& with, nb::dict documents, nb::bytes table, nb::list variants,
                            nb::list objects, nb::str format, nb::bytes uri, nb::object dimension_names,
                            bool missing_is_fill, nb::object joined) {
  referenced_array what;
  std::vector<std::pair<std::string, std::string>> texts;
  for (const auto& [name, text] : documents) texts.emplace_back(utf8_of(name), utf8_of(text));
  const std::span<const std::byte> saved(static_cast<const std::byte*>(table.data()), table.size());
  for (const nb::handle each : variants) what.variants.push_back(variant_of(each));
  const std::shared_ptr<store> inlined = make_memory_store();
  for (const nb::handle each : objects) what.objects.push_back(object_of(each, inlined));
  what.format = utf8_of(format);
  what.uri = text_of(uri);
  if (!dimension_names.is_none()) {
    for (const nb::handle each : dimension_names) {
      if (each.is_none())
        what.dimension_names.emplace_back();
      else
        what.dimension_names.emplace_back(utf8_of(each));
    }
  }
  what.missing_is_fill = missing_is_fill;
  what.joined = joined_of(joined);
  return array_handle(call_engine([&]() -> result<array> {
    const auto noted = [&](error failure) { return std::move(failure).note("opening '" + what.uri + "'"); };
    auto metadata = parse_array_documents(texts);
    if (!metadata.ok()) return noted(std::move(metadata).error());
    auto parsed = reference_table::parse(saved);
    if (!parsed.ok()) return noted(std::move(parsed).error());
    what.metadata = std::move(*metadata);
    what.documents = std::move(texts);
    what.table = std::move(*parsed);
    return open_reference(with.context, std::move(what));
  }));
}

nb::tuple document_of_group(const group_handle& from) {
  const kerchunk_document made = call_engine([&, g = from.group()] { return kerchunk_json_of(g); });
  nb::list omitted;
  for (const auto& [path, why] : made.omitted) omitted.append(nb::make_tuple(to_str(path), to_str(why)));
  return nb::make_tuple(nb::bytes(made.text.data(), made.text.size()), omitted);
}

nb::list files_of(const array_handle& from) {
  nb::list out;
  for (const std::string& each : referenced_files(from.array())) out.append(nb::bytes(each.data(), each.size()));
  return out;
}

nb::bytes as_bytes(const std::vector<std::uint64_t>& column) {
  return nb::bytes(column.data(), column.size() * sizeof(std::uint64_t));
}

nb::tuple index_of(const store_handle& from, nb::bytes key, std::uint64_t header) {
  const std::string name = text_of(key);
  const hdf5_index found = call_engine([&] { return read_hdf5_index(*from.store, name, header); });
  const hdf5_chunks& chunks = found.chunks;
  return nb::make_tuple(as_bytes(chunks.cells), as_bytes(chunks.masks), as_bytes(chunks.offsets),
                        as_bytes(chunks.lengths), found.raw_edges);
}

nb::object describe_netcdf(nb::bytes first, std::uint64_t file_bytes) {
  std::uint64_t needed = 0;
  const auto found = call_engine([&] {
    return parse_netcdf_header({reinterpret_cast<const std::byte*>(first.c_str()), first.size()}, file_bytes, needed);
  });
  if (!found) return nb::int_(needed);
  const std::string text = netcdf_header_json(*found).dump();
  return nb::str(text.data(), text.size());
}

nb::tuple describe_file(const store_handle& from, nb::bytes key) {
  const std::string name = text_of(key);
  const hdf5_description found = call_engine([&] { return describe_hdf5_file(*from.store, name); });
  return nb::make_tuple(nb::str(found.text.data(), found.text.size()), found.rounds, found.requests, found.bytes);
}

nb::str text_object(const std::string& text) { return nb::str(text.data(), text.size()); }

const hdf5_facts& facts_of(const hdf5_facts* found) {
  if (found == nullptr) raise(error(errc::invalid_argument, "it is not of an HDF5 file that the engine opened"));
  return *found;
}

nb::list typed_values(const hdf5_facts& facts) {
  nb::list out;
  for (const hdf5_typed_value& each : facts.attributes)
    out.append(nb::make_tuple(text_object(each.name), text_object(each.form.dump()),
                              nb::bytes(each.items.data(), each.items.size())));
  return out;
}

nb::list names_list(const std::vector<std::string>& names) {
  nb::list out;
  for (const std::string& each : names) out.append(nb::bytes(each.data(), each.size()));
  return out;
}

nb::tuple members_tuple(const group_handle& from) {
  const hdf5_members found = call_engine([&, g = from.group()] { return hdf5_members_of(g.state()); });
  return nb::make_tuple(names_list(found.shown), names_list(found.stand_ins));
}

nb::tuple dimensions_tuple(const group_handle& from) {
  const hdf5_dimension_names found = call_engine([&, g = from.group()] { return hdf5_dimensions_of(g.state()); });
  nb::dict out, links;
  for (const auto& [path, first] : found.links)
    links[nb::bytes(path.data(), path.size())] = nb::bytes(first.data(), first.size());
  for (const auto& [path, names] : found.datasets) {
    nb::list texts;
    for (const std::string& each : names) texts.append(text_object(each));
    out[nb::bytes(path.data(), path.size())] = nb::tuple(texts);
  }
  return nb::make_tuple(out, links);
}

bool is_no_array(const store_handle& from, nb::bytes key, nb::bytes path) {
  const std::string name = text_of(key), inner = text_of(path);
  return call_engine([&]() -> result<bool> { return is_no_hdf5_array(*from.store, name, inner); });
}

// The path of a group in its own file, if that is not the one at `key`.
nb::object path_elsewhere(const group_handle& of, const store_handle& from, nb::bytes key) {
  const group g = of.group();
  const group_state& state = g.state();
  if (is_in_hdf5_file(state, *from.store, text_of(key))) return nb::none();
  const std::string path = state.prefix.substr(0, state.prefix.size() - (state.prefix.empty() ? 0 : 1));
  return nb::bytes(path.data(), path.size());
}

}  // namespace

void bind_described(nb::module_& m) {
  m.def("kerchunk_json", &document_of_group, nb::arg("group"),
        "The arrays of a group of references as kerchunk's JSON, and (path, reason) of the omitted ones; "
        "export_references.h.");
  m.def("open_reference", &open_described, nb::arg("context"), nb::arg("documents"), nb::arg("table"),
        nb::arg("variants"), nb::arg("objects"), nb::arg("format"), nb::arg("uri"), nb::arg("dimension_names").none(),
        nb::arg("missing_is_fill"), nb::arg("joined") = nb::none(),
        "An array whose bytes are in objects of other formats. `table` is its reference table in the saved form; "
        "`variants` are (omitted filters, cell shape or None); `objects` are (name, Store or bytes, key, pinned, "
        "CRC-32C or None, path of a local file or b'', (size, time of change) or None, version of a remote object or "
        "''); `joined` "
        "is (axis, edges, decoded lengths), the lists as bytes of 64-bit numbers, where several arrays "
        "follow each other.");
  m.def("hdf5_index", &index_of, nb::arg("store"), nb::arg("key"), nb::arg("header"),
        "The chunks of the dataset whose object header is at that address: (cells, filter masks, offsets, lengths) "
        "as bytes of 64-bit numbers, and whether chunks at the array's edge skip all filters.");
  m.def("hdf5_describe", &describe_file, nb::arg("store"), nb::arg("key"),
        "Every group, dataset and attribute of an HDF5 file as JSON, and the rounds, requests and bytes that it took.");
  m.def(
      "hdf5_storage",
      [](const array_handle& from) {
        return text_object(facts_of(hdf5_facts_of(from.array().state())).storage.dump());
      },
      nb::arg("array"), "How a dataset of an HDF5 file is stored, as JSON.");
  m.def(
      "hdf5_array_values",
      [](const array_handle& from) { return typed_values(facts_of(hdf5_facts_of(from.array().state()))); },
      nb::arg("array"),
      "(name, JSON, bytes) of each attribute of a dataset whose type does not follow from its JSON value; "
      "hdf5_typed_values.h "
      "describes the JSON.");
  m.def(
      "hdf5_group_values",
      [](const group_handle& from) { return typed_values(facts_of(hdf5_facts_of(from.group().state()))); },
      nb::arg("group"), "The same of a group.");
  m.def(
      "hdf5_is_compound",
      [](const group_handle& from) {
        const group g = from.group();
        const hdf5_facts* const facts = hdf5_facts_of(g.state());
        return facts != nullptr && facts->is_compound;
      },
      nb::arg("group"), "Whether a group is a dataset of compounds whose members are opened one by one.");
  m.def("hdf5_members", &members_tuple, nb::arg("group"),
        "Names of a group's members in the order of the file, and of netCDF's marks for dimensions without a "
        "variable.");
  m.def(
      "group_identity", [](const group_handle& from) { return nb::str(from.group().state().identity.c_str()); },
      nb::arg("group"), "Equal for two paths that lead to one group of a file; '': only paths distinguish groups.");
  m.def("hdf5_dimension_names", &dimensions_tuple, nb::arg("group"),
        "A name for each dimension of each dataset of the group's file by path, and further paths of groups.");
  m.def("hdf5_is_no_array", &is_no_array, nb::arg("store"), nb::arg("key"), nb::arg("path"),
        "Whether an existing object was unsupported because it is not an array.");
  m.def("hdf5_path_elsewhere", &path_elsewhere, nb::arg("group"), nb::arg("store"), nb::arg("key"),
        "The path of a group in its own file, if a link led there from the file at `key`; else None.");
  m.def(
      "netcdf_header",
      [](const group_handle& from) {
        const auto file = netcdf_file_of(from.group().state());
        if (!file) raise(error(errc::invalid_argument, "the group is not a NetCDF classic file"));
        const std::string text = netcdf_header_json(file->header).dump();
        return nb::str(text.data(), text.size());
      },
      nb::arg("group"), "The header of the NetCDF classic file that a group is, as JSON.");
  m.def(
      "netcdf_types",
      [](const array_handle& from) {
        const array a = from.array();
        const netcdf_variable* const variable = netcdf_variable_of(a.state());
        if (variable == nullptr)
          raise(error(errc::invalid_argument, "the array is not a variable of a NetCDF classic file"));
        const std::string text = netcdf_attribute_types_json(variable->attributes).dump();
        return nb::str(text.data(), text.size());
      },
      nb::arg("array"), "The stored types of the attributes of a variable of such a file, by name, as JSON.");
  m.def("netcdf_describe", &describe_netcdf, nb::arg("first"), nb::arg("file_bytes"),
        "The header of a NetCDF classic file as JSON, or how many of the file's first bytes are needed for it.");
  m.def("referenced_files", &files_of, nb::arg("from_"), "The local files that such an array reads.");
}

}  // namespace penstock::inline v0::python
