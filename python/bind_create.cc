#include <nanobind/stl/optional.h>
#include <penstock/chunk_lengths.h>
#include <penstock/create.h>
#include <penstock/open.h>
#include <penstock/place.h>

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind.h"
#include "bind_create.h"
#include "driver/missing_value.h"
#include "driver/node_files.h"
#include "driver/node_mode.h"
#include "driver/node_replacement.h"
#include "driver/registry.h"
#include "driver/zarr_nodes.h"
#include "engine/array_state.h"

namespace penstock::inline v0::python {
namespace {

std::vector<std::uint64_t> lengths_of(nb::handle value) {
  std::vector<std::uint64_t> out;
  for (const nb::handle each : nb::borrow<nb::object>(value)) out.push_back(length_of(each));
  return out;
}

extents extents_of(nb::handle value, const char* name) {
  const std::vector<std::uint64_t> lengths = lengths_of(value);
  if (lengths.size() > kMaxRank) {
    raise(error(errc::unsupported, std::string(name) + " has more than " + std::to_string(kMaxRank) + " dimensions"));
  }
  return extents(std::span<const std::uint64_t>(lengths));
}

nb::list chunks_of_size(nb::bytes option, std::uint64_t bytes, nb::handle shape, std::uint64_t item_bytes) {
  const chunk_lengths rule = unwrap(chunk_lengths::parse(std::to_string(bytes) + "B", text_of(option)));
  const extents made = unwrap(rule.resolve(extents_of(shape, "shape"), {}, item_bytes));
  nb::list out;
  for (const std::uint64_t length : made) out.append(length);
  return out;
}

}  // namespace

create_options create_options_of(const context_handle& with, const nb::bytes& path, const nb::dict& given) {
  create_options out;
  out.context = with.context;
  out.path = text_of(path);
  const auto find = [&](const char* name) -> nb::object {
    return given.contains(name) ? nb::object(given[name]) : nb::none();
  };
  const auto text = [&](const char* name, std::string& to) {
    if (const nb::object value = find(name); !value.is_none()) to = utf8_of(value);
  };
  text("format", out.format);
  if (const nb::object number = find("zarr_format"); !number.is_none()) out.zarr_format = nb::cast<int>(number);
  if (const nb::object overwrite = find("overwrite"); !overwrite.is_none()) out.overwrite = nb::cast<bool>(overwrite);
  if (const nb::object durable = find("durable"); !durable.is_none()) out.durable = nb::cast<bool>(durable);
  if (const nb::object shape = find("shape"); !shape.is_none()) out.shape = extents_of(shape, "shape");
  if (const nb::object type = find("type"); !type.is_none()) out.type = dtype_of(type);
  text("dtype", out.dtype_json);
  text("attributes", out.attributes_json);
  text("codecs", out.codecs_json);
  text("fill_value", out.fill_value_json);
  if (const nb::object item = find("fill_bytes"); !item.is_none()) {
    const std::string bytes = text_of(nb::cast<nb::bytes>(item));
    out.fill_value.resize(bytes.size());
    std::memcpy(out.fill_value.data(), bytes.data(), bytes.size());
  }
  if (const nb::object no_fill = find("fill_is_undefined"); !no_fill.is_none())
    out.fill_is_undefined = nb::cast<bool>(no_fill);
  if (const nb::object chunks = find("chunks"); !chunks.is_none()) out.chunks = extents_of(chunks, "chunks");
  if (const nb::object lengths = find("chunk_lengths"); !lengths.is_none()) {
    for (const nb::handle each : lengths) out.chunk_lengths.push_back(lengths_of(each));
  }
  if (const nb::object shards = find("shards"); !shards.is_none()) {
    if (nb::isinstance<nb::str>(shards)) {
      out.auto_shards = true;
    } else {
      out.shards = extents_of(shards, "shards");
    }
  }
  if (const nb::object first = find("shard_index_first"); !first.is_none())
    out.shard_index_first = nb::cast<bool>(first);
  if (const nb::object lengths = find("shard_lengths"); !lengths.is_none()) {
    for (const nb::handle each : lengths) out.shard_lengths.push_back(lengths_of(each));
  }
  if (const nb::object names = find("dimension_names"); !names.is_none()) {
    for (const nb::handle each : names) {
      out.dimension_names.push_back(each.is_none() ? std::nullopt : std::optional<std::string>(utf8_of(each)));
    }
  }
  std::string order = "C", separator;
  text("order", order);
  text("separator", separator);
  out.order = order.size() == 1 ? order[0] : '?';
  if (separator.size() > 1) raise(error(errc::invalid_argument, "the separator must be '.' or '/'"));
  text("key_suffix", out.key_suffix);
  if (!separator.empty()) out.separator = separator[0];
  if (const nb::object keys = find("v2_keys"); !keys.is_none()) out.v2_keys = nb::cast<bool>(keys);
  if (const nb::object tiff = find("tiff"); !tiff.is_none())
    out.tiff = std::make_shared<const tiff_create_options>(tiff_create_options_of(nb::cast<nb::dict>(tiff)));
  return out;
}

namespace {

array_handle create(const nb::object& in, const context_handle& with, nb::bytes path, const nb::dict& given) {
  const create_options options = create_options_of(with, path, given);
  if (nb::isinstance<group_handle>(in)) {
    const group parent = nb::cast<const group_handle&>(in).group();
    return array_handle(call_engine([&] { return create_array(parent, options); }));
  }
  const std::shared_ptr<store> to = nb::cast<const store_handle&>(in).store;
  return array_handle(call_engine([&] { return create_array(to, options); }));
}

group_handle create_a_group(const nb::object& in, const context_handle& with, nb::bytes path, int zarr_format,
                            bool overwrite, nb::object attributes, bool durable) {
  create_group_options options;
  options.context = with.context;
  options.path = text_of(path);
  options.zarr_format = zarr_format;
  options.overwrite = overwrite;
  options.durable = durable;
  if (!attributes.is_none()) options.attributes_json = utf8_of(attributes);
  if (nb::isinstance<group_handle>(in)) {
    const group parent = nb::cast<const group_handle&>(in).group();
    return {call_engine([&] { return create_group(parent, options); })};
  }
  const std::shared_ptr<store> to = nb::cast<const store_handle&>(in).store;
  return {call_engine([&] { return create_group(to, options); })};
}

/// A node that Python writes in place of an existing one.
struct replacement_handle {
  std::shared_ptr<node_replacement> fresh;
  std::optional<group> parent;

  std::shared_ptr<node_replacement> open() const {
    if (fresh) return fresh;
    raise(error(errc::invalid_argument, "this replacement is committed or discarded"));
  }
};

std::optional<replacement_handle> replace(const nb::object& in, nb::bytes path) {
  replacement_handle out;
  std::shared_ptr<store> to;
  std::string prefix = prefix_of(text_of(path));
  if (nb::isinstance<group_handle>(in)) {
    out.parent = nb::cast<const group_handle&>(in).group();
    call_engine([&] { return check_writable(out.parent->state()); });
    // An open group keeps its store for reading.
    to = std::const_pointer_cast<store>(out.parent->state().store);
    if (prefix.empty()) return std::nullopt;
    prefix = out.parent->state().prefix + prefix;
  } else {
    to = nb::cast<const store_handle&>(in).store;
  }
  if (!to->traits().writable) return std::nullopt;
  out.fresh = call_engine([&]() -> result<std::shared_ptr<node_replacement>> {
    PENSTOCK_ASSIGN(const std::vector<std::string_view> there, documents_at(*to, prefix));
    if (there.empty()) return std::shared_ptr<node_replacement>();
    PENSTOCK_ASSIGN(std::unique_ptr<node_replacement> begun, node_replacement::begin(to, prefix));
    return std::shared_ptr<node_replacement>(std::move(begun));
  });
  if (!out.fresh) return std::nullopt;
  return out;
}

/// The store of a group that can be written to, and the group's path in it.
nb::tuple place_of_group(const group_handle& of) {
  const group target = of.group();
  call_engine([&] { return check_writable(target.state()); });
  if (target.state().consolidated) target.state().consolidated->mark_stale();
  std::string_view path = target.state().prefix;
  if (path.ends_with('/')) path.remove_suffix(1);
  // An open group keeps its store for reading.
  return nb::make_tuple(store_handle{std::const_pointer_cast<store>(target.state().store)},
                        nb::bytes(path.data(), path.size()));
}

void commit(replacement_handle& self) {
  const std::shared_ptr<node_replacement> fresh = self.open();
  call_engine([&] { return fresh->commit(); });
  if (self.parent && self.parent->state().consolidated) self.parent->state().consolidated->mark_stale();
  self.fresh.reset();
}

group_handle consolidate(const store_handle& in, const context_handle& with, nb::bytes path) {
  open_options options;
  options.context = with.context;
  options.path = text_of(path);
  return {call_engine([&] { return consolidate_metadata(in.store, options); })};
}

std::vector<std::string> names_of(const nb::list& names) {
  std::vector<std::string> out;
  for (const nb::handle each : names) out.push_back(utf8_of(each));
  return out;
}

// By value: another thread may be using the node.
template <class Handle, class Node>
void edit_attributes(Handle& self, current<Node> Handle::* member, nb::handle set, nb::object removed) {
  const auto lock = (self.*member).lock_changes();
  const Node before = (self.*member)();
  const std::string text = utf8_of(set);
  if (removed.is_none()) {
    self.*member = call_engine([&] { return before.set_attributes(text); });
    return;
  }
  const std::vector<std::string> names = names_of(nb::cast<nb::list>(removed));
  self.*member = call_engine([&] { return before.update_attributes(text, names); });
}

/// The attributes of a copy in HDF5, as JSON.
nb::str attributes_in_hdf5(const array_handle& of) {
  const array a = of.array();
  auto made = attributes_in_netcdf(a.state());
  if (!made.ok()) raise(std::move(made).error());
  return to_str(made->dump());
}

/// Options of create_array for a copy in another format; empty if xarray has no meaning for the array.
nb::dict meaning_in(const array_handle& of, int zarr_format) {
  const array a = of.array();
  const array_state& state = a.state();
  nb::dict out;
  if (!has_dimensions(state)) return out;
  create_options made;
  made.zarr_format = zarr_format;
  made.fill_value = state.fill_value;
  if (auto kept = keep_meaning(state, made); !kept.ok()) raise(std::move(kept).error());
  nb::list names;
  for (const std::optional<std::string>& each : made.dimension_names) names.append(to_str(each.value_or("")));
  out["attributes"] = to_str(made.attributes_json);
  out["dimension_names"] = names;
  if (made.fill_is_undefined) {
    out["fill_is_undefined"] = true;
  } else if (!state.type.variable_length()) {
    out["fill_bytes"] = nb::bytes(reinterpret_cast<const char*>(made.fill_value.data()), made.fill_value.size());
  }
  return out;
}

}  // namespace

void bind_create(nb::module_& m) {
  locked_class<replacement_handle>(m, "Replacement", "A node that is written in place of an existing one.")
      .def_prop_ro(
          "store", [](const replacement_handle& self) { return store_handle{self.open()->in()}; },
          "Where to write the new node, at its root.")
      .def("commit", commit, "Replace the old node by the new one.")
      .def("discard", [](replacement_handle& self) { self.fresh.reset(); }, "Discard the written node.");
  m.def("meaning_in", meaning_in, nb::arg("array"), nb::arg("zarr_format"),
        "An array's dimension names and missing value in another format, as options of `create_array`.");
  m.def("attributes_in_hdf5", attributes_in_hdf5, nb::arg("array"),
        "The attributes of a copy in HDF5, as JSON: the missing value is the number `_FillValue`.");
  m.def(
      "check_new_name", [](nb::bytes name) { call_engine([&] { return check_new_name(text_of(name)); }); },
      nb::arg("name"), "Refuse the name of a file of another format for a new Zarr node.");
  m.def(
      "format_for_new",
      [](nb::bytes name, const context_handle& with) {
        return to_str(std::string(unwrap(driver_for_new(*with.context, "", text_of(name)))->name()));
      },
      nb::arg("name"), nb::arg("context"), "The format of a new array of this name.");
  m.def("place_of_group", place_of_group, nb::arg("group"),
        "The store of a group, to write new members, and the group's path in it.");
  m.def("replace", replace, nb::arg("target"), nb::arg("path"),
        "Begin to replace a node; None if there is none, or the store cannot replace it.");

  m.def(
      "is_zarr_document", [](nb::bytes name) { return is_zarr_document(text_of(name)); }, nb::arg("name"),
      "Whether a name without folders is that of one of Zarr's documents: `zarr.json`, `.zarray`, ...");
  m.def("chunks_of_size", chunks_of_size, nb::arg("option"), nb::arg("bytes"), nb::arg("shape"), nb::arg("item_bytes"),
        "The lengths of chunks of at most that size: C++'s `chunk_lengths`. `option` is the start of errors.");
  m.def("create_array", create, nb::arg("in_"), nb::arg("context"), nb::arg("path"), nb::arg("options"),
        "Write the metadata of a new array, in a store or below a group, and open it.");
  m.def("create_group", create_a_group, nb::arg("in_"), nb::arg("context"), nb::arg("path"), nb::arg("zarr_format"),
        nb::arg("overwrite"), nb::arg("attributes").none(), nb::arg("durable") = false,
        "Write the metadata of a new group, in a store or below a group, and open it.");
  m.def("consolidate_metadata", consolidate, nb::arg("store"), nb::arg("context"), nb::arg("path"),
        "Copy the metadata of a tree into its root.");
  m.def(
      "erase",
      [](const group_handle& parent, nb::bytes path) {
        const std::string name = text_of(path);
        call_engine([&, g = parent.group()] { return erase(g, name); });
      },
      nb::arg("parent"), nb::arg("path"), "Erase a node below a group.");
  m.def(
      "set_attributes",
      [](nb::object node, nb::handle set, nb::object removed) {
        if (nb::isinstance<group_handle>(node)) {
          edit_attributes(nb::cast<group_handle&>(node), &group_handle::group, set, removed);
        } else {
          edit_attributes(nb::cast<array_handle&>(node), &array_handle::array, set, removed);
        }
      },
      nb::arg("node"), nb::arg("set"), nb::arg("removed").none(),
      "Replace all attributes (removed: None), or set some and remove some.");
}

}  // namespace penstock::inline v0::python
