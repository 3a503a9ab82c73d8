#include <fmt/format.h>

#include <penstock/array.h>
#include <penstock/place.h>
#include "api/array_state.h"
#include "engine/blocking_read.h"
#include "engine/index_io.h"
#include "format/zarr/zarr_layout.h"
#include "format/zarr/zarr_metadata.h"
#include "store/file_store.h"
#include "store/memory_store.h"

namespace penstock::inline v0 {
namespace {

/// No metadata document is longer; attributes of real arrays stay far below.
constexpr std::uint64_t kMaxMetadataBytes = std::uint64_t{256} << 20;

// `a//b/` and `/a/b` as `a/b/`; empty stays empty.
std::string prefix_of(std::string_view path) {
  std::string out;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (!part.empty()) out.append(part).push_back('/');
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  }
  return out;
}

std::string child_uri(const std::string& store_uri, std::string_view prefix) {
  std::string out = store_uri;
  if (prefix.empty()) return out;
  if (!out.empty() && out.back() != '/') out.push_back('/');
  out.append(prefix.substr(0, prefix.size() - 1));
  return out;
}

result<node> make_array(std::shared_ptr<const store> from, const open_options& options,
                        std::shared_ptr<context> context, std::string prefix, std::string uri, zarr_metadata metadata) {
  codec_chain_options codecs;
  codecs.external = context->state().codecs();
  PENSTOCK_ASSIGN(const std::shared_ptr<const zarr_layout> layout, zarr_layout::make(metadata, codecs));
  auto out = std::make_shared<array_state>();
  out->uid = context->state().next_uid();
  out->caches_indexes = from->traits().versions || options.cache_unversioned_indexes;
  out->context = std::move(context);
  out->store = std::move(from);
  out->layout = layout;
  out->prefix = std::move(prefix);
  out->shape = metadata.shape;
  out->chunks = layout->chunks();
  out->shards = layout->shards();
  out->type = metadata.type;
  out->fill_value = std::move(metadata.fill_value);
  out->attributes_json = metadata.attributes.dump();
  out->codecs_json = metadata.codecs_json.dump();
  out->codecs_text = layout->describe_codecs();
  out->format = "zarr3";
  out->uri = std::move(uri);
  out->dimension_names = std::move(metadata.dimension_names);
  return node(array(std::move(out)));
}

}  // namespace

result<node> open(std::shared_ptr<const store> from, const open_options& options) {
  std::shared_ptr<penstock::context> context = options.context;
  if (!context) {
    PENSTOCK_ASSIGN(context, penstock::context::make());
  }
  std::string prefix = prefix_of(options.path);
  std::string uri = child_uri(from->uri(), prefix);
  const std::string key = prefix + std::string(kZarrKey);
  const auto note_uri = [&] { return fmt::format("opening '{}'", uri); };

  auto document = read_and_wait(*from, key, {}, kMaxMetadataBytes);
  if (!document.ok()) {
    if (document.error().code() != errc::not_found)
      return std::move(document).error().note(read_note(key, {})).note(note_uri());
    for (const std::string_view other : kZarrV2Keys)
      if (read_and_wait(*from, prefix + std::string(other), {}, kMaxMetadataBytes).ok())
        return zarr_v2_refused(other).note(note_uri());
    return error(errc::not_found, fmt::format("no array or group at '{}': it has no {}", uri, kZarrKey));
  }
  auto metadata = parse_zarr_metadata(document->bytes);
  if (!metadata.ok()) return std::move(metadata).error().note(note_uri());

  if (metadata->kind == zarr_node_kind::group) {
    auto out = std::make_shared<group_state>();
    out->context = std::move(context);
    out->store = std::move(from);
    out->prefix = std::move(prefix);
    out->cache_unversioned_indexes = options.cache_unversioned_indexes;
    out->attributes_json = metadata->attributes.dump();
    out->format = "zarr3";
    out->uri = std::move(uri);
    return node(group(std::move(out)));
  }
  auto made = make_array(std::move(from), options, std::move(context), std::move(prefix), uri, std::move(*metadata));
  if (!made.ok()) return std::move(made).error().note(note_uri());
  return made;
}

result<node> open(std::string_view uri, const open_options& options) {
  PENSTOCK_ASSIGN(place at, find_place(uri));
  open_options within = options;
  within.path = at.path + "/" + options.path;
  return open(std::move(at.store), within);
}

result<array> open_array(std::shared_ptr<const store> from, const open_options& options) {
  PENSTOCK_ASSIGN(node found, open(std::move(from), options));
  if (auto* out = std::get_if<array>(&found)) return std::move(*out);
  return error(errc::invalid_argument, fmt::format("'{}' is a group, not an array", std::get<group>(found).uri()));
}

result<array> open_array(std::string_view uri, const open_options& options) {
  PENSTOCK_ASSIGN(node found, open(uri, options));
  if (auto* out = std::get_if<array>(&found)) return std::move(*out);
  return error(errc::invalid_argument, fmt::format("'{}' is a group, not an array", uri));
}

result<node> open(const group& parent, std::string_view path) {
  const group_state& state = parent.state();
  open_options options;
  options.context = state.context;
  options.path = state.prefix + std::string(path);
  options.cache_unversioned_indexes = state.cache_unversioned_indexes;
  return open(state.store, options);
}

std::shared_ptr<store> open_file_store(std::string root) { return std::make_shared<file_store>(std::move(root)); }
std::shared_ptr<store> make_memory_store() { return std::make_shared<memory_store>(); }

}  // namespace penstock::inline v0
