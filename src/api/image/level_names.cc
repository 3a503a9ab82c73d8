// The levels of an image in a group's attributes, with the names of OME-Zarr and of GeoZarr.

#include "api/image/level_names.h"

#include <fmt/format.h>

#include <algorithm>

#include <penstock/extend/json.h>

namespace penstock::inline v0 {
namespace {

constexpr const char* kConventionId = "d35379db-88df-4056-af3a-620245f8e347";

error wrong(std::string_view what) {
  return {errc::corrupt_data, fmt::format("attributes: the levels do not follow their convention: {}", what)};
}

result<std::vector<double>> numbers_of(const json& list) {
  const json::array_t* const items = list.as_array();
  if (items == nullptr) return wrong("a list of numbers is expected");
  std::vector<double> out;
  for (const json& each : *items) {
    double value = 0;
    if (!each.get(value)) return wrong("a list of numbers is expected");
    out.push_back(value);
  }
  return out;
}

// Restrictions on the path of a level: nothing outside of the group.
result<std::string> path_of(const json* path) {
  if (path == nullptr || path->as_string() == nullptr) return wrong("a level has no path");
  const std::string& text = *path->as_string();
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('/', at), text.size());
    const std::string_view part = std::string_view(text).substr(at, end - at);
    if (part.empty() || part == "." || part == "..")
      return wrong(fmt::format("the path of a level is outside of the group: '{}'", text));
    at = end + 1;
  }
  return text;
}

result<> scale_by(const std::vector<double>& factors, group_level& to) {
  if (to.scale.empty()) to.scale.resize(factors.size(), 1);
  if (to.scale.size() != factors.size() || (!to.translation.empty() && to.translation.size() != factors.size()))
    return wrong("scales and translations of one level have different lengths");
  for (std::size_t d = 0; d < factors.size(); ++d) {
    to.scale[d] *= factors[d];
    if (!to.translation.empty()) to.translation[d] *= factors[d];
  }
  return {};
}

result<> move_by(const std::vector<double>& offsets, group_level& to) {
  if (to.translation.empty()) to.translation.resize(offsets.size(), 0);
  if (to.translation.size() != offsets.size())
    return wrong("scales and translations of one level have different lengths");
  for (std::size_t d = 0; d < offsets.size(); ++d) to.translation[d] += offsets[d];
  return {};
}

// Applies 'coordinateTransformations' one after the other.
result<> apply_steps(const json* steps, group_level& to) {
  if (steps == nullptr) return {};  // before 0.4 they did not exist
  if (steps->as_array() == nullptr) return wrong("'coordinateTransformations' is not a list");
  for (const json& step : *steps->as_array()) {
    if (const json* const scale = step.find("scale")) {
      PENSTOCK_ASSIGN(const std::vector<double> factors, numbers_of(*scale));
      PENSTOCK_TRY(scale_by(factors, to));
    }
    if (const json* const offset = step.find("translation")) {
      PENSTOCK_ASSIGN(const std::vector<double> offsets, numbers_of(*offset));
      PENSTOCK_TRY(move_by(offsets, to));
    }
  }
  return {};
}

/// \param shared  The steps of all levels, which follow those of each. Source: OME-Zarr 0.5, "multiscales" metadata.
result<group_level> ome_level(const json& from, const json* shared) {
  group_level out;
  PENSTOCK_ASSIGN(out.path, path_of(from.find("path")));
  PENSTOCK_TRY(apply_steps(from.find("coordinateTransformations"), out));
  PENSTOCK_TRY(apply_steps(shared, out));
  return out;
}

result<group_level> geozarr_level(const json& from) {
  group_level out;
  PENSTOCK_ASSIGN(out.path, path_of(from.find("asset")));
  return out;
}

json numbers(const std::vector<double>& from) { return json::array_t(from.begin(), from.end()); }

json axis_of(const array& of, std::size_t d) {
  static constexpr const char* kNames[] = {"t", "c", "z", "y", "x"};
  const std::size_t rank = of.shape().size();
  // Without names: channels before rows and columns, then time, then depth.
  std::string name = kNames[rank == 3 && d == 0 ? 1 : rank == 4 && d < 2 ? d : 5 - rank + d];
  if (d < of.dimension_names().size() && of.dimension_names()[d]) name = *of.dimension_names()[d];
  json::object_t out{{"name", name}};
  if (name == "t" || name == "time") {
    out.emplace_back("type", "time");
  } else if (name == "c" || name == "channel" || name == "band") {
    out.emplace_back("type", "channel");
  } else if (d + 2 >= rank || name == "z") {
    out.emplace_back("type", "space");
  }
  return out;
}

// For level `number`, in pixels of the image: the centre of its first pixel, and the size of its pixels.
group_level place_of(std::size_t number, std::size_t rank, std::string path, level_rule rule) {
  group_level out;
  out.path = std::move(path);
  const auto factor = static_cast<double>(std::uint64_t{1} << number);
  for (std::size_t d = 0; d < rank; ++d) {
    const bool halved = d + 2 >= rank;
    out.scale.push_back(halved ? factor : 1.0);
    out.translation.push_back(halved && rule != level_rule::nearest ? (factor - 1) / 2 : 0.0);
  }
  return out;
}

json ome_names(const std::vector<std::pair<std::string, array>>& levels, std::size_t count,
               const level_options& options) {
  const array& image = levels[0].second;
  json::array_t axes, datasets;
  for (std::size_t d = 0; d < image.shape().size(); ++d) axes.push_back(axis_of(image, d));
  for (std::size_t i = 0; i < count; ++i) {
    const group_level at = place_of(i, image.shape().size(), levels[i].first, options.rule);
    json::array_t steps{json::object_t{{"type", "scale"}, {"scale", numbers(at.scale)}}};
    if (i > 0) steps.push_back(json::object_t{{"type", "translation"}, {"translation", numbers(at.translation)}});
    datasets.push_back(json::object_t{{"path", at.path}, {"coordinateTransformations", std::move(steps)}});
  }
  json::object_t one;
  if (!options.name.empty()) one.emplace_back("name", options.name);
  one.emplace_back("axes", std::move(axes));
  one.emplace_back("datasets", std::move(datasets));
  one.emplace_back("type", method_of(options.rule));
  return json::object_t{
      {"ome", json::object_t{{"version", "0.5"}, {"multiscales", json::array_t{json(std::move(one))}}}}};
}

json geozarr_names(const std::vector<std::pair<std::string, array>>& levels, std::size_t count,
                   const level_options& options) {
  const std::size_t rank = levels[0].second.shape().size();
  json::array_t layout;
  for (std::size_t i = 0; i < count; ++i) {
    // Each from the one before: all steps are the same.
    const group_level step = place_of(i == 0 ? 0 : 1, rank, levels[i].first, options.rule);
    json::object_t one{{"asset", step.path}};
    if (i > 0) one.emplace_back("derived_from", levels[i - 1].first);
    one.emplace_back("transform",
                     json::object_t{{"scale", numbers(step.scale)}, {"translation", numbers(step.translation)}});
    layout.emplace_back(std::move(one));
  }
  const json::object_t convention{
      {"uuid", kConventionId},
      {"name", "multiscales"},
      {"schema_url", "https://raw.githubusercontent.com/zarr-conventions/multiscales/refs/tags/v1/schema.json"},
      {"spec_url", "https://github.com/zarr-conventions/multiscales/blob/v1/README.md"},
      {"description", "Multiscale layout of zarr datasets"}};
  return json::object_t{
      {"zarr_conventions", json::array_t{json(convention)}},
      {"multiscales", json::object_t{{"layout", std::move(layout)}, {"resampling_method", method_of(options.rule)}}}};
}

}  // namespace

const char* method_of(level_rule rule) noexcept {
  if (rule == level_rule::nearest) return "nearest";
  return rule == level_rule::mode ? "mode" : "average";
}

std::string names_of_levels(const std::vector<std::pair<std::string, array>>& levels, std::size_t count,
                            const level_options& options) {
  if (options.convention == level_convention::ome) return ome_names(levels, count, options).dump();
  return geozarr_names(levels, count, options).dump();
}

result<std::vector<group_level>> levels_of(const group& of) {
  PENSTOCK_ASSIGN(const json attributes, json::parse(of.attributes_json()));
  const json* ome = attributes.find("ome");
  const json* images = (ome != nullptr ? *ome : attributes).find("multiscales");
  std::vector<group_level> out;
  if (images == nullptr) return out;
  const bool is_ome = images->as_array() != nullptr;
  if (is_ome && images->as_array()->empty()) return out;
  const json* const list = is_ome ? images->as_array()->front().find("datasets") : images->find("layout");
  const json* const shared = is_ome ? images->as_array()->front().find("coordinateTransformations") : nullptr;
  if (list == nullptr || list->as_array() == nullptr) return wrong("there is no list of levels");
  for (const json& each : *list->as_array()) {
    PENSTOCK_ASSIGN(group_level level, is_ome ? ome_level(each, shared) : geozarr_level(each));
    out.push_back(std::move(level));
  }
  return out;
}

}  // namespace penstock::inline v0
