// A new TIFF from the options that new arrays of all formats have.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include <penstock/extend/json.h>

#include "driver/new_type.h"
#include "driver/tiff_new_options.h"

namespace penstock::inline v0 {
namespace {

/// Refuses what TIFFs do not have, or have under another name.
result<> refuse_others(const create_options& how) {
  struct other {
    bool given;
    std::string_view name, instead;
  };
  const bool codecs = !how.codecs_json.empty() && how.codecs_json != "auto" && how.codecs_json != "\"auto\"";
  const bool fill = !how.fill_value.empty() || !how.fill_value_json.empty() || how.fill_is_undefined;
  const other all[] = {
      {how.zarr_format != 3, "zarr_format", ""},
      {how.chunks || !how.chunk_lengths.empty(), "chunks", ": tile_height and tile_width"},
      {how.shards || !how.shard_lengths.empty() || how.auto_shards || how.shard_index_first, "shards", ""},
      {codecs, "codecs", ": compression and predictor"},
      {fill, "fill_value", ": nodata"},
      {!how.dimension_names.empty(), "dimension_names", ""},
      {how.order != 'C', "order", ": planar"},
      {how.v2_keys || !how.key_suffix.empty() || how.separator != 0, "the encoding of keys", ""},
  };
  for (const other& each : all)
    if (each.given)
      return wrong_image(fmt::format("'{}' is an option of Zarr arrays, not of TIFFs{}", each.name, each.instead));
  return {};
}

/// GDAL's metadata, where attributes are given in their place.
result<> add_attributes(const std::string& text, metadata_items& to) {
  if (text.empty()) return {};
  auto given = json::parse(text);
  if (!given.ok()) return wrong_image(fmt::format("attributes is not JSON: {}", given.error().message()));
  const json::object_t* const members = given->as_object();
  if (members == nullptr)
    return wrong_image(fmt::format("attributes are a JSON {}, need an object", given->kind_name()));
  for (const auto& [name, value] : *members)
    to.emplace_back(name, value.as_string() != nullptr ? *value.as_string() : value.dump());
  return {};
}

}  // namespace

result<std::unique_ptr<array_writer>> begin_tiff(const new_location& at, const create_options& how) {
  PENSTOCK_TRY(refuse_others(how));
  tiff_create_options made = how.tiff ? *how.tiff : tiff_create_options();
  made.context = at.context;
  made.path = at.path;
  made.overwrite = how.overwrite;
  made.durable = how.durable;
  const std::size_t rank = how.shape.size();
  if (rank != 2 && rank != 3)
    return wrong_image(fmt::format("a TIFF has the shape (band, y, x) or (y, x), not {}", to_string(how.shape)));
  made.bands = rank == 3 ? how.shape[0] : 1;
  made.height = how.shape[rank - 2];
  made.width = how.shape[rank - 1];
  PENSTOCK_ASSIGN(zarr_v2_type type, type_of_new(how));
  made.type = std::move(type.type);
  PENSTOCK_TRY(add_attributes(how.attributes_json, made.meaning.metadata));
  PENSTOCK_ASSIGN(tiff_writer writer, tiff_writer::create(at.to, std::move(made)));
  return std::unique_ptr<array_writer>(std::make_unique<tiff_writer>(std::move(writer)));
}

}  // namespace penstock::inline v0
