#include "tiff_info.h"

#include <fmt/format.h>
#include <penstock/georeference.h>
#include <penstock/tiff.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "array/utf8.h"
#include "base/counted.h"
#include "base/printable.h"
#include "cog_rules.h"
#include "format/tiff/tiff_names.h"
#include "format/tiff/tiff_values.h"
#include "values.h"

namespace penstock::inline v0::cli {
namespace {

constexpr std::uint16_t kCompression = 259, kPhotometric = 262, kPlanar = 284, kPredictor = 317;

std::string upper_case(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

json number_json(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

json nodata_json(const std::optional<nodata_value>& value) {
  if (!value) return {};
  if (const auto* const real = std::get_if<double>(&*value)) return number_json(*real);
  if (const auto* const number = std::get_if<std::int64_t>(&*value)) return *number;
  return std::get<std::uint64_t>(*value);
}

json numbers_json(std::initializer_list<double> values) {
  json::array_t out;
  for (const double each : values) out.push_back(number_json(each));
  return out;
}

// Files may contain any bytes; documents are UTF-8.
json text_json(const std::string& text) {
  if (is_utf8(std::as_bytes(std::span(text)))) return text;
  std::string out;
  for (const char c : text) out += static_cast<unsigned char>(c) < 128 ? std::string(1, c) : "\xef\xbf\xbd";
  return out;
}

json items_json(const metadata_items& items) {
  json::object_t out;
  for (const auto& [name, text] : items) out.emplace_back(*text_json(name).as_string(), text_json(text));
  return out;
}

json text_or_null(const std::string& text) { return text.empty() ? json() : text_json(text); }

json key_json(const geo_key::value_type& value) {
  if (const auto* const text = std::get_if<std::string>(&value)) return text_json(*text);
  if (const auto* const code = std::get_if<std::uint64_t>(&value)) return *code;
  if (const auto* const number = std::get_if<double>(&value)) return number_json(*number);
  json::array_t out;
  for (const double each : std::get<std::vector<double>>(value)) out.push_back(number_json(each));
  return out;
}

// The tags of the report, read once.
struct image_facts {
  std::string compression, photometric, interleave;
  bool has_palette = false;

  static result<image_facts> read(const tiff_details& from) {
    const tiff_values tags = tiff_values::of_image(from);
    image_facts out;
    PENSTOCK_ASSIGN(const std::int64_t compression, tags.integer(kCompression, 1));
    PENSTOCK_ASSIGN(const std::int64_t photometric, tags.integer(kPhotometric, 0));
    PENSTOCK_ASSIGN(const std::int64_t planar, tags.integer(kPlanar, 1));
    PENSTOCK_ASSIGN(const std::vector<std::uint16_t> palette, tiff_colormap(tags));
    out.compression = upper_case(tiff_compression_word(compression));
    out.photometric = tiff_photometric_word(photometric);
    out.interleave = planar == 2 ? "BAND" : "PIXEL";
    out.has_palette = !palette.empty();
    return out;
  }
};

json profile_json(const array& a, const image_facts& facts, const std::vector<band_meaning>& bands, bool alpha,
                  const std::vector<std::string>& colors) {
  json::array_t names, scales, offsets;
  for (const std::string& each : colors) names.push_back(text_json(each));
  for (const band_meaning& each : bands) {
    scales.push_back(number_json(each.scale));
    offsets.push_back(number_json(each.offset));
  }
  return json::object_t{{"Width", a.shape()[2]},
                        {"Height", a.shape()[1]},
                        {"Bands", a.shape()[0]},
                        {"Tiled", is_tiled(a)},
                        {"Dtype", a.type().name()},
                        {"NoData", bands.empty() ? json() : nodata_json(bands[0].nodata)},
                        {"AlphaBand", alpha},
                        {"InternalMask", tiff_companions_of(a).has_mask},
                        {"Interleave", facts.interleave},
                        {"ColorMap", facts.has_palette},
                        {"ColorInterp", std::move(names)},
                        {"Scales", std::move(scales)},
                        {"Offsets", std::move(offsets)}};
}

json points_json(const std::vector<ground_control_point>& points) {
  json::array_t out;
  for (const ground_control_point& each : points) {
    out.emplace_back(json::object_t{{"Column", number_json(each.column)},
                                    {"Row", number_json(each.row)},
                                    {"X", number_json(each.x)},
                                    {"Y", number_json(each.y)},
                                    {"Z", number_json(each.z)}});
  }
  return out;
}

// By GDAL's names, without those that the file does not have.
json polynomial_json(const rational_polynomial& of) {
  json::object_t out;
  const auto add = [&](const char* name, const std::optional<double>& value) {
    if (value) out.push_back({name, number_json(*value)});
  };
  add("ERR_BIAS", of.err_bias);
  add("ERR_RAND", of.err_rand);
  add("LINE_OFF", of.line_off);
  add("SAMP_OFF", of.samp_off);
  add("LAT_OFF", of.lat_off);
  add("LONG_OFF", of.long_off);
  add("HEIGHT_OFF", of.height_off);
  add("LINE_SCALE", of.line_scale);
  add("SAMP_SCALE", of.samp_scale);
  add("LAT_SCALE", of.lat_scale);
  add("LONG_SCALE", of.long_scale);
  add("HEIGHT_SCALE", of.height_scale);
  for (const auto& [name, numbers] :
       {std::pair("LINE_NUM_COEFF", &of.line_num_coeff), std::pair("LINE_DEN_COEFF", &of.line_den_coeff),
        std::pair("SAMP_NUM_COEFF", &of.samp_num_coeff), std::pair("SAMP_DEN_COEFF", &of.samp_den_coeff)}) {
    json::array_t list;
    for (const double each : *numbers) list.push_back(number_json(each));
    out.push_back({name, std::move(list)});
  }
  return out;
}

// The coordinate system by its code or as the file's own text. A system that the keys describe by parameters has no
// name without PROJ: its keys are listed.
result<json> place_json(const array& image, const georeference& place, const system_namer* namer) {
  PENSTOCK_ASSIGN(const std::optional<std::uint32_t> code, place.epsg());
  PENSTOCK_ASSIGN(std::string name, place.crs_text());
  PENSTOCK_ASSIGN(const std::optional<affine_transform> t, place.transform());
  PENSTOCK_ASSIGN(const std::optional<ground_bounds> box, place.bounds());
  PENSTOCK_ASSIGN(const std::vector<geo_key> keys, place.geo_keys());
  if (code) name = fmt::format("EPSG:{}", *code);
  if (namer != nullptr) {
    PENSTOCK_ASSIGN(name, (*namer)(image));
  }
  json::object_t out{{"CRS", text_or_null(name)},
                     {"Origin", t ? numbers_json({t->c, t->f}) : json()},
                     {"Resolution", t ? numbers_json({t->a, t->e}) : json()},
                     {"BoundingBox", box ? numbers_json({box->left, box->bottom, box->right, box->top}) : json()}};
  // A damaged tag does not prevent the others from being shown.
  const auto points = place.gcps();
  if (!points.ok())
    out.push_back({"GCPs", points.error().message()});
  else if (!points->empty())
    out.push_back({"GCPs", points_json(*points)});
  const auto polynomial = place.rpcs();
  if (!polynomial.ok())
    out.push_back({"RPCs", polynomial.error().message()});
  else if (*polynomial)
    out.push_back({"RPCs", polynomial_json(**polynomial)});
  constexpr std::uint16_t kRasterType = 1025;
  const bool has_system =
      std::any_of(keys.begin(), keys.end(), [](const geo_key& each) { return each.id != kRasterType; });
  if (!name.empty() || !has_system) return json(std::move(out));
  json::object_t named;
  for (const geo_key& each : keys) {
    const std::string_view key = geo_key_name(each.id);
    named.emplace_back(key.empty() ? fmt::format("{}", each.id) : std::string(key), key_json(each.value));
  }
  out.emplace_back("GeoKeys", std::move(named));
  return json(std::move(out));
}

result<json> tags_json(const array& a, const georeference& place, const image_facts& facts) {
  PENSTOCK_ASSIGN(const pixel_extent extent, place.area_or_point());
  metadata_items items = place.metadata();
  if (extent != pixel_extent::unspecified) {
    std::erase_if(items, [](const auto& each) { return each.first == "AREA_OR_POINT"; });
    items.emplace_back("AREA_OR_POINT", extent == pixel_extent::area ? "Area" : "Point");
  }
  json::object_t structure{{"COMPRESSION", facts.compression}, {"INTERLEAVE", facts.interleave}};
  const tiff_details& details = *tiff_details_of(a);
  PENSTOCK_ASSIGN(const std::int64_t predictor, tiff_values::of_image(details).integer(kPredictor, 1));
  if (predictor != 1) structure.emplace_back("PREDICTOR", fmt::format("{}", predictor));
  if (structure_item(details, "LAYOUT") == "IFDS_BEFORE_DATA") structure.emplace_back("LAYOUT", "COG");
  return json(json::object_t{{"Image Metadata", items_json(items)}, {"Image Structure", std::move(structure)}});
}

json bands_json(const std::vector<band_meaning>& bands, const std::vector<std::string>& colors) {
  json::object_t out;
  for (std::size_t i = 0; i < bands.size(); ++i) {
    const band_meaning& each = bands[i];
    out.emplace_back(fmt::format("Band {}", i + 1),
                     json::object_t{{"Description", text_or_null(each.description)},
                                    {"ColorInterp", i < colors.size() ? text_json(colors[i]) : json()},
                                    {"Unit", text_or_null(each.unit)},
                                    {"Metadata", items_json(each.metadata)}});
  }
  return out;
}

json levels_json(const std::vector<array>& levels) {
  json::array_t out;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const array& a = levels[i];
    const double times = static_cast<double>(levels[0].shape()[2]) / static_cast<double>(a.shape()[2]);
    out.emplace_back(
        json::object_t{{"Level", static_cast<std::uint64_t>(i)},
                       {"Width", a.shape()[2]},
                       {"Height", a.shape()[1]},
                       {"Blocksize", json::array_t{json(a.chunks()[2]), json(a.chunks()[1])}},
                       {"Decimation", i == 0 ? std::uint64_t{0} : static_cast<std::uint64_t>(std::nearbyint(times))},
                       {"Offset", tiff_details_of(a)->directory_offset}});
  }
  return out;
}

json texts_json(const std::vector<std::string>& texts) {
  json::array_t out;
  for (const std::string& each : texts) out.emplace_back(each);
  return out;
}

json sizes_json(const extents& sizes) {
  json::array_t out;
  for (const std::uint64_t each : sizes) out.emplace_back(each);
  return out;
}

// The value in Python's form: `None`, `True`, `1.0`, `('red', 'green')`.
std::string python_text(const json& value, bool quoted) {
  if (value.is_null()) return "None";
  if (const bool* const flag = value.as_bool()) return *flag ? "True" : "False";
  if (const std::string* const text = value.as_string()) return quoted ? "'" + *text + "'" : *text;
  if (const json::array_t* const list = value.as_array()) {
    std::string out = "(";
    for (std::size_t i = 0; i < list->size(); ++i) out += (i == 0 ? "" : ", ") + python_text((*list)[i], true);
    return out + (list->size() == 1 ? ",)" : ")");
  }
  std::int64_t number = 0;
  std::uint64_t large = 0;
  double real = 0;
  if (value.get(number)) return fmt::format("{}", number);
  if (value.get(large)) return fmt::format("{}", large);
  if (!value.get(real)) return value.dump();
  return item_text(dtype(dtype_kind::floating, 64), reinterpret_cast<const std::byte*>(&real));
}

std::string on_one_line(std::string text) {
  for (char& c : text) c = c == '\n' || c == '\r' ? ' ' : c;
  return text;
}

// `    Width:            600` for each member.
void add_section(std::string& to, std::string_view title, const json& section) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kSpaced = {
      {{"AlphaBand", "Alpha Band"}, {"InternalMask", "Internal Mask"}, {"CRS", "Crs"}}};
  to += fmt::format("\n{}\n", title);
  for (const auto& [name, value] : *section.as_object()) {
    const auto spaced =
        std::find_if(kSpaced.begin(), kSpaced.end(), [&, &key = name](const auto& each) { return each.first == key; });
    const std::string shown = std::string(spaced == kSpaced.end() ? std::string_view(name) : spaced->second) + ":";
    if (name == "GCPs" && value.as_array() != nullptr) {
      to += fmt::format("    {:<17} {}\n", shown, counted(value.as_array()->size(), "point"));
      continue;
    }
    if (value.as_object() == nullptr) {
      to += fmt::format("    {:<17} {}\n", shown, python_text(value, false));
      continue;
    }
    to += fmt::format("    {}\n", shown);
    for (const auto& [key, each] : *value.as_object())
      to += fmt::format("        {}: {}\n", key, on_one_line(python_text(each, false)));
  }
}

void add_bands(std::string& to, const json& bands) {
  for (const auto& [title, band] : *bands.as_object()) {
    std::vector<std::string> lines;
    for (const auto& [name, value] : *band.as_object()) {
      if (name != "Metadata" && !value.is_null())
        lines.push_back(fmt::format("    {}: {}", name, python_text(value, false)));
    }
    for (const auto& [name, value] : *band.find("Metadata")->as_object())
      lines.push_back(fmt::format("    {}: {}", printable(name), python_text(value, false)));
    if (lines.size() > 1) to += fmt::format("\n{}\n{}\n", title, fmt::join(lines, "\n"));
  }
}

void add_levels(std::string& to, const json& levels) {
  to += fmt::format("\nIFD\n    {:<7} {:<14} {:<14} Decimation\n", "Id", "Size", "BlockSize");
  for (const json& each : *levels.as_array()) {
    const auto number = [&](const char* name) { return python_text(*each.find(name), false); };
    const json::array_t& block = *each.find("Blocksize")->as_array();
    to += fmt::format("    {:<7} {:<14} {:<14} {}\n", number("Level"), number("Width") + "x" + number("Height"),
                      python_text(block[0], false) + "x" + python_text(block[1], false), number("Decimation"));
  }
}

}  // namespace

result<json> tiff_document(const array& first, const std::string& target, const system_namer* namer) {
  tiff_options whole;
  PENSTOCK_ASSIGN(const array a, open_tiff(first, whole));
  std::vector<array> levels = {a};
  for (std::uint64_t i = 1; i <= tiff_companions_of(a).overviews.size(); ++i) {
    whole.level = i;
    PENSTOCK_ASSIGN(array level, open_tiff(a, whole));
    levels.push_back(std::move(level));
  }
  const georeference place = georeference_of(a);
  const std::vector<band_meaning> bands = place.bands();
  PENSTOCK_ASSIGN(const image_facts facts, image_facts::read(*tiff_details_of(a)));
  PENSTOCK_ASSIGN(const std::vector<std::string> colors, place.colors());
  PENSTOCK_ASSIGN(const std::optional<std::uint64_t> alpha, place.alpha_band());
  PENSTOCK_ASSIGN(json where, place_json(a, place, namer));
  PENSTOCK_ASSIGN(json tags, tags_json(a, place, facts));
  PENSTOCK_ASSIGN(const cog_verdict cog, judge_cog(levels));
  return json(json::object_t{{"kind", "array"},
                             {"uri", a.uri()},
                             {"format", a.format()},
                             {"dtype", short_type_text(a.type())},
                             {"shape", sizes_json(a.shape())},
                             {"chunks", sizes_json(a.chunks())},
                             {"Path", target},
                             {"Driver", "GTiff"},
                             {"COG", cog.errors.empty()},
                             {"COG_errors", texts_json(cog.errors)},
                             {"COG_warnings", texts_json(cog.warnings)},
                             {"Compression", facts.compression == "NONE" ? json() : json(facts.compression)},
                             {"ColorSpace", facts.photometric == "ycbcr" ? json("YCbCr") : json()},
                             {"Profile", profile_json(a, facts, bands, alpha.has_value(), colors)},
                             {"GEO", std::move(where)},
                             {"Tags", std::move(tags)},
                             {"Band Metadata", bands_json(bands, colors)},
                             {"IFD", levels_json(levels)}});
}

std::string tiff_text(const json& document) {
  std::string out;
  for (const auto& [name, key] : {std::pair("Driver", "Driver"), std::pair("File", "Path"), std::pair("COG", "COG"),
                                  std::pair("Compression", "Compression"), std::pair("ColorSpace", "ColorSpace")})
    out += fmt::format("{}: {}\n", name, python_text(*document.find(key), false));
  add_section(out, "Profile", *document.find("Profile"));
  add_section(out, "Geo", *document.find("GEO"));
  for (const auto& [title, section] : *document.find("Tags")->as_object()) {
    out += fmt::format("\n{}\n", printable(title));
    for (const auto& [name, value] : *section.as_object())
      out += fmt::format("    {}: {}\n", printable(name), python_text(value, false));
  }
  add_bands(out, *document.find("Band Metadata"));
  add_levels(out, *document.find("IFD"));
  const json::array_t& errors = *document.find("COG_errors")->as_array();
  const json::array_t& warnings = *document.find("COG_warnings")->as_array();
  if (!errors.empty() || !warnings.empty()) out += "\nCOG Validation info\n";
  for (const json& each : warnings) out += fmt::format("    - WARNING {}\n", python_text(each, false));
  for (const json& each : errors) out += fmt::format("    - ERROR   {}\n", python_text(each, false));
  return printable_lines(out);
}

}  // namespace penstock::inline v0::cli
