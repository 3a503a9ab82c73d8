#include "driver/metadata_edit.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/json_numbers.h"
#include "driver/zarr_nodes.h"
#include "engine/index_io.h"
#include "format/zarr/zarr_grid.h"
#include "format/zarr/zarr_v2.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kV3Key = "zarr.json", kV2Key = ".zarray";

node_place place_of(const array_state& state) {
  node_place at;
  at.context = state.context;
  at.from = state.store;
  at.prefix = state.prefix;
  at.uri = state.uri;
  at.cache_unversioned_indexes = state.caches_indexes;
  return at;
}

result<array> array_of(const array_state& state, result<node> made) {
  if (!made.ok()) return std::move(made).error().note("opening '" + state.uri + "'");
  if (auto* out = std::get_if<array>(&*made)) return std::move(*out);
  return error(errc::invalid_argument, fmt::format("'{}' is a group, not an array", state.uri));
}

}  // namespace

result<stored_metadata> read_stored_metadata(const array_state& state) {
  stored_metadata out;
  out.key = state.prefix + std::string(state.format == "zarr2" ? kV2Key : kV3Key);
  PENSTOCK_ASSIGN(stored_document found, required_object(*state.store, out.key));
  out.document = *found.content;
  out.seen = std::move(found.seen);
  out.text = std::make_shared<const std::string>(found.text());
  return out;
}

result<extents> shape_of(const stored_metadata& metadata) {
  const json* member = metadata.document.find("shape");
  const json::array_t* list = member == nullptr ? nullptr : member->as_array();
  const auto wrong = [&] {
    return error(errc::corrupt_data, "'shape' should be a list of sizes").note(read_note(metadata.key, {}));
  };
  if (list == nullptr || list->size() > kMaxRank) return wrong();
  extents out;
  for (const json& each : *list) {
    std::uint64_t size = 0;
    if (!each.get(size)) return wrong();
    out.push_back(size);
  }
  return out;
}

result<> set_shape(stored_metadata& metadata, const extents& shape) {
  json::object_t members = *metadata.document.as_object();
  for (auto& [name, value] : members) {
    if (name == "shape") {
      json::array_t sizes;
      for (const std::uint64_t size : shape) sizes.emplace_back(size);
      value = std::move(sizes);
    } else if (name == "chunk_grid") {
      PENSTOCK_ASSIGN(value, resized_zarr_grid(value, shape));
    }
  }
  metadata.document = std::move(members);
  return {};
}

result<> put_stored_metadata(const array_state& state, const stored_metadata& metadata, bool durable,
                             const write_guard* guard) {
  const std::string text = dump_like(metadata.document, metadata.text ? *metadata.text : std::string_view(), 2);
  const part bytes(reinterpret_cast<const std::byte*>(text.data()), text.size());
  write_condition condition;
  condition.durable = durable;
  condition.ordered = true;  // the new shape is computed from the stored one
  condition.guard = guard;
  if (metadata.seen.known()) {
    condition.what = write_condition::kind::must_match;
    condition.expected = metadata.seen;
  }
  auto put = writable_store(state).put(metadata.key, {&bytes, 1}, condition);
  if (!put.ok()) return std::move(put).error().note(fmt::format("writing '{}'", metadata.key));
  return {};
}

result<array> open_as(const array_state& state, const stored_metadata& metadata) {
  result<zarr_metadata> parsed = error(errc::corrupt_data, "");
  if (state.format == "zarr2") {
    PENSTOCK_ASSIGN(const json attributes, json::parse(state.attributes_json));
    parsed = parse_zarr_v2_array(metadata.document, &attributes);
  } else {
    parsed = parse_zarr_metadata(metadata.document);
  }
  if (!parsed.ok()) return std::move(parsed).error().note("opening '" + state.uri + "'");
  return array_of(state, make_node(place_of(state), std::move(*parsed)));
}

result<array> open_resized(const array_state& state, const stored_metadata& metadata, const extents& shape) {
  auto out = open_as(state, metadata);
  if (out.ok() || out.error().code() != errc::corrupt_data) return out;
  // The stored metadata is valid; the new shape is not (its chunks do not divide a new shard).
  error why(errc::invalid_argument,
            fmt::format("the array cannot get the shape {}: {}", to_string(shape), out.error().message()));
  for (const std::string& note : out.error().notes()) why.note(note);
  return why;
}

result<array> open_again(const array_state& state) {
  auto found = find_zarr_node(*state.store, state.prefix, consolidation::never, state.format == "zarr2" ? 2 : 3);
  PENSTOCK_ASSIGN(std::optional<node> made, make_found(place_of(state), std::move(found)));
  if (!made) return error(errc::not_found, fmt::format("the array '{}' was removed", state.uri));
  return array_of(state, std::move(*made));
}

store& writable_store(const array_state& state) noexcept {
  return const_cast<store&>(*state.store);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

error name_array(error what, const array_state& state) { return std::move(what).note("array '" + state.uri + "'"); }

}  // namespace penstock::inline v0
