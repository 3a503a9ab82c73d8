#include "format/tiff/sidecar_metadata.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "array/utf8.h"
#include "base/xml.h"
#include "format/tiff/gdal_metadata.h"
#include "format/tiff/number_text.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kEsri = "GeodataXform";

// Finite numbers, all of them or none.
std::optional<std::vector<double>> finite_numbers(const std::vector<std::string_view>& texts) {
  std::vector<double> out;
  for (const std::string_view each : texts) {
    const auto number = number_of_text(each);
    if (!number || !std::isfinite(*number)) return std::nullopt;
    out.push_back(*number);
  }
  return out;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> out;
  for (;;) {
    const std::size_t end = text.find(at);
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

// The text of the first element at `path` of two names.
std::string_view text_at(const xml_element& from, std::string_view first, std::string_view second) {
  for (const xml_element& each : from.children) {
    const xml_element* const found = each.name == first ? each.child(second) : nullptr;
    if (found != nullptr) return trimmed(found->text);
  }
  return {};
}

// Items of the domain without a name.
metadata_items items_of(const xml_element& from) {
  metadata_items out;
  for (const xml_element& metadata : from.children) {
    if (metadata.name != "Metadata" || !metadata.attribute("domain").empty()) continue;
    for (const xml_element& item : metadata.children) {
      if (item.name == "MDI") out.emplace_back(item.attribute("key"), item.text);
    }
  }
  return without_repetitions(std::move(out));
}

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// The eight bytes of a little-endian double in hexadecimal digits.
std::optional<double> double_of_hex(std::string_view text) {
  constexpr std::size_t kDigits = 16;
  if (text.size() != kDigits) return std::nullopt;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < kDigits; i += 2) {
    const int high = hex_digit(text[i]), low = hex_digit(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bits |= static_cast<std::uint64_t>(high << 4 | low) << (4 * i);
  }
  return std::bit_cast<double>(bits);
}

sidecar_metadata::band band_of(const xml_element& from) {
  sidecar_metadata::band out;
  out.metadata = items_of(from);
  out.description = from.child_text("Description");
  out.unit = from.child_text("UnitType");
  out.scale = from.child_text("Scale");
  out.offset = from.child_text("Offset");
  if (const xml_element* const nodata = from.child("NoDataValue")) {
    out.nodata = double_of_hex(nodata->attribute("le_hex_equiv"));
    if (!out.nodata) out.nodata = number_of_text(nodata->text);
  }
  return out;
}

// The complete points of GDAL's list.
std::vector<ground_control_point> points_of(const xml_element& list) {
  std::vector<ground_control_point> out;
  for (const xml_element& each : list.children) {
    if (each.name != "GCP") continue;
    bool has_z = false;
    for (const auto& attribute : each.attributes) has_z = has_z || attribute.first == "Z";
    const auto numbers = finite_numbers({each.attribute("Pixel"), each.attribute("Line"), each.attribute("X"),
                                         each.attribute("Y"), has_z ? each.attribute("Z") : std::string_view("0")});
    if (numbers) out.push_back({(*numbers)[0], (*numbers)[1], (*numbers)[2], (*numbers)[3], (*numbers)[4]});
  }
  return out;
}

// The numbers of `<name><Double>...</Double>...</name>`.
std::vector<double> doubles_of(const xml_element& from, std::string_view name) {
  std::vector<std::string_view> texts;
  for (const xml_element& list : from.children) {
    if (list.name != name) continue;
    for (const xml_element& each : list.children) {
      if (each.name == "Double") texts.push_back(each.text);
    }
  }
  return finite_numbers(texts).value_or(std::vector<double>());
}

std::vector<ground_control_point> points_of_esri(const xml_element& esri) {
  const std::vector<double> source = doubles_of(esri, "SourceGCPs"), target = doubles_of(esri, "TargetGCPs");
  std::vector<ground_control_point> out;
  if (source.size() != target.size() || source.size() % 2 != 0) return out;
  for (std::size_t i = 0; i < source.size(); i += 2)
    out.push_back({source[i], source[i + 1], target[i], target[i + 1]});
  return out;
}

// Returns the transform of a first-order polynomial in columns and upward rows, which count from the first pixel's
// centre.
std::optional<affine_transform> transform_of_esri(const xml_element& esri) {
  const std::vector<double> x = doubles_of(esri, "CoeffX"), y = doubles_of(esri, "CoeffY");
  if (trimmed(esri.child_text("PolynomialOrder")) != "1" || x.size() != 3 || y.size() != 3) return std::nullopt;
  return affine_transform{x[1], -x[2], x[0] - 0.5 * x[1] + 0.5 * x[2], y[1], -y[2], y[0] - 0.5 * y[1] + 0.5 * y[2]};
}

const xml_element* esri_of(const xml_element& root) {
  if (root.name == kEsri) return &root;
  for (const xml_element& each : root.children) {
    if (each.name != "Metadata" || each.attribute("domain") != "xml:ESRI") continue;
    if (const xml_element* const found = each.child(kEsri)) return found;
  }
  return nullptr;
}

void add_esri(const xml_element& esri, sidecar_metadata& out) {
  const std::string named(text_at(esri, "SpatialReference", "WKT"));
  std::vector<ground_control_point> points = points_of_esri(esri);
  if (!named.empty()) out.crs = named;
  if (!points.empty()) {
    out.gcps = std::move(points);
    out.gcps_crs = named;
    out.gcps_in_inches = true;
    if (!out.transform) out.crs.clear();  // then it belongs to the points
  } else if (!out.transform) {
    out.transform = transform_of_esri(esri);
  }
}

bool in_word(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_space(char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }

using statements = std::map<std::string_view, std::string_view>;

// `name = value;`, if the value has neither '=' nor ';'.
statements statements_of_rpb(std::string_view text) {
  statements out;
  for (std::size_t i = 0; i < text.size();) {
    if (!in_word(text[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && in_word(text[end])) ++end;
    std::size_t at = end;
    while (at < text.size() && is_space(text[at])) ++at;
    const std::size_t stop = at < text.size() && text[at] == '=' ? text.find_first_of(";=", at + 1) : std::string::npos;
    if (stop != std::string::npos && text[stop] == ';') {
      out[text.substr(i, end - i)] = text.substr(at + 1, stop - at - 1);
      end = stop + 1;
    }
    i = end;
  }
  return out;
}

// `NAME: value ...`, one in each line.
statements statements_of_text(std::string_view text) {
  statements out;
  for (const std::string_view whole : split(text, '\n')) {
    constexpr std::string_view kBlanks = " \t";
    std::string_view line = whole;
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
    std::size_t end = 0;
    while (end < line.size() && in_word(line[end])) ++end;
    const std::string_view name = line.substr(0, end);
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks, end), line.size()));
    if (name.empty() || !line.starts_with(':')) continue;
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks, 1), line.size()));
    std::size_t last = 0;
    while (last < line.size() && !is_space(line[last])) ++last;
    if (last > 0) out[name] = line.substr(0, last);
  }
  return out;
}

// Names of a coefficient in the two kinds of files, and its destination.
struct rpc_number {
  std::string_view in_text, in_rpb;
  double rational_polynomial::* to;
};
constexpr std::array<rpc_number, 10> kNumbers = {{
    {"LINE_OFF", "lineOffset", &rational_polynomial::line_off},
    {"SAMP_OFF", "sampOffset", &rational_polynomial::samp_off},
    {"LAT_OFF", "latOffset", &rational_polynomial::lat_off},
    {"LONG_OFF", "longOffset", &rational_polynomial::long_off},
    {"HEIGHT_OFF", "heightOffset", &rational_polynomial::height_off},
    {"LINE_SCALE", "lineScale", &rational_polynomial::line_scale},
    {"SAMP_SCALE", "sampScale", &rational_polynomial::samp_scale},
    {"LAT_SCALE", "latScale", &rational_polynomial::lat_scale},
    {"LONG_SCALE", "longScale", &rational_polynomial::long_scale},
    {"HEIGHT_SCALE", "heightScale", &rational_polynomial::height_scale},
}};
struct rpc_list {
  std::string_view in_text, in_rpb;
  std::array<double, 20> rational_polynomial::* to;
};
constexpr std::array<rpc_list, 4> kLists = {{
    {"LINE_NUM_COEFF", "lineNumCoef", &rational_polynomial::line_num_coeff},
    {"LINE_DEN_COEFF", "lineDenCoef", &rational_polynomial::line_den_coeff},
    {"SAMP_NUM_COEFF", "sampNumCoef", &rational_polynomial::samp_num_coeff},
    {"SAMP_DEN_COEFF", "sampDenCoef", &rational_polynomial::samp_den_coeff},
}};

// The values of a statement of an RPB file: one, or several in parentheses.
std::vector<std::string_view> values_of(std::string_view text) {
  constexpr std::string_view kAround = " ()\r\n\t";
  const std::size_t begin = text.find_first_not_of(kAround);
  if (begin == std::string_view::npos) return {std::string_view()};
  return split(text.substr(begin, text.find_last_not_of(kAround) + 1 - begin), ',');
}

// `find(name in text, name in rpb)` returns the values of a number or a list, none if it does not exist.
template <class F>
std::optional<rational_polynomial> whole_polynomial(F find) {
  rational_polynomial out;
  const auto one = [&](std::string_view in_text, std::string_view in_rpb) -> std::optional<double> {
    std::vector<std::string_view> found = find(in_text, in_rpb, 1);
    found.resize(std::min<std::size_t>(found.size(), 1));
    const auto number = finite_numbers(found);
    return number && !number->empty() ? std::optional((*number)[0]) : std::nullopt;
  };
  const auto error_of = [&](std::string_view in_text, std::string_view in_rpb, std::optional<double>& to) {
    to = one(in_text, in_rpb);
    return to.has_value() || find(in_text, in_rpb, 1).empty();
  };
  if (!error_of("ERR_BIAS", "errBias", out.err_bias) || !error_of("ERR_RAND", "errRand", out.err_rand))
    return std::nullopt;
  for (const rpc_number& each : kNumbers) {
    const auto number = one(each.in_text, each.in_rpb);
    if (!number) return std::nullopt;
    out.*each.to = *number;
  }
  for (const rpc_list& each : kLists) {
    const auto numbers = finite_numbers(find(each.in_text, each.in_rpb, 20));
    if (!numbers || numbers->size() != 20) return std::nullopt;
    std::copy(numbers->begin(), numbers->end(), (out.*each.to).begin());
  }
  return out;
}

}  // namespace

sidecar_metadata parse_sidecar_metadata(std::string_view document) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  sidecar_metadata out;
  if (!is_utf8(std::as_bytes(std::span(document)))) return out;
  if (document.starts_with(kByteOrderMark)) document.remove_prefix(kByteOrderMark.size());
  const auto parsed = parse_xml(document);
  if (!parsed.ok() || (parsed->name != "PAMDataset" && parsed->name != kEsri)) return out;
  const xml_element& root = *parsed;
  const auto place = finite_numbers(split(root.child_text("GeoTransform"), ','));
  if (place && place->size() == 6) {
    const std::vector<double>& g = *place;
    out.transform = affine_transform{g[1], g[2], g[0], g[4], g[5], g[3]};
  }
  for (const xml_element& each : root.children) {
    if (each.name != "PAMRasterBand") continue;
    const auto number = band_number(each.attribute("band"));
    if (number && *number > 0) out.bands[*number - 1] = band_of(each);
  }
  out.metadata = items_of(root);
  out.crs = trimmed(root.child_text("SRS"));
  if (const xml_element* const list = root.child("GCPList")) {
    out.gcps = points_of(*list);
    out.gcps_crs = list->attribute("Projection");
  }
  if (const xml_element* const esri = esri_of(root)) add_esri(*esri, out);
  if (out.gcps.empty()) out.gcps_crs.clear();
  return out;
}

std::optional<affine_transform> parse_world_file(std::string_view text) {
  std::string with_points(text);
  std::vector<std::string_view> words;
  for (char& c : with_points) c = c == ',' ? '.' : c;
  for (std::size_t i = 0; i < with_points.size() && words.size() < 6;) {
    const std::size_t begin = i;
    while (i < with_points.size() && !is_space(with_points[i])) ++i;
    if (i > begin) words.push_back(std::string_view(with_points).substr(begin, i - begin));
    ++i;
  }
  const auto numbers = finite_numbers(words);
  if (!numbers || numbers->size() < 6) return std::nullopt;
  const double a = (*numbers)[0], d = (*numbers)[1], b = (*numbers)[2], e = (*numbers)[3];
  if (a * e == b * d) return std::nullopt;
  return affine_transform{a, b, (*numbers)[4] - 0.5 * (a + b), d, e, (*numbers)[5] - 0.5 * (d + e)};
}

std::vector<std::string> world_file_endings(std::string_view ending) {
  std::vector<std::string> names;
  if (ending.size() >= 3) {
    names.push_back({ending[1], ending.back(), 'w'});
    names.push_back(std::string(ending.substr(1)) + 'w');
  }
  names.emplace_back("wld");
  std::vector<std::string> out;
  for (const std::string& each : names) {
    std::string lower = ".", upper = ".";
    for (const char c : each) {
      lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      upper += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    }
    out.push_back(lower);
    if (upper != lower) out.push_back(upper);
  }
  return out;
}

std::optional<rational_polynomial> parse_rpb(std::string_view text) {
  const statements found = statements_of_rpb(text);
  return whole_polynomial([&](std::string_view, std::string_view name, std::size_t) {
    const auto at = found.find(name);
    return at == found.end() ? std::vector<std::string_view>() : values_of(at->second);
  });
}

std::optional<rational_polynomial> parse_rpc_text(std::string_view text) {
  const statements found = statements_of_text(text);
  return whole_polynomial([&](std::string_view name, std::string_view, std::size_t count) {
    std::vector<std::string_view> out;
    for (std::size_t i = 1; i <= count; ++i) {
      const std::string numbered = std::string(name) + '_' + std::to_string(i);
      const auto at = found.find(count == 1 ? name : std::string_view(numbered));
      if (at != found.end()) out.push_back(at->second);
    }
    return out;
  });
}

std::pair<std::string_view, std::string_view> split_ending(std::string_view name) noexcept {
  const std::size_t slash = name.rfind('/');
  const std::size_t begin = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t first = name.find_first_not_of('.', begin), dot = name.rfind('.');
  if (first == std::string_view::npos || dot == std::string_view::npos || dot < first) return {name, {}};
  return {name.substr(0, dot), name.substr(dot)};
}

}  // namespace penstock::inline v0
