// A new TIFF from the options that new arrays of all formats share.
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

constexpr other_option kOwnNames[] = {{"chunks", ": tile_height and tile_width"},
                                      {"codecs", ": compression and predictor"},
                                      {"fill_value", ": nodata"},
                                      {"order", ": planar"}};

/// GDAL's metadata, if attributes are given instead of it.
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
  PENSTOCK_TRY(refuse_zarr_options(how, "TIFFs", kOwnNames));
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
