#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/array.h>
#include <penstock/create.h>
#include <penstock/joined.h>
#include <penstock/open.h>
#include <penstock/place.h>
#include "api/open_shard_files.h"
#include "driver/for_each_file.h"
#include "driver/node_mode.h"
#include "driver/registry.h"
#include "driver/zarr_nodes.h"
#include "engine/array_state.h"
#include "engine/blocking_read.h"

namespace penstock::inline v0 {
namespace {

/// Opens the node of a store at a path below a group.
result<node> open_zarr_at(node_place at, int prefer) {
  const std::string uri = at.uri;
  auto found = find_zarr_node(*at.from, at.prefix, at.use_consolidated, prefer);
  PENSTOCK_ASSIGN(std::optional<node> made, make_found(std::move(at), std::move(found)));
  if (made) return std::move(*made);
  return no_zarr_node(uri);
}

/// The error if a group is found where an array is needed. It names the members of a file only: listing a store may be
/// expensive.
error not_an_array(const group& found, std::string_view uri) {
  constexpr std::size_t kMostNames = 20;
  error wrong(errc::invalid_argument, fmt::format("'{}' is a group, not an array", uri));
  const group_state& state = found.state();
  if (!state.members) return wrong;
  auto names = state.members->keys(state.prefix);
  if (!names.ok() || !*names || (*names)->empty()) return wrong;
  (*names)->resize(std::min((*names)->size(), kMostNames));
  return std::move(wrong).note(fmt::format("it holds {}", fmt::join(**names, ", ")));
}

}  // namespace

result<node> open(std::shared_ptr<const store> from, const open_options& options) {
  PENSTOCK_TRY(check_open_mode(options.mode));
  location at;
  at.context = options.context;
  if (!at.context) {
    PENSTOCK_ASSIGN(at.context, penstock::context::make());
  }
  const std::string prefix = prefix_of(options.path);
  at.path = prefix.substr(0, prefix.size() - (prefix.empty() ? 0 : 1));
  at.uri = child_uri(from->uri(), prefix);
  at.from = std::move(from);
  return in_mode(open_location(std::move(at), options), options.mode);
}

result<node> open(std::string_view uri, const open_options& options) {
  PENSTOCK_TRY(check_open_mode(options.mode));
  const bool within_file = is_pattern_within_file(uri);
  if (!within_file) {
    PENSTOCK_ASSIGN(std::optional<array> files, open_pattern(uri, options));
    if (files) return in_mode(node(std::move(*files)), options.mode);
  }
  PENSTOCK_ASSIGN(target_location at, resolve(uri, options));
  result<found_node> found = find_node(std::move(at), options);
  result<node> opened = found.ok() ? open_found(std::move(*found), options) : result<node>(std::move(found).error());
  if (opened.ok() || opened.error().code() != errc::not_found) return in_mode(std::move(opened), options.mode);
  if (within_file) {
    PENSTOCK_ASSIGN(std::optional<array> members, open_pattern(uri, options));
    if (members) return in_mode(node(std::move(*members)), options.mode);
  }
  PENSTOCK_ASSIGN(array folder, open_folder_of_files(uri, options, std::move(opened).error()));
  return in_mode(node(std::move(folder)), options.mode);
}

result<std::vector<array>> open_arrays(std::span<const std::string> uris, const open_options& options) {
  open_options how = options;
  if (!how.context) {
    PENSTOCK_ASSIGN(how.context, penstock::context::make());
  }
  std::vector<array> out;
  if (uris.empty()) return out;
  const auto first = find_place(uris.front(), {how.context, {}});
  const std::shared_ptr<const store> like = first.ok() ? first->store : open_file_store("/");
  std::vector<std::optional<result<array>>> opened(uris.size());
  for_each_file(uris.size(), *like, *how.context, [&](std::size_t i) { opened[i] = open_array(uris[i], how); });
  out.reserve(uris.size());
  for (auto& each : opened) {
    if (!each->ok()) return std::move(*each).error();
    out.push_back(std::move(**each));
  }
  return out;
}

result<array> open_array(std::shared_ptr<const store> from, const open_options& options) {
  PENSTOCK_ASSIGN(node found, open(std::move(from), options));
  if (auto* out = std::get_if<array>(&found)) return std::move(*out);
  return not_an_array(std::get<group>(found), std::get<group>(found).uri());
}

result<array> open_array(std::string_view uri, const open_options& options) {
  PENSTOCK_ASSIGN(node found, open(uri, options));
  if (auto* out = std::get_if<array>(&found)) return std::move(*out);
  return not_an_array(std::get<group>(found), uri);
}

result<node> open(const group& parent, std::string_view path) {
  const group_state& state = parent.state();
  if (state.members) return state.members->open(state.prefix + std::string(path));
  node_place at = child_place(parent, path);
  const int prefer = state.format == "zarr2" ? 2 : 3;
  if (!parent.consolidated()) return open_zarr_at(std::move(at), prefer);
  const std::string within = prefix_of(path);
  std::string inner = state.consolidated_path.empty() ? within : state.consolidated_path + "/" + within;
  if (!inner.empty() && inner.back() == '/') inner.pop_back();
  if (!state.consolidated->contains(inner)) {
    if (state.use_consolidated == consolidation::required) {
      return error(errc::not_found, fmt::format("no array or group at '{}': consolidated metadata has none", at.uri));
    }
    return open_zarr_at(std::move(at), prefer);
  }
  auto metadata = state.consolidated->parse(inner);
  const auto note_uri = [&, uri = at.uri] { return fmt::format("opening '{}' from consolidated metadata", uri); };
  if (!metadata.ok()) return std::move(metadata).error().note(note_uri());
  if (metadata->kind == zarr_node_kind::group) {
    at.consolidated = state.consolidated;
    at.consolidated_path = std::move(inner);
  }
  auto made = make_node(std::move(at), std::move(*metadata));
  if (!made.ok()) return std::move(made).error().note(note_uri());
  return made;
}

result<group> open_group(std::shared_ptr<store> from, const open_options& options) {
  const bool creates = options.mode == open_mode::create || options.mode == open_mode::replace;
  if (!creates) {
    result<node> found = open(std::shared_ptr<const store>(from), options);
    if (found.ok()) {
      if (auto* out = std::get_if<group>(&*found)) return std::move(*out);
      return error(errc::invalid_argument, fmt::format("'{}' is an array, not a group", std::get<array>(*found).uri()));
    }
    if (options.mode != open_mode::append || found.error().code() != errc::not_found) return std::move(found).error();
  }
  create_group_options made;
  made.context = options.context;
  made.path = options.path;
  made.overwrite = options.mode == open_mode::replace;
  return create_group(std::move(from), made);
}

result<group> open_group(std::string_view uri, const open_options& options) {
  open_options within = options;
  if (!within.context) {
    PENSTOCK_ASSIGN(within.context, penstock::context::make());
  }
  PENSTOCK_ASSIGN(place at, find_place(uri, {within.context, {}}));
  within.path = at.path + "/" + options.path;
  return open_group(std::move(at.store), within);
}

}  // namespace penstock::inline v0
