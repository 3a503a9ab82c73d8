#include <penstock/create.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "array/list_items.h"
#include "base/counted.h"
#include "driver/check_create.h"
#include "driver/new_type.h"
#include "driver/node_files.h"
#include "driver/node_mode.h"
#include "driver/node_replacement.h"
#include "driver/zarr_nodes.h"
#include "engine/array_state.h"
#include "format/zarr/zarr_data_type.h"
#include "format/zarr/zarr_defaults.h"
#include "format/zarr/zarr_fill_value.h"
#include "format/zarr/zarr_layout.h"
#include "format/zarr/zarr_v2.h"
#include "format/zarr/zarr_writer.h"

namespace penstock::inline v0 {
namespace {

error wrong(std::string message) { return {errc::invalid_argument, std::move(message)}; }

result<json> parse_option(const std::string& text, std::string_view name) {
  result<json> value = json::parse(text);
  if (!value.ok()) return wrong(fmt::format("{} is not JSON: {}", name, value.error().message()));
  return value;
}

result<json> attributes_of(const std::string& text) {
  if (text.empty()) return json(json::object_t{});
  PENSTOCK_ASSIGN(json out, parse_option(text, "attributes"));
  if (out.as_object() == nullptr)
    return wrong(fmt::format("attributes are a JSON {}, need an object", out.kind_name()));
  return out;
}

result<> check_format(int zarr_format) {
  if (zarr_format == 2 || zarr_format == 3) return {};
  return wrong(fmt::format("zarr_format must be 2 or 3, got {}", zarr_format));
}

// --- codecs ---

/// One codec in a list of version 3: a name, or an object with a name.
result<std::string> name_of(const json& codec) {
  if (const std::string* name = codec.as_string()) return *name;
  const json* name = codec.find("name");
  if (name == nullptr || name->as_string() == nullptr) {
    return wrong(fmt::format("codecs: {} is not a codec: neither a name nor an object with a name", codec.dump()));
  }
  return *name->as_string();
}

/// The complete list: requested codecs, and necessary ones.
result<json::array_t> complete_codecs(const create_options& options, const dtype& type, std::string_view endian) {
  json::array_t out;
  const bool choose = options.codecs_json.empty() || options.codecs_json == "auto" || options.codecs_json == "\"auto\"";
  if (!choose) {
    PENSTOCK_ASSIGN(const json given, parse_option(options.codecs_json, "codecs"));
    if (given.as_array() == nullptr) return wrong("codecs must be a list");
    for (const json& codec : *given.as_array()) {
      out.push_back(codec.as_string() != nullptr ? json(json::object_t{{"name", codec}}) : codec);
    }
  } else {
    out = default_compressors(type);
  }
  std::size_t arrays = 0;
  bool has_serializer = false, has_transpose = false;
  for (json& codec : out) {
    PENSTOCK_ASSIGN(const std::string name, name_of(codec));
    if (makes_bytes_of_arrays(name)) has_serializer = true;
    if (name == "transpose") has_transpose = true;
    if (!has_serializer && keeps_arrays(name)) ++arrays;
    if (name == "bytes" && codec.find("configuration") == nullptr) codec = default_serializer(type, endian);
    codec = with_default_settings(codec, type);
  }
  if (!has_serializer) {
    out.insert(out.begin() + static_cast<std::ptrdiff_t>(arrays), default_serializer(type, endian));
  }
  if (options.order == 'F' && !has_transpose && options.shape.size() > 1) {
    json::array_t axes;
    for (std::size_t d = options.shape.size(); d-- > 0;) axes.emplace_back(static_cast<std::uint64_t>(d));
    out.insert(out.begin(),
               json::object_t{{"name", "transpose"}, {"configuration", json::object_t{{"order", std::move(axes)}}}});
  }
  return out;
}

json sharding(const extents& chunks, json::array_t codecs, bool index_first) {
  const json little = json::object_t{{"endian", "little"}};
  return json::object_t{
      {"name", "sharding_indexed"},
      {"configuration",
       json::object_t{{"chunk_shape", json::array_t(chunks.begin(), chunks.end())},
                      {"codecs", std::move(codecs)},
                      {"index_codecs", json::array_t{json::object_t{{"name", "bytes"}, {"configuration", little}},
                                                     json::object_t{{"name", "crc32c"}}}},
                      {"index_location", index_first ? "start" : "end"}}}};
}

result<> set_v2_codecs(const create_options& options, zarr_metadata& out) {
  if (has_long_doubles(out.type))
    return error(errc::unsupported,
                 "long doubles are read from Zarr v2, and not written: few other readers support them");
  json given = json::object_t{};
  if (!options.codecs_json.empty() && options.codecs_json != "auto" && options.codecs_json != "\"auto\"") {
    PENSTOCK_ASSIGN(given, parse_option(options.codecs_json, "codecs"));
    if (given.as_object() == nullptr)
      return wrong("codecs of zarr_format 2 must be an object of filters and compressor");
  }
  const json* filters = given.find("filters");
  const json* compressor = given.find("compressor");
  if (filters != nullptr) out.filters = *filters;
  if (const json::array_t* list = out.filters.as_array(); list != nullptr && list->empty()) out.filters = json();
  out.compressor = compressor != nullptr ? *compressor : default_v2_compressor(out.type);
  const json::array_t* const given_filters = out.filters.as_array();
  if (out.type.kind() == dtype_kind::object && given_filters != nullptr && !given_filters->empty())
    out.type = type_of_objects(given_filters->front());
  if (!out.type.variable_length() || out.type.kind() == dtype_kind::object) return {};
  if (is_nested_list(out.type))
    return error(errc::unsupported,
                 fmt::format("{} is not written: lists in Zarr have single items of a fixed size", out.type.name()));
  const std::string wanted = out.type.kind() == dtype_kind::variable_utf8   ? "vlen-utf8"
                             : out.type.kind() == dtype_kind::variable_list ? "vlen-array"
                                                                            : "vlen-bytes";
  json::array_t list;
  if (out.filters.as_array() != nullptr) list = *out.filters.as_array();
  const json* id = list.empty() ? nullptr : list.front().find("id");
  if (id == nullptr || id->as_string() == nullptr || *id->as_string() != wanted) {
    json::object_t codec{{"id", json(wanted)}};
    if (const dtype* const item = out.type.item()) {
      PENSTOCK_ASSIGN(json stored, write_v2_dtype(*item, json("little")));
      codec.emplace_back("dtype", std::move(stored));
    }
    list.insert(list.begin(), json(std::move(codec)));
  }
  out.filters = std::move(list);
  return {};
}

// --- arrays ---

result<> check_rank(std::string_view name, std::size_t rank, const extents& shape) {
  if (rank == shape.size()) return {};
  return wrong(
      fmt::format("{} has {}, shape {} has {}", name, counted(rank, "dimension"), to_string(shape), shape.size()));
}

result<> set_lengths(std::string_view name, const std::vector<std::vector<std::uint64_t>>& lengths,
                     zarr_metadata& out) {
  PENSTOCK_TRY(check_rank(name, lengths.size(), out.shape));
  out.grid.lengths = lengths;
  for (std::size_t d = 0; d < lengths.size(); ++d) {
    if (!lengths[d].empty()) out.grid.chunk[d] = *std::max_element(lengths[d].begin(), lengths[d].end());
  }
  return {};
}

result<> set_grid(const create_options& options, zarr_metadata& out, extents& chunks) {
  const std::size_t rank = out.shape.size();
  chunks = options.chunks ? *options.chunks : default_chunks(out.shape, out.type.item_bytes());
  PENSTOCK_TRY(check_rank("chunks", chunks.size(), out.shape));
  for (const std::uint64_t length : chunks) {
    if (length == 0) return wrong(fmt::format("chunks {} has a length of 0", to_string(chunks)));
  }
  out.grid.chunk = chunks;
  if (!options.chunk_lengths.empty()) {
    if (options.shards || options.auto_shards) return wrong("shards need chunks of equal lengths");
    PENSTOCK_TRY(set_lengths("chunks", options.chunk_lengths, out));
    chunks = out.grid.chunk;
    return {};
  }
  if (!options.shards && !options.auto_shards) return {};
  if (out.zarr_format == 2) return wrong("shards need zarr_format 3");
  if (options.shards) {
    out.grid.chunk = *options.shards;
  } else {
    out.grid.chunk = default_shards(out.shape, chunks, out.type.item_bytes());
    if (out.grid.chunk == chunks) return {};
  }
  PENSTOCK_TRY(check_rank("shards", out.grid.chunk.size(), out.shape));
  if (!options.shard_lengths.empty()) PENSTOCK_TRY(set_lengths("shards", options.shard_lengths, out));
  for (std::size_t d = 0; d < rank; ++d) {
    const auto divides = [&](std::uint64_t length) { return length != 0 && length % chunks[d] == 0; };
    if (!divides(out.grid.chunk[d])) {
      return wrong(
          fmt::format("shards {} are not a multiple of chunks {}", to_string(out.grid.chunk), to_string(chunks)));
    }
    if (out.grid.regular()) continue;
    for (const std::uint64_t length : out.grid.lengths[d]) {
      if (divides(length)) continue;
      return wrong(fmt::format("a shard of length {} is not a multiple of chunks {}", length, to_string(chunks)));
    }
  }
  return {};
}

result<> set_fill(const create_options& options, zarr_metadata& out) {
  if (!options.fill_value.empty()) {
    if (out.type.variable_length() || options.fill_value.size() != out.type.item_bytes()) {
      return wrong(fmt::format("fill_value has {}, an item of {} has {}", counted(options.fill_value.size(), "byte"),
                               out.type.name(), out.type.item_bytes()));
    }
    out.fill_value = options.fill_value;
  } else if (!options.fill_value_json.empty()) {
    PENSTOCK_ASSIGN(const json given, parse_option(options.fill_value_json, "fill_value"));
    result<zarr_fill> fill = parse_fill_value(given, out.type);
    if (!fill.ok()) return wrong(fill.error().message());
    out.fill_value = std::move(fill->item);
    out.fill_text = std::move(fill->text);
  } else {
    out.fill_value = default_fill(out.type);
  }
  if (options.fill_is_undefined && out.zarr_format == 3) return wrong("fill_value: zarr_format 3 needs one");
  const bool is_object = out.type.kind() == dtype_kind::object || out.type.kind() == dtype_kind::variable_list;
  out.fill_json = options.fill_is_undefined || is_object ? json() : json(true);
  return {};
}

result<> set_names(const std::vector<std::optional<std::string>>& names, zarr_metadata& out) {
  if (out.zarr_format == 2) {
    json::array_t list;
    for (const std::optional<std::string>& each : names) {
      if (!each) return wrong("dimension_names: zarr_format 2 has xarray's attribute, which names every dimension");
      list.emplace_back(*each);
    }
    json::object_t attributes = out.attributes.as_object() != nullptr ? *out.attributes.as_object() : json::object_t();
    if (out.attributes.find(kArrayDimensions) == nullptr) attributes.emplace_back(kArrayDimensions, std::move(list));
    out.attributes = std::move(attributes);
  }
  out.dimension_names = names;
  return {};
}

result<zarr_metadata> new_array(const create_options& options) {
  PENSTOCK_TRY(check_format(options.zarr_format));
  if (options.tiff != nullptr) return wrong("'tiff': options of TIFFs are not options of Zarr arrays");
  zarr_metadata out;
  out.zarr_format = options.zarr_format;
  out.kind = zarr_node_kind::array;
  out.shape = options.shape;
  PENSTOCK_ASSIGN(zarr_v2_type type, type_of_new(options));
  out.type = std::move(type.type);
  out.endian = std::move(type.endian);
  PENSTOCK_ASSIGN(out.attributes, attributes_of(options.attributes_json));
  extents chunks;
  PENSTOCK_TRY(set_grid(options, out, chunks));
  PENSTOCK_TRY(set_fill(options, out));
  if (options.order != 'C' && options.order != 'F') return wrong("order must be 'C' or 'F'");
  out.keys.v2 = options.v2_keys || out.zarr_format == 2;
  out.keys.suffix = options.key_suffix;
  if (!out.keys.suffix.empty() && out.zarr_format == 2) return wrong("a suffix of keys needs zarr_format 3");
  out.keys.separator = options.separator != 0 ? options.separator : out.keys.v2 ? '.' : '/';
  if (!options.dimension_names.empty()) {
    PENSTOCK_TRY(check_rank("dimension_names", options.dimension_names.size(), out.shape));
    PENSTOCK_TRY(set_names(options.dimension_names, out));
  }
  if (out.zarr_format == 2) {
    out.f_order = options.order == 'F';
    PENSTOCK_TRY(set_v2_codecs(options, out));
    return out;
  }
  const std::string* endian = out.endian.as_string();
  PENSTOCK_ASSIGN(json::array_t codecs,
                  complete_codecs(options, out.type, endian != nullptr ? std::string_view(*endian) : "little"));
  if (!(out.grid.chunk == chunks)) codecs = {sharding(chunks, std::move(codecs), options.shard_index_first)};
  out.codecs_json = std::move(codecs);
  return out;
}

// --- nodes ---

// The specification reserves names that begin with "__", but this is xarray's name of an array without a name.
constexpr std::string_view kUnnamedOfXarray = "__xarray_dataarray_variable__";

result<> check_path(std::string_view prefix) {
  while (!prefix.empty()) {
    const std::string_view name = prefix.substr(0, prefix.find('/'));
    const bool reserved = name.starts_with("__") && name != kUnnamedOfXarray;
    if (name.find_first_not_of('.') == std::string_view::npos || reserved || is_zarr_document(name)) {
      return wrong(fmt::format("a node cannot be named '{:.80}'", name));
    }
    prefix.remove_prefix(name.size() + 1);
  }
  return {};
}

/// The document of `metadata` in the form in which it will be read.
result<zarr_metadata> reparse(const std::vector<zarr_document>& documents, int zarr_format) {
  if (zarr_format == 3) return parse_zarr_metadata(documents.back().content);
  return documents.back().key == kZarrayKey ? parse_zarr_v2_array(documents.back().content, &documents[0].content)
                                            : parse_zarr_v2_group(documents.back().content, &documents[0].content);
}

struct new_node {
  std::shared_ptr<store> in;
  std::shared_ptr<penstock::context> context;
  std::string prefix;
  bool overwrite = false, durable = false;
};

template <class Options>
new_node new_node_at(const new_location& at, const Options& how) {
  return {at.to, at.context, prefix_of(at.path), how.overwrite, how.durable};
}

/// A node that can be written: its documents, and the node that they open as.
struct checked_node {
  std::vector<zarr_document> documents;
  node opened;
};

/// Checks everything. Does not write.
result<checked_node> check_node(new_node at, const zarr_metadata& metadata) {
  const std::string uri = child_uri(at.in->uri(), at.prefix);
  PENSTOCK_TRY(check_path(at.prefix));
  if (!at.context) {
    PENSTOCK_ASSIGN(at.context, penstock::context::make());
  }
  PENSTOCK_ASSIGN(std::vector<zarr_document> documents, write_zarr_documents(metadata));
  // Parsed as it will be read: a document that the parser would refuse is not written.
  result<zarr_metadata> read = reparse(documents, metadata.zarr_format);
  const auto as_argument = [&](error why) {
    if (why.code() != errc::corrupt_data) return why;
    error out = wrong(why.message());
    for (const std::string& each : why.notes()) out.note(each);
    return out;
  };
  if (!read.ok()) return as_argument(std::move(read).error());
  node_place place;
  place.context = at.context;
  place.from = at.in;
  place.prefix = at.prefix;
  place.uri = uri;
  result<node> made = make_node(std::move(place), std::move(*read));
  if (!made.ok()) return as_argument(std::move(made).error());
  return checked_node{std::move(documents), std::move(*made)};
}

result<> put_documents(store& in, const std::string& prefix, const std::vector<zarr_document>& documents,
                       bool durable) {
  for (const zarr_document& document : documents) {
    // A .zattrs without another document belongs to no node.
    const bool makes_node = &document == &documents.back();
    PENSTOCK_TRY(
        put_document(in, prefix, document,
                     {makes_node ? write_condition::kind::must_be_absent : write_condition::kind::none, {}, durable}));
  }
  return {};
}

/// Checks everything, writes the documents and opens the node that they describe.
result<node> create_node(const new_node& at, const zarr_metadata& metadata) {
  PENSTOCK_ASSIGN(checked_node made, check_node(at, metadata));
  const std::string uri = child_uri(at.in->uri(), at.prefix);
  const auto write = [&]() -> result<> {
    PENSTOCK_ASSIGN(const std::vector<std::string_view> there, documents_at(*at.in, at.prefix));
    if (!there.empty() && !at.overwrite) {
      return wrong(fmt::format("'{}' already exists: '{}' (overwrite replaces it)", uri, there.front()));
    }
    PENSTOCK_TRY(make_parents(*at.in, at.prefix, metadata.zarr_format, at.durable));
    if (!there.empty()) {
      PENSTOCK_ASSIGN(const std::unique_ptr<node_replacement> fresh, node_replacement::begin(at.in, at.prefix));
      if (fresh) {
        PENSTOCK_TRY(put_documents(*fresh->in(), "", made.documents, at.durable));
        return fresh->commit();
      }
      PENSTOCK_TRY(erase_node(*at.in, at.prefix, metadata.kind == zarr_node_kind::array));
    }
    return put_documents(*at.in, at.prefix, made.documents, at.durable);
  };
  auto done = write();
  auto flushed = at.in->flush();  // also after a failure: a zip archive is locked until then
  PENSTOCK_TRY(std::move(done));
  PENSTOCK_TRY(std::move(flushed));
  return std::move(made.opened);
}

/// An open group keeps its store for reading. check_writable is called first.
std::shared_ptr<store> store_of(const group& parent) { return std::const_pointer_cast<store>(parent.state().store); }

void mark_stale(const group& parent) {
  if (parent.state().consolidated != nullptr) parent.state().consolidated->mark_stale();
}

result<array> create_in(std::shared_ptr<store> in, const create_options& options) {
  return create_array(std::move(in), options);
}
result<group> create_in(std::shared_ptr<store> in, const create_group_options& options) {
  return create_group(std::move(in), options);
}

/// A node below an open group, in the group's context, format and store.
template <class Options>
auto create_within(const group& parent, const Options& options, std::string_view what)
    -> decltype(create_in(nullptr, options)) {
  Options within = options;
  within.context = parent.state().context;
  within.path = parent.state().prefix + options.path;
  within.zarr_format = parent.state().format == "zarr2" ? 2 : 3;
  if (!options.format.empty() && options.format != "zarr")
    return wrong(fmt::format("format '{}': {} in a group has the group's format", options.format, what));
  if (prefix_of(options.path).empty()) return wrong(fmt::format("{} in a group needs a name", what));
  if (auto checked = check_writable(parent.state()); !checked.ok())
    return std::move(checked).error().note(fmt::format("creating '{}'", options.path));
  auto made = create_in(store_of(parent), within);
  if (made.ok()) mark_stale(parent);
  return made;
}

}  // namespace

result<array> create_zarr_array(const new_location& at, const create_options& options) {
  PENSTOCK_ASSIGN(const zarr_metadata metadata, new_array(options));
  PENSTOCK_ASSIGN(node made, create_node(new_node_at(at, options), metadata));
  return std::move(std::get<array>(made));
}

result<> check_create(std::shared_ptr<store> in, const create_options& options) {
  result<zarr_metadata> metadata = new_array(options);
  if (!metadata.ok()) return std::move(metadata).error();
  const std::string prefix = prefix_of(options.path);
  auto checked = check_node({in, options.context, prefix, options.overwrite}, *metadata);
  if (!checked.ok()) return std::move(checked).error().note(fmt::format("creating '{}'", child_uri(in->uri(), prefix)));
  return {};
}

result<group> create_zarr_group(const new_location& at, const create_group_options& options) {
  PENSTOCK_TRY(check_format(options.zarr_format));
  zarr_metadata metadata;
  metadata.zarr_format = options.zarr_format;
  PENSTOCK_ASSIGN(metadata.attributes, attributes_of(options.attributes_json));
  PENSTOCK_ASSIGN(node made, create_node(new_node_at(at, options), metadata));
  return std::move(std::get<group>(made));
}

result<array> create_array(const group& parent, const create_options& options) {
  return create_within(parent, options, "an array");
}

result<group> create_group(const group& parent, const create_group_options& options) {
  return create_within(parent, options, "a group");
}

result<> erase(const group& parent, std::string_view path) {
  const std::string within = prefix_of(path);
  if (within.empty()) return wrong("a group cannot erase itself: name a node in it");
  const std::string prefix = parent.state().prefix + within;
  const std::shared_ptr<store> in = store_of(parent);
  const auto note = [&] { return fmt::format("erasing '{}'", child_uri(in->uri(), prefix)); };
  if (auto checked = check_writable(parent.state()); !checked.ok()) return std::move(checked).error().note(note());
  auto there = documents_at(*in, prefix);
  if (!there.ok()) return std::move(there).error().note(note());
  if (there->empty()) {
    return error(errc::not_found, fmt::format("no array or group at '{}'", child_uri(in->uri(), prefix)));
  }
  mark_stale(parent);
  result<> erased = erase_node(*in, prefix);
  result<> flushed = in->flush();
  if (erased.ok()) erased = std::move(flushed);
  if (!erased.ok()) return std::move(erased).error().note(note());
  return {};
}

}  // namespace penstock::inline v0
