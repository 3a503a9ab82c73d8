#include "driver/zarr_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>

#include "driver/drivers.h"
#include "driver/open_references.h"
#include "engine/array_state.h"
#include "engine/blocking_read.h"
#include "engine/index_io.h"
#include "format/zarr/zarr_layout.h"
#include "format/zarr/zarr_v2.h"
#include "store/http_url.h"

namespace penstock::inline v0 {

array_facts facts_of(zarr_metadata metadata) {
  array_facts out;
  out.format = metadata.zarr_format == 2 ? "zarr2" : "zarr3";
  out.shape = std::move(metadata.shape);
  out.type = std::move(metadata.type);
  out.fill_value = std::move(metadata.fill_value);
  out.fill_text = std::move(metadata.fill_text);
  out.fill_value_json = metadata.fill_json.dump();
  out.attributes_json = metadata.attributes.dump();
  out.codecs_json = metadata.codecs_json.dump();
  out.dimension_names = std::move(metadata.dimension_names);
  return out;
}

array_site site_of(node_place at) {
  array_site out;
  out.caches_indexes = at.from->traits().versions || at.cache_unversioned_indexes;
  out.opened_for_reading = at.opened_for_reading;
  out.after_writes = at.after_writes;
  out.context = std::move(at.context);
  out.store = std::move(at.from);
  out.prefix = std::move(at.prefix);
  out.uri = std::move(at.uri);
  return out;
}

namespace {

/// Members that only kerchunk's `.zmetadata` has.
constexpr std::string_view kRecordSize = "record_size";

result<array> make_array(node_place at, zarr_metadata metadata) {
  codec_chain_options codecs;
  codecs.external = at.context->state().codecs();
  PENSTOCK_ASSIGN(const std::shared_ptr<const zarr_layout> layout, zarr_layout::make(metadata, codecs));
  array_facts what = facts_of(std::move(metadata));
  what.chunks = layout->chunks();
  what.shards = layout->shards();
  what.codecs_text = layout->describe_codecs();
  return array(
      std::make_shared<const array_state>(site_of(std::move(at)), layout, std::move(what), cache_name::lasting));
}

node make_group(node_place at, const zarr_metadata& metadata) {
  auto out = std::make_shared<group_state>();
  out->context = std::move(at.context);
  out->store = std::move(at.from);
  out->prefix = std::move(at.prefix);
  out->cache_unversioned_indexes = at.cache_unversioned_indexes;
  out->opened_for_reading = at.opened_for_reading;
  out->attributes_json = metadata.attributes.dump();
  out->format = metadata.zarr_format == 2 ? "zarr2" : "zarr3";
  out->uri = std::move(at.uri);
  out->consolidated = std::move(at.consolidated);
  out->consolidated_path = std::move(at.consolidated_path);
  out->use_consolidated = at.use_consolidated;
  return node(group(std::move(out)));
}

result<std::optional<stored_document>> document_of(const std::string& key, result<blocking_read> read) {
  if (!read.ok()) {
    if (read.error().code() == errc::not_found) return std::optional<stored_document>();
    return std::move(read).error().note(read_note(key, {}));
  }
  auto parsed = json::parse({reinterpret_cast<const char*>(read->bytes.data()), read->bytes.size()});
  if (!parsed.ok()) {
    const std::size_t slash = key.rfind('/');
    return std::move(parsed).error().note("parsing " + key.substr(slash == std::string::npos ? 0 : slash + 1));
  }
  stored_document out;
  out.content = std::make_shared<const json>(std::move(*parsed));
  out.seen = std::move(read->seen);
  out.bytes = std::move(read->bytes);
  return std::optional(std::move(out));
}

/// The documents of a place, each parsed once.
class documents {
 public:
  documents(const store& from, const std::string& prefix) : from_(from), prefix_(prefix) {}

  /// For many locations. All names of `likely` are requested from an asynchronous store at once: only a request shows
  /// which exist, and each further one would be a round trip.
  static std::vector<documents> of(const store& from, std::span<const std::string> prefixes,
                                   std::span<const std::string_view> likely) {
    std::vector<documents> out;
    std::vector<std::string> keys;
    for (const std::string& prefix : prefixes) {
      out.emplace_back(from, prefix);
      for (const std::string_view name : likely) keys.push_back(prefix + std::string(name));
    }
    if (from.traits().inline_completion) return out;
    std::vector<result<blocking_read>> answers = read_all_and_wait(from, keys, {}, kMaxMetadataBytes);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      out[i / likely.size()].answers_.emplace_back(std::move(keys[i]), std::move(answers[i]));
    }
    return out;
  }

  const std::string& prefix() const noexcept { return prefix_; }

  /// Each name may be requested only once.
  result<std::optional<stored_document>> operator()(std::string_view name) {
    std::string key = prefix_ + std::string(name);
    const auto asked =
        std::find_if(answers_.begin(), answers_.end(), [&](const auto& each) { return each.first == key; });
    if (asked == answers_.end()) return read_document(from_, key);
    return document_of(key, std::move(asked->second));
  }

 private:
  const store& from_;
  const std::string& prefix_;
  std::vector<std::pair<std::string, result<blocking_read>>> answers_;  // by key
};

result<std::optional<zarr_node>> find_v3(documents& find, consolidation use) {
  PENSTOCK_ASSIGN(std::optional<stored_document> found, find(kZarrKey));
  if (!found) return std::optional<zarr_node>();
  zarr_node out;
  PENSTOCK_ASSIGN(out.metadata, parse_zarr_metadata(*found->content));
  if (out.metadata.kind == zarr_node_kind::group && use != consolidation::never) {
    auto copies = zarr_consolidated::from_v3(std::move(found->content));
    // An unusable copy is ignored: it is not needed.
    const bool pass = !copies.ok() && use == consolidation::automatic && copies.error().code() == errc::unsupported;
    if (!pass) {
      PENSTOCK_ASSIGN(out.consolidated, std::move(copies));
    }
  }
  return std::optional<zarr_node>(std::move(out));
}

result<std::optional<zarr_node>> find_v2(documents& find, consolidation use) {
  zarr_node out;
  PENSTOCK_ASSIGN(const std::optional<stored_document> zarray, find(kZarrayKey));
  if (zarray) {
    PENSTOCK_ASSIGN(const std::optional<stored_document> zattrs, find(kZattrsKey));
    PENSTOCK_ASSIGN(out.metadata, parse_zarr_v2_array(*zarray->content, zattrs ? zattrs->content.get() : nullptr));
    return std::optional<zarr_node>(std::move(out));
  }
  PENSTOCK_ASSIGN(const std::optional<stored_document> zgroup, find(kZgroupKey));
  if (use != consolidation::never) {
    PENSTOCK_ASSIGN(std::optional<stored_document> all, find(kZmetadataKey));
    if (all && all->content->find(kRecordSize) != nullptr) {
      // Read as Zarr, they would be arrays of fill values.
      out.references = std::move(all->content);
      return std::optional<zarr_node>(std::move(out));
    }
    if (all) {
      auto copies = zarr_consolidated::from_v2(std::move(all->content));
      // As in format 3. Without `.zgroup`, the copy is the only description of the group.
      const bool pass =
          zgroup && !copies.ok() && use == consolidation::automatic && copies.error().code() == errc::unsupported;
      if (!pass) {
        PENSTOCK_ASSIGN(out.consolidated, std::move(copies));
      }
    }
  }
  if (out.consolidated != nullptr && out.consolidated->contains("")) {
    PENSTOCK_ASSIGN(out.metadata, out.consolidated->parse(""));
    return std::optional<zarr_node>(std::move(out));
  }
  if (!zgroup) return std::optional<zarr_node>();
  PENSTOCK_ASSIGN(const std::optional<stored_document> zattrs, find(kZattrsKey));
  PENSTOCK_ASSIGN(out.metadata, parse_zarr_v2_group(*zgroup->content, zattrs ? zattrs->content.get() : nullptr));
  return std::optional<zarr_node>(std::move(out));
}

}  // namespace

std::string prefix_of(std::string_view path) {
  std::string out;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view name = path.substr(0, slash);
    if (!name.empty()) out.append(name).push_back('/');
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  }
  return out;
}

std::string child_uri(const std::string& store_uri, std::string_view prefix) {
  std::string out = store_uri;
  if (prefix.empty()) return out;
  const bool goes_on = ends_with_encoded_slash(out) && out.starts_with("http");
  if (!out.empty() && out.back() != '/' && !goes_on) out.push_back('/');
  out.append(prefix.substr(0, prefix.size() - 1));
  return out;
}

result<std::optional<stored_document>> read_document(const store& from, const std::string& key) {
  return document_of(key, read_and_wait(from, key, {}, kMaxMetadataBytes));
}

result<stored_document> required_document(const store& from, const std::string& key) {
  PENSTOCK_ASSIGN(std::optional<stored_document> found, read_document(from, key));
  if (!found) return error(errc::not_found, fmt::format("'{}' was removed", key));
  return std::move(*found);
}

result<stored_document> required_object(const store& from, const std::string& key) {
  PENSTOCK_ASSIGN(stored_document found, required_document(from, key));
  if (found.content->as_object() == nullptr) {
    return error(errc::corrupt_data,
                 fmt::format("'{}' must be an object of JSON, got a JSON {}", key, found.content->kind_name()));
  }
  return found;
}

result<std::optional<zarr_node>> find_zarr_node(const store& from, const std::string& prefix, consolidation use,
                                                int prefer) {
  return std::move(find_zarr_nodes(from, {&prefix, 1}, use, prefer).front());
}

std::shared_ptr<const json> find_parquet_references(const store& from, const std::string& prefix) {
  auto all = read_document(from, prefix + std::string(kZmetadataKey));
  if (!all.ok() || !*all || (*all)->content->find(kRecordSize) == nullptr) return nullptr;
  return std::move((*all)->content);
}

std::vector<result<std::optional<zarr_node>>> find_zarr_nodes(const store& from, std::span<const std::string> prefixes,
                                                              consolidation use, int prefer) {
  constexpr std::array kV3{kZarrKey};
  constexpr std::array kV2{kZarrayKey, kZgroupKey, kZattrsKey, kZmetadataKey};
  std::vector<result<std::optional<zarr_node>>> out;
  for (std::size_t i = 0; i < prefixes.size(); ++i) out.emplace_back(std::optional<zarr_node>());
  for (const bool is_v2 : {prefer == 2, prefer != 2}) {
    std::vector<std::size_t> open;
    std::vector<std::string> of_open;
    for (std::size_t i = 0; i < prefixes.size(); ++i) {
      if (!out[i].ok() || *out[i]) continue;
      open.push_back(i);
      of_open.push_back(prefixes[i]);
    }
    const std::span<const std::string_view> likely =
        is_v2 ? std::span<const std::string_view>(kV2).first(use == consolidation::never ? 3 : 4) : kV3;
    std::vector<documents> found = documents::of(from, of_open, likely);
    for (std::size_t i = 0; i < open.size(); ++i)
      out[open[i]] = is_v2 ? find_v2(found[i], use) : find_v3(found[i], use);
  }
  return out;
}

node_place child_place(const group& parent, std::string_view path) {
  const group_state& state = parent.state();
  node_place at;
  at.context = state.context;
  at.from = state.store;
  at.prefix = state.prefix + prefix_of(path);
  at.uri = child_uri(state.store->uri(), at.prefix);
  at.cache_unversioned_indexes = state.cache_unversioned_indexes;
  at.opened_for_reading = state.opened_for_reading;
  // A deeper node may have documents of its own for its tree, but they are as old as the dropped ones.
  const bool dropped = state.consolidated != nullptr && state.consolidated->stale();
  at.use_consolidated = dropped ? consolidation::never : state.use_consolidated;
  return at;
}

result<std::optional<node>> make_found(node_place at, result<std::optional<zarr_node>> found) {
  const auto note_uri = [&, uri = at.uri] { return fmt::format("opening '{}'", uri); };
  if (!found.ok()) return std::move(found).error().note(note_uri());
  if (!*found) return std::optional<node>();
  zarr_node& here = **found;
  if (here.references != nullptr) {
    PENSTOCK_ASSIGN(node made, open_reference_folder(std::move(at), *here.references));
    return std::optional<node>(std::move(made));
  }
  if (at.use_consolidated == consolidation::required && here.metadata.kind == zarr_node_kind::group &&
      here.consolidated == nullptr) {
    return error(errc::not_found, fmt::format("the group '{}' has no consolidated metadata", at.uri));
  }
  at.consolidated = std::move(here.consolidated);
  auto made = make_node(std::move(at), std::move(here.metadata));
  if (!made.ok()) return std::move(made).error().note(note_uri());
  return std::optional<node>(std::move(*made));
}

result<zarr_metadata> parse_array_documents(const std::vector<std::pair<std::string, std::string>>& documents) {
  std::map<std::string_view, json> by_name;
  for (const auto& [name, text] : documents) {
    auto parsed = json::parse(text);
    if (!parsed.ok()) return std::move(parsed).error().note("parsing " + name);
    by_name.emplace(name, std::move(*parsed));
  }
  const auto find = [&](std::string_view name) {
    const auto at = by_name.find(name);
    return at == by_name.end() ? nullptr : &at->second;
  };
  if (const json* v3 = find(kZarrKey)) {
    PENSTOCK_ASSIGN(zarr_metadata out, parse_zarr_metadata(*v3));
    if (out.kind == zarr_node_kind::array) return out;
  } else if (const json* zarray = find(kZarrayKey)) {
    return parse_zarr_v2_array(*zarray, find(kZattrsKey));
  }
  return error(errc::corrupt_data, "the metadata describes no array");
}

result<node> make_node(node_place at, zarr_metadata metadata) {
  if (metadata.kind == zarr_node_kind::group) return make_group(std::move(at), metadata);
  PENSTOCK_ASSIGN(array made, make_array(std::move(at), std::move(metadata)));
  return node(std::move(made));
}

node_place place_of(const location& at, const open_options& how) {
  node_place out;
  out.context = at.context;
  out.from = at.from;
  out.prefix = prefix_of(at.path);
  out.uri = at.uri;
  out.cache_unversioned_indexes = how.cache_unversioned_indexes;
  out.use_consolidated = how.use_consolidated;
  out.missing_is_fill = how.missing_is_fill;
  out.allow_local = how.allow_local;
  out.opened_for_reading = how.mode == open_mode::read;
  return out;
}

result<std::optional<node>> open_zarr(const location& at, const open_options& how, int prefer) {
  node_place place = place_of(at, how);
  auto found = find_zarr_node(*place.from, place.prefix, place.use_consolidated, prefer);
  return make_found(std::move(place), std::move(found));
}

}  // namespace penstock::inline v0
