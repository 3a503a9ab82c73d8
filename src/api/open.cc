#include <fmt/format.h>

#include <penstock/array.h>
#include <penstock/create.h>
#include <penstock/open.h>
#include <penstock/place.h>
#include "driver/node_mode.h"
#include "driver/open_files.h"
#include "driver/open_tiff.h"
#include "driver/zarr_nodes.h"
#include "engine/array_state.h"
#include "engine/blocking_read.h"
#include "format/zarr/zarr_v2.h"

namespace penstock::inline v0 {
namespace {

/// The shared start of opening within a store and within a group.
result<node> open_at(node_place at, int prefer) {
  auto found = find_zarr_node(*at.from, at.prefix, at.use_consolidated, prefer);
  const std::string uri = at.uri;
  PENSTOCK_ASSIGN(std::optional<node> made, make_found(std::move(at), std::move(found)));
  if (made) return std::move(*made);
  return error(errc::not_found,
               fmt::format("no array or group at '{}': it has no {}, {} or {}", uri, kZarrKey, kZarrayKey, kZgroupKey));
}

/// Whether the place is a file, where asking costs no round trip.
bool is_file(const node_place& at) {
  if (at.prefix.empty() || !at.from->traits().inline_completion) return false;
  return read_and_wait(*at.from, at.prefix.substr(0, at.prefix.size() - 1), {0, 1, false}, 1).ok();
}

}  // namespace

namespace {

result<node> open_in(std::shared_ptr<const store> from, const open_options& options) {
  node_place at;
  at.context = options.context;
  if (!at.context) {
    PENSTOCK_ASSIGN(at.context, penstock::context::make());
  }
  at.prefix = prefix_of(options.path);
  at.uri = child_uri(from->uri(), at.prefix);
  at.from = std::move(from);
  at.cache_unversioned_indexes = options.cache_unversioned_indexes;
  at.use_consolidated = options.use_consolidated;
  if (is_tiff_name(at.prefix)) {  // a name only says what is looked for first
    PENSTOCK_ASSIGN(std::optional<array> image, open_tiff(at, tiff_options()));
    if (image) return node(std::move(*image));
  }
  result<node> found = open_at(at, 3);
  if (found.ok() || found.error().code() != errc::not_found) return found;
  if (!is_tiff_name(at.prefix)) {
    PENSTOCK_ASSIGN(std::optional<array> image, open_tiff(at, tiff_options()));
    if (image) return node(std::move(*image));
  }
  if (is_file(at)) return error(errc::not_found, fmt::format("'{}' is a file of no format that is known", at.uri));
  return found;
}

}  // namespace

result<node> open(std::shared_ptr<const store> from, const open_options& options) {
  PENSTOCK_TRY(check_open_mode(options.mode));
  return in_mode(open_in(std::move(from), options), options.mode);
}

result<node> open(std::string_view uri, const open_options& options) {
  PENSTOCK_TRY(check_open_mode(options.mode));
  PENSTOCK_ASSIGN(std::optional<array> files, open_files(uri, options));
  if (files) return in_mode(node(std::move(*files)), options.mode);
  open_options within = options;
  if (!within.context) {
    PENSTOCK_ASSIGN(within.context, penstock::context::make());
  }
  PENSTOCK_ASSIGN(place at, find_place(uri, {within.context, {}}));
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
  node_place at = child_place(parent, path);
  const int prefer = state.format == "zarr2" ? 2 : 3;
  if (!parent.consolidated()) return open_at(std::move(at), prefer);
  const std::string within = prefix_of(path);
  std::string inner = state.consolidated_path.empty() ? within : state.consolidated_path + "/" + within;
  if (!inner.empty() && inner.back() == '/') inner.pop_back();
  if (!state.consolidated->contains(inner)) {
    if (state.use_consolidated == consolidation::required) {
      return error(errc::not_found, fmt::format("no array or group at '{}': consolidated metadata has none", at.uri));
    }
    return open_at(std::move(at), prefer);
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
