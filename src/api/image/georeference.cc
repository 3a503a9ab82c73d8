#include <penstock/georeference.h>

#include <fmt/format.h>
#include <penstock/tiff.h>

#include <algorithm>
#include <unordered_map>

#include "engine/array_state.h"
#include "engine/blocking_read.h"
#include "format/tiff/geo_keys.h"
#include "format/tiff/number_text.h"
#include "format/tiff/tiff_georeference.h"
#include "format/tiff/tiff_layout.h"
#include "format/tiff/tiff_nodata.h"
#include "format/tiff/tiff_values.h"

namespace penstock::inline v0 {
namespace {

/// The most bytes of a sidecar file; larger ones are ignored.
constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 20;

const tiff_layout* layout_of(const array& from) noexcept {
  return dynamic_cast<const tiff_layout*>(from.state().layout.get());
}

bool has_sidecars(const array_state& of, const tiff_layout& layout) noexcept {
  const tiff_options& image = layout.options();
  const bool is_first_page = image.page == 0 && image.sub_ifds.empty() && !image.ifd;
  return is_first_page && of.uri.starts_with("file:///");
}

/// The key of the TIFF, also for an image in a sidecar file (`.ovr`, `.msk`).
std::string key_of(const array_state& of, const tiff_layout& layout) {
  std::string name;
  layout.key(0, name);
  name.resize(name.size() - layout.details().side_file.size());
  return of.prefix + name;
}

std::optional<std::string> read_sidecar(const array_state& of, const std::string& key) {
  const auto read = read_and_wait(*of.store, key, {}, kMostBytes);
  if (!read.ok()) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(read->bytes.data()), read->bytes.size());
}

std::string gdal_text_of(const tiff_details& details) {
  constexpr std::uint16_t kGdalMetadata = 42112;
  return std::string(tiff_values::of_page(details).text(kGdalMetadata).value_or(std::string_view()));
}

// The text of the page's tag GDAL_NODATA, or its number.
std::string nodata_text_of(const tiff_details& details) {
  constexpr std::uint16_t kNodata = 42113;
  const tiff_values tags = tiff_values::of_page(details);
  const tiff_tag* const found = tags.find(kNodata);
  if (found == nullptr || found->type == 7) return {};
  if (!is_text_type(found->type)) return found->count == 1 ? fmt::format("{}", tags.number(*found, 0)) : std::string();
  std::string_view text = text_of(*found);
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return std::string(text.starts_with('+') ? text.substr(1) : text);
}

}  // namespace

class georeference::state {
 public:
  explicit state(const array& from) : image(from), layout(layout_of(from)) {
    if (layout == nullptr) return;
    items = parse_gdal_metadata(gdal_text_of(details()));
    for (const gdal_item& each : items) {
      if (!each.band && each.domain.empty()) metadata.emplace_back(each.name, each.text);
    }
    if (has_sidecars(image.state(), *layout)) {
      const auto text = read_sidecar(image.state(), key_of(image.state(), *layout) + ".aux.xml");
      if (text) sidecar = parse_sidecar_metadata(*text);
      metadata.insert(metadata.end(), sidecar.metadata.begin(), sidecar.metadata.end());
    }
    metadata = without_repetitions(std::move(metadata));
  }

  const tiff_details& details() const noexcept { return layout->details(); }
  std::uint64_t rows() const noexcept { return layout->image().height; }
  std::uint64_t columns() const noexcept { return layout->image().width; }
  /// The result; its error names the array.
  template <class T>
  result<T> noted(result<T> of) const {
    if (of.ok()) return of;
    return std::move(of).error().note(fmt::format("array '{}'", image.uri()));
  }
  page_pixels pixels() const noexcept { return page_pixels::of(details(), rows(), columns()); }

  std::vector<std::uint64_t> band_numbers() const {
    if (!layout->options().bands.empty()) return layout->options().bands;
    const int axis = layout->band_axis();
    std::vector<std::uint64_t> out(axis < 0 ? 1 : image.shape()[static_cast<std::size_t>(axis)]);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = i;
    return out;
  }

  array image;
  const tiff_layout* layout;
  std::vector<gdal_item> items;
  sidecar_metadata sidecar;
  metadata_items metadata;
};

georeference georeference_of(const array& from) {
  return georeference(std::make_shared<const georeference::state>(from));
}

bool georeference::is_known() const noexcept { return state_->layout != nullptr; }

result<std::optional<affine_transform>> georeference::transform() const {
  if (!is_known()) return std::optional<affine_transform>();
  PENSTOCK_ASSIGN(std::optional<affine_transform> page,
                  state_->noted(page_transform(state_->details(), state_->sidecar)));
  const array_state& image = state_->image.state();
  if (!page && has_sidecars(image, *state_->layout)) {
    const std::string key = key_of(image, *state_->layout);
    const auto [stem, ending] = split_ending(key);
    for (const std::string& each : world_file_endings(ending)) {
      const auto text = read_sidecar(image, std::string(stem) + each);
      page = text ? parse_world_file(*text) : std::nullopt;
      if (page) break;
    }
  }
  return page ? std::optional(of_level(*page, state_->pixels())) : page;
}

result<std::optional<ground_bounds>> georeference::bounds() const {
  PENSTOCK_ASSIGN(const std::optional<affine_transform> placed, transform());
  return placed ? std::optional(bounds_of(*placed, state_->rows(), state_->columns())) : std::nullopt;
}

result<bool> georeference::has_sidecar_gcps() const {
  if (!is_known()) return false;
  PENSTOCK_ASSIGN(const std::vector<ground_control_point> points,
                  state_->noted(sidecar_points(state_->details(), state_->sidecar)));
  return !points.empty();
}

result<std::vector<ground_control_point>> georeference::gcps() const {
  std::vector<ground_control_point> out;
  if (!is_known()) return out;
  PENSTOCK_ASSIGN(out, state_->noted(sidecar_points(state_->details(), state_->sidecar)));
  if (out.empty()) {
    PENSTOCK_ASSIGN(out, state_->noted(own_points(state_->details())));
    if (out.empty()) return out;
    PENSTOCK_ASSIGN(const std::optional<affine_transform> placed, transform());
    if (placed) return std::vector<ground_control_point>();
  }
  const page_pixels pixels = state_->pixels();
  for (ground_control_point& each : out) {
    each.column /= pixels.columns;
    each.row /= pixels.rows;
  }
  return out;
}

result<std::optional<rational_polynomial>> georeference::rpcs() const {
  std::optional<rational_polynomial> found;
  if (!is_known()) return found;
  const array_state& image = state_->image.state();
  if (has_sidecars(image, *state_->layout)) {
    const std::string key = key_of(image, *state_->layout);
    const std::string stem(split_ending(key).first);
    for (const char* const each : {".RPB", ".rpb", "_RPC.TXT", "_rpc.txt", "_RPC.txt", "_rpc.TXT"}) {
      const auto text = read_sidecar(image, stem + each);
      if (!text) continue;
      found = each[0] == '.' ? parse_rpb(*text) : parse_rpc_text(*text);
      break;
    }
  }
  if (!found) {
    PENSTOCK_ASSIGN(found, state_->noted(own_polynomial(state_->details())));
  }
  return found ? std::optional(of_level(*found, state_->pixels())) : found;
}

result<std::vector<geo_key>> georeference::geo_keys() const {
  return is_known() ? state_->noted(parse_geo_keys(state_->details())) : std::vector<geo_key>();
}

result<std::optional<std::uint32_t>> georeference::epsg() const {
  if (!state_->sidecar.crs.empty()) return epsg_code_of_text(state_->sidecar.crs);
  PENSTOCK_ASSIGN(const std::vector<geo_key> keys, geo_keys());
  return epsg_code_of(keys);
}

result<std::string> georeference::crs_text() const {
  if (!state_->sidecar.crs.empty()) return state_->sidecar.crs;
  PENSTOCK_ASSIGN(const std::vector<geo_key> keys, geo_keys());
  return std::string(esri_wkt_of(keys));
}

const std::string& georeference::sidecar_crs() const noexcept { return state_->sidecar.crs; }

const std::string& georeference::sidecar_gcps_crs() const noexcept { return state_->sidecar.gcps_crs; }

result<pixel_extent> georeference::area_or_point() const {
  PENSTOCK_ASSIGN(const std::vector<geo_key> keys, geo_keys());
  const std::string* const named = find_item(state_->sidecar.metadata, "AREA_OR_POINT");
  if (named != nullptr && *named == "Area") return pixel_extent::area;
  if (named != nullptr && *named == "Point") return pixel_extent::point;
  return pixel_extent_of(keys);
}

const metadata_items& georeference::metadata() const noexcept { return state_->metadata; }

std::vector<band_meaning> georeference::bands() const {
  std::vector<band_meaning> out;
  if (!is_known()) return out;
  const dtype& type = state_->layout->type();
  const auto of_file = parse_nodata(nodata_text_of(state_->details()), type);
  std::unordered_multimap<std::uint64_t, std::size_t> places;  // a band may be in the array more than once
  for (const std::uint64_t number : state_->band_numbers()) {
    places.emplace(number, out.size());
    band_meaning& band = out.emplace_back();
    band.number = number;
    band.nodata = of_file;
  }
  const auto of_number = [&](std::uint64_t number, auto apply) {
    const auto [begin, end] = places.equal_range(number);
    for (auto each = begin; each != end; ++each) apply(out[each->second]);
  };
  for (const gdal_item& each : state_->items) {
    if (!each.band) continue;
    of_number(*each.band, [&](band_meaning& band) {
      if (each.role == "scale") band.scale = number_of_text(each.text).value_or(1);
      if (each.role == "offset") band.offset = number_of_text(each.text).value_or(0);
      if (each.role == "unittype") band.unit = each.text;
      if (each.role == "description") band.description = each.text;
      if (each.role.empty() && each.domain.empty()) band.metadata.emplace_back(each.name, each.text);
    });
  }
  for (const auto& [number, from] : state_->sidecar.bands) {
    of_number(number, [&, &values = from](band_meaning& band) {
      if (!values.scale.empty()) band.scale = number_of_text(values.scale).value_or(1);
      if (!values.offset.empty()) band.offset = number_of_text(values.offset).value_or(0);
      if (!values.unit.empty()) band.unit = values.unit;
      if (!values.description.empty()) band.description = values.description;
      band.metadata.insert(band.metadata.end(), values.metadata.begin(), values.metadata.end());
      if (values.nodata) band.nodata = *values.nodata;
    });
  }
  for (band_meaning& each : out) {
    each.metadata = without_repetitions(std::move(each.metadata));
    if (!each.nodata) continue;
    each.nodata = rounded_nodata(*each.nodata, type);
    each.held_nodata = held_nodata(*each.nodata, type);
  }
  return out;
}

result<std::vector<std::string>> georeference::colors() const {
  return is_known() ? state_->noted(colors_of(state_->details(), state_->items)) : std::vector<std::string>();
}

result<std::optional<std::uint64_t>> georeference::alpha_band() const {
  return is_known() ? state_->noted(alpha_band_of(state_->details(), state_->items)) : std::optional<std::uint64_t>();
}

result<std::optional<std::vector<double>>> georeference::nodata_of_pixels() const {
  if (!is_known()) return std::optional<std::vector<double>>();
  return state_->noted(penstock::nodata_of_pixels(state_->details(), state_->metadata));
}

}  // namespace penstock::inline v0
