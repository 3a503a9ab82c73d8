#include "api/zarr_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "api/array_state.h"
#include "engine/blocking_read.h"
#include "engine/index_io.h"
#include "format/zarr/zarr_layout.h"
#include "format/zarr/zarr_v2.h"
#include "store/http_url.h"

namespace penstock::inline v0 {
namespace {

/// What only kerchunk's `.zmetadata` has.
constexpr std::string_view kRecordSize = "record_size";

result<node> make_array(node_place at, zarr_metadata metadata) {
  codec_chain_options codecs;
  codecs.external = at.context->state().codecs();
  PENSTOCK_ASSIGN(const std::shared_ptr<const zarr_layout> layout, zarr_layout::make(metadata, codecs));
  auto out = std::make_shared<array_state>();
  out->caches_indexes = at.from->traits().versions || at.cache_unversioned_indexes;
  out->context = std::move(at.context);
  out->store = std::move(at.from);
  out->layout = layout;
  out->prefix = std::move(at.prefix);
  out->shape = metadata.shape;
  out->chunks = layout->chunks();
  out->shards = layout->shards();
  out->type = metadata.type;
  out->fill_value = std::move(metadata.fill_value);
  out->fill_text = std::move(metadata.fill_text);
  out->fill_value_json = metadata.fill_json.dump();
  out->attributes_json = metadata.attributes.dump();
  out->codecs_json = metadata.codecs_json.dump();
  out->codecs_text = layout->describe_codecs();
  out->format = metadata.zarr_format == 2 ? "zarr2" : "zarr3";
  out->uri = std::move(at.uri);
  out->dimension_names = std::move(metadata.dimension_names);
  out->name_for_caches({});
  return node(array(std::move(out)));
}

node make_group(node_place at, const zarr_metadata& metadata) {
  auto out = std::make_shared<group_state>();
  out->context = std::move(at.context);
  out->store = std::move(at.from);
  out->prefix = std::move(at.prefix);
  out->cache_unversioned_indexes = at.cache_unversioned_indexes;
  out->attributes_json = metadata.attributes.dump();
  out->format = metadata.zarr_format == 2 ? "zarr2" : "zarr3";
  out->uri = std::move(at.uri);
  out->consolidated = std::move(at.consolidated);
  out->consolidated_path = std::move(at.consolidated_path);
  out->use_consolidated = at.use_consolidated;
  return node(group(std::move(out)));
}

result<std::optional<zarr_node>> find_v3(const store& from, const std::string& prefix, consolidation use) {
  PENSTOCK_ASSIGN(std::optional<stored_document> found, read_document(from, prefix + std::string(kZarrKey)));
  if (!found) return std::optional<zarr_node>();
  zarr_node out;
  PENSTOCK_ASSIGN(out.metadata, parse_zarr_metadata(*found->content));
  if (out.metadata.kind == zarr_node_kind::group && use != consolidation::never) {
    auto copies = zarr_consolidated::from_v3(std::move(found->content));
    // What cannot be used need not be: it is a copy.
    const bool pass = !copies.ok() && use == consolidation::automatic && copies.error().code() == errc::unsupported;
    if (!pass) {
      PENSTOCK_ASSIGN(out.consolidated, std::move(copies));
    }
  }
  return std::optional<zarr_node>(std::move(out));
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
  return std::optional<stored_document>({std::make_shared<const json>(std::move(*parsed)), read->seen});
}

/// The documents of a place, each parsed once. A store that answers later is asked for all of `likely` at once: which
/// of them are there is only known by asking, and each further question would be a round trip.
class documents {
 public:
  documents(const store& from, const std::string& prefix, std::span<const std::string_view> likely)
      : from_(from), prefix_(prefix) {
    if (from.traits().inline_completion) return;
    for (const std::string_view name : likely) keys_.push_back(prefix + std::string(name));
    answers_ = read_all_and_wait(from, keys_, {}, kMaxMetadataBytes);
  }

  /// May be asked for a name once.
  result<std::optional<stored_document>> operator()(std::string_view name) {
    std::string key = prefix_ + std::string(name);
    const auto asked = std::find(keys_.begin(), keys_.end(), key);
    if (asked == keys_.end()) return read_document(from_, key);
    return document_of(key, std::move(answers_[static_cast<std::size_t>(asked - keys_.begin())]));
  }

 private:
  const store& from_;
  const std::string& prefix_;
  std::vector<std::string> keys_;
  std::vector<result<blocking_read>> answers_;
};

result<std::optional<zarr_node>> find_v2(const store& from, const std::string& prefix, consolidation use) {
  zarr_node out;
  constexpr std::array kLikely{kZarrayKey, kZgroupKey, kZattrsKey, kZmetadataKey};
  documents find(from, prefix, std::span(kLikely).first(use == consolidation::never ? 3 : 4));
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
      // Read as Zarr they would be arrays of fill values.
      return error(errc::not_found, fmt::format("'{}{}' describes references saved as Parquet, which Python opens",
                                                prefix, kZmetadataKey));
    }
    if (all) {
      PENSTOCK_ASSIGN(out.consolidated, zarr_consolidated::from_v2(std::move(all->content)));
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

result<std::optional<zarr_node>> find_zarr_node(const store& from, const std::string& prefix, consolidation use,
                                                int prefer) {
  PENSTOCK_ASSIGN(std::optional<zarr_node> first,
                  prefer == 2 ? find_v2(from, prefix, use) : find_v3(from, prefix, use));
  if (first) return first;
  return prefer == 2 ? find_v3(from, prefix, use) : find_v2(from, prefix, use);
}

result<node> make_node(node_place at, zarr_metadata metadata) {
  if (metadata.kind == zarr_node_kind::group) return make_group(std::move(at), metadata);
  return make_array(std::move(at), std::move(metadata));
}

}  // namespace penstock::inline v0
