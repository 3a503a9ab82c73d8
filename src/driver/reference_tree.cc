#include "driver/reference_tree.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <unordered_map>
#include <utility>

#include <penstock/open.h>

#include "driver/missing_value.h"
#include "driver/open_reference.h"
#include "engine/array_state.h"
#include "engine/blocking_read.h"
#include "engine/context_state.h"
#include "format/zarr/zarr_layout.h"
#include "format/zarr/zarr_v2.h"
#include "store/http_url.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kFormat = "reference";
constexpr std::string_view kFile = "file://";
/// The documents that describe an array.
constexpr std::array<std::string_view, 3> kDocuments = {"zarr.json", ".zarray", ".zattrs"};

bool has_scheme(std::string_view location) { return location.find("://") != std::string_view::npos; }

/// A path without `..`, as most are: paths of the standard library are slow for tens of thousands of files.
std::string normal_path(std::string path) {
  const bool may_differ = !path.starts_with('/') || path.ends_with('/') || path.ends_with("/.") ||
                          path.ends_with("/..") || path.find("//") != std::string::npos ||
                          path.find("/./") != std::string::npos || path.find("/../") != std::string::npos;
  return may_differ ? std::filesystem::path(path).lexically_normal().string() : path;
}

reference_keys keys_of(const zarr_metadata& metadata, const chunk_grid& grid) {
  reference_keys out;
  for (std::size_t d = 0; d < grid.rank(); ++d) out.grid.push_back(grid.axis(d).cells());
  out.prefix = metadata.keys.v2 ? "" : "c";
  out.separator = metadata.keys.separator;
  return out;
}

/// The end of the folder that a URL names: "memory://x" is in "memory://".
std::size_t end_of_folder(std::string_view url) {
  const std::size_t slash = url.rfind('/');
  const std::size_t scheme = url.find("://");
  return scheme != std::string_view::npos && slash == scheme + 2 ? slash + 1 : slash;
}

}  // namespace

std::string resolved_location(std::string_view base, std::string_view name) {
  if (has_scheme(name) || name.find("::") != std::string_view::npos || name.starts_with('/')) return std::string(name);
  if (!has_scheme(base)) return fmt::format("{}{}{}", base, base.empty() || base.ends_with('/') ? "" : "/", name);
  const std::size_t begin = base.find("://") + 3;
  const auto folder = std::filesystem::path(base.substr(begin)) / name;
  return fmt::format("{}{}", base.substr(0, begin), folder.lexically_normal().string());
}

std::string named_location(std::string_view folder, std::string_view name) {
  std::string out = resolved_location(folder, name);
  if (has_scheme(name) || out.find("::") != std::string::npos) return out;
  if (!has_scheme(out)) out = std::filesystem::path(out).lexically_normal().string();
  if ((out.size() > 1 && out.ends_with('/') && !out.ends_with("://")) || out.ends_with("://.")) out.pop_back();
  return out;
}

result<std::string> allowed_location(const reference_tree_place& at, std::string_view name) {
  const bool has_own = has_scheme(name) || name.find("::") != std::string_view::npos;
  if (!at.default_scheme.empty() && !has_own) {
    if (at.default_scheme == "file" || at.default_scheme == "local")
      return std::filesystem::absolute(name).lexically_normal().string();
    std::string location = fmt::format("{}://{}", at.default_scheme, name);
    PENSTOCK_TRY(at.rule.check(location, name));
    return location;
  }
  std::string location = resolved_location(at.base, name);
  PENSTOCK_TRY(at.rule.check(location, name));
  // The folder is opened as a store, and its URL is checked too: in a chain of URLs it may name another place.
  if (has_scheme(location)) PENSTOCK_TRY(at.rule.check(location.substr(0, end_of_folder(location)), name));
  return location;
}

result<place> reference_stores::folder(const std::string& url, const std::string& location) const {
  if (find_) {
    PENSTOCK_ASSIGN(std::optional<place> found, find_(url));
    if (found) return std::move(*found);
  }
  if (location.find("::") != std::string::npos)
    return error(errc::unsupported, fmt::format("no store for '{}'", location));
  return find_place(url, {context_, {}});
}

result<referenced_object> reference_stores::object(const std::string& location) {
  referenced_object out;
  out.name = location;
  std::string path = location;
  const bool chain = location.find("::") != std::string::npos;
  const bool local = !chain && (!has_scheme(location) || location.starts_with(kFile));
  if (local) {
    if (location.starts_with(kFile)) path = percent_decode(location.substr(kFile.size()));
    path = normal_path(std::move(path));
    out.path = path;
  }
  const std::size_t slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? std::string() : path.substr(0, end_of_folder(path));
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (local && folder.empty()) folder = "/";
  auto found = stores_.find(folder);
  if (found == stores_.end()) {
    place made;
    if (local) {
      made.store = open_file_store(folder);
    } else {
      PENSTOCK_ASSIGN(made, this->folder(folder, location));
    }
    found = stores_.emplace(folder, std::move(made)).first;
  }
  out.from = found->second.store;
  out.key = found->second.path.empty() ? name : found->second.path + "/" + name;
  return out;
}

result<std::shared_ptr<const reference_tree>> reference_tree::of_json(std::string_view text, reference_tree_place at) {
  auto parsed = kerchunk_json::parse(text);
  if (!parsed.ok()) return std::move(parsed).error().note(fmt::format("opening the references '{}'", at.uri));
  std::shared_ptr<reference_tree> out(new reference_tree);
  out->at_ = std::move(at);
  PENSTOCK_TRY(out->add_documents(parsed->documents()));
  out->references_ = std::move(*parsed);
  return std::shared_ptr<const reference_tree>(std::move(out));
}

result<std::shared_ptr<const reference_tree>> reference_tree::of_folder(std::shared_ptr<const store> from,
                                                                        std::string prefix, std::string_view zmetadata,
                                                                        reference_tree_place at) {
  auto parsed = kerchunk_folder::parse(zmetadata);
  if (!parsed.ok()) return std::move(parsed).error().note(fmt::format("opening the references '{}'", at.uri));
  std::shared_ptr<reference_tree> out(new reference_tree);
  out->at_ = std::move(at);
  PENSTOCK_TRY(out->add_documents(parsed->documents));
  out->references_ = parquet_folder{std::move(from), std::move(prefix), parsed->record_size};
  return std::shared_ptr<const reference_tree>(std::move(out));
}

result<> reference_tree::add_documents(const reference_documents& documents) {
  const std::shared_ptr<store> made = make_memory_store();
  for (const auto& [key, text] : documents) {
    const part bytes = std::as_bytes(std::span(text));
    auto put = made->put(key, {&bytes, 1}, {});
    if (!put.ok()) return std::move(put).error();
    const std::size_t slash = key.rfind('/');
    const std::string_view document = std::string_view(key).substr(slash + 1);  // npos + 1 is 0
    const bool is_node = document == kZarrayKey || document == kZgroupKey || document == kZarrKey;
    if (is_node && slash != std::string::npos) nodes_.insert(key.substr(0, slash));
  }
  documents_ = make_read_only(made);
  return {};
}

result<std::optional<std::vector<std::string>>> reference_tree::keys(std::string_view path) const {
  const std::string prefix = prefix_of(path);
  std::vector<std::string> out;
  for (auto each = nodes_.lower_bound(prefix); each != nodes_.end() && each->starts_with(prefix); ++each) {
    const std::string_view name = std::string_view(*each).substr(prefix.size());
    if (!name.empty() && name.find('/') == std::string_view::npos) out.emplace_back(name);
  }
  return std::optional(std::move(out));
}

result<node> reference_tree::open(std::string_view path) const {
  node_place at;
  at.prefix = prefix_of(path);
  at.uri = child_uri(at_.uri, at.prefix);
  at.context = at_.context;
  at.from = documents_;
  at.opened_for_reading = at_.opened_for_reading;
  at.use_consolidated = consolidation::never;
  auto found = find_zarr_node(*documents_, at.prefix, consolidation::never);
  if (!found.ok()) return std::move(found).error().note(fmt::format("opening '{}'", at.uri));
  if (!*found) {
    return error(errc::not_found, fmt::format("the references have no array or group at '{}'", at.uri));
  }
  zarr_metadata metadata = std::move((*found)->metadata);
  if (metadata.kind == zarr_node_kind::array) {
    std::string within = at.prefix;
    if (!within.empty()) within.pop_back();
    const std::string uri = at.uri;
    auto made = open_array(std::move(within), std::move(at.uri), std::move(metadata));
    if (!made.ok() && made.error().notes().empty())
      return std::move(made).error().note(fmt::format("opening '{}'", uri));
    return made;
  }
  PENSTOCK_ASSIGN(const node plain, make_node(std::move(at), std::move(metadata)));
  auto state = std::make_shared<group_state>(std::get<group>(plain).state());
  state->format = kFormat;
  state->members = shared_from_this();
  return node(group(std::move(state)));
}

result<node> reference_tree::open_array(std::string path, std::string uri, zarr_metadata metadata) const {
  codec_chain_options codecs;
  codecs.external = at_.context->state().codecs();
  PENSTOCK_ASSIGN(const auto layout, zarr_layout::make(metadata, codecs));
  if (layout->shards()) return error(errc::unsupported, "references to shards are not readable");
  if (!metadata.keys.suffix.empty()) {
    return error(errc::unsupported,
                 fmt::format("chunk keys with the suffix '{}' in references are not readable", metadata.keys.suffix));
  }
  const reference_keys keys = keys_of(metadata, layout->grid());
  PENSTOCK_ASSIGN(const std::uint64_t cells, keys.cells());
  reference_rows rows;
  if (const auto* parquet = std::get_if<parquet_folder>(&references_)) {
    const std::string base = at_.default_scheme.empty() ? path : std::string();
    PENSTOCK_ASSIGN(rows,
                    read_parquet_references(*parquet->from, parquet->prefix, path, base, cells, parquet->record_size));
  } else {
    PENSTOCK_ASSIGN(rows, std::get<kerchunk_json>(references_).rows(path, keys));
  }

  referenced_array what;
  reference_stores stores(at_.context, at_.find_folder);
  const std::shared_ptr<store> inlined = make_memory_store();
  std::unordered_map<std::string, std::uint32_t> known;
  std::vector<std::uint32_t> numbers;  // number of each source's object
  for (const reference_source& source : rows.sources()) {
    const auto number = static_cast<std::uint32_t>(what.objects.size());
    if (source.is_data) {
      const std::string name = fmt::format("inline/{}", number);
      const part bytes = std::as_bytes(std::span(source.text));
      auto put = inlined->put(name, {&bytes, 1}, {});
      if (!put.ok()) return std::move(put).error();
      referenced_object object;
      object.name = object.key = name;
      object.from = inlined;
      object.inlined = true;
      what.objects.push_back(std::move(object));
      numbers.push_back(number);
      continue;
    }
    PENSTOCK_ASSIGN(const std::string location, allowed_location(at_, source.text));
    const auto [seen, is_new] = known.try_emplace(location, number);
    numbers.push_back(seen->second);
    if (!is_new) continue;
    PENSTOCK_ASSIGN(referenced_object object, stores.object(location));
    what.objects.push_back(std::move(object));
  }
  PENSTOCK_ASSIGN(what.table, rows.table(cells, numbers));
  for (const std::string_view name : kDocuments) {
    if (auto text = read_and_wait(*documents_, prefix_of(path) + std::string(name), {}, byte_range::kAll - 1);
        text.ok())
      what.documents.emplace_back(name,
                                  std::string(reinterpret_cast<const char*>(text->bytes.data()), text->bytes.size()));
  }
  for (auto& [name, text] : what.documents) {
    if (name != kZattrsKey) continue;
    json changed = with_fill_as_attribute(metadata, metadata.attributes);
    if (changed == metadata.attributes) continue;
    text = changed.dump();
    metadata.attributes = std::move(changed);
  }
  what.metadata = std::move(metadata);
  what.format = kFormat;
  what.uri = std::move(uri);
  what.missing_is_fill = at_.missing_is_fill;
  what.opened_for_reading = at_.opened_for_reading;
  PENSTOCK_ASSIGN(array out, open_reference(at_.context, std::move(what)));
  return node(std::move(out));
}

}  // namespace penstock::inline v0
