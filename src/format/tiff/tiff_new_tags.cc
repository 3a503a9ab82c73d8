#include "format/tiff/tiff_new_tags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "format/tiff/gdal_metadata.h"
#include "format/tiff/geo_keys.h"
#include "format/tiff/number_text.h"
#include "format/tiff/tiff_new_file.h"
#include "format/tiff/tiff_tags.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint16_t kAscii = 2, kDouble = 12;
constexpr std::uint16_t kNewColors = 320, kNewScale = 33550, kNewTiePoints = 33922, kNewMatrix = 34264;
constexpr std::uint16_t kKeyDirectory = 34735, kKeyDoubles = 34736, kKeyTexts = 34737;
constexpr std::uint16_t kMetadataText = 42112, kNodataText = 42113;
constexpr std::uint32_t kNoCode = 32767;
constexpr std::size_t kMostNewKeys = 4096;  // keys that are read
constexpr std::size_t kMostEntries = std::numeric_limits<std::uint16_t>::max();

error refused(std::string what) { return {errc::invalid_argument, std::move(what)}; }

tiff_tag double_tag(std::uint16_t tag, std::span<const double> values) {
  tiff_tag out{tag, kDouble, values.size(), {}};
  for (const double value : values) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    for (unsigned i = 0; i < 8; ++i) out.value.push_back(static_cast<std::byte>(bits >> (8 * i) & 0xff));
  }
  return out;
}

tiff_tag text_tag(std::uint16_t tag, const std::string& text) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(text.c_str());
  return {tag, kAscii, text.size() + 1, {bytes, bytes + text.size() + 1}};
}

result<> add_transform(const affine_transform& given, pixel_extent extent, std::vector<tiff_tag>& to) {
  auto [a, b, c, d, e, f] = given;
  for (const double each : {a, b, c, d, e, f})
    if (!std::isfinite(each)) return refused(fmt::format("the transform has a number that is not finite: {}", each));
  if (a * e - b * d == 0)
    return refused(fmt::format("transform maps all pixels to one line: ({}, {}, {}, {}, {}, {})", a, b, c, d, e, f));
  if (extent == pixel_extent::point) {  // the file has the centre of the first pixel
    c += (a + b) / 2;
    f += (d + e) / 2;
  }
  if (b == 0 && d == 0 && a > 0 && e < 0) {
    to.push_back(double_tag(kNewScale, std::array<double, 3>{a, -e, 0}));
    to.push_back(double_tag(kNewTiePoints, std::array<double, 6>{0, 0, 0, c, f, 0}));
  } else {
    to.push_back(double_tag(kNewMatrix, std::array<double, 16>{a, b, 0, c, d, e, 0, f, 0, 0, 0, 0, 0, 0, 0, 1}));
  }
  return {};
}

// One `?` for each character that is not ASCII.
std::string ascii_of(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 && byte < 0xc0) continue;  // a byte inside a UTF-8 character
    out += byte >= 0xc0 || byte == 0 ? '?' : c == '|' ? '/' : c;
  }
  return out;
}

/// The three tags of GeoTIFF keys.
class key_tags {
 public:
  result<> add(std::uint16_t id, const geo_key::value_type& value) {
    if (const auto* const code = std::get_if<std::uint64_t>(&value)) {
      if (*code > kMostEntries) return refused(fmt::format("GeoTIFF key {} holds 0 to 65535, not {}", id, *code));
      entry(id, 0, 1, *code);
      return {};
    }
    if (const auto* const text = std::get_if<std::string>(&value)) {
      const std::string held = ascii_of(*text) + "|";
      if (texts_.size() + held.size() > kMostEntries)
        return error{errc::unsupported, "the text of this coordinate system is too long for a GeoTIFF"};
      entry(id, kKeyTexts, held.size(), texts_.size());
      texts_ += held;
      return {};
    }
    const auto* const one = std::get_if<double>(&value);
    const std::vector<double> numbers = one != nullptr ? std::vector{*one} : std::get<std::vector<double>>(value);
    if (numbers.empty() || doubles_.size() + numbers.size() > kMostEntries)
      return refused(fmt::format("GeoTIFF key {} has no numbers, or too many", id));
    entry(id, kKeyDoubles, numbers.size(), doubles_.size());
    doubles_.insert(doubles_.end(), numbers.begin(), numbers.end());
    return {};
  }

  void move_to(bool has_heights, std::vector<tiff_tag>& to) {
    // GDAL reads heights of version 1.1 only.
    const std::array<std::uint16_t, 4> begin = {1, 1, static_cast<std::uint16_t>(has_heights ? 1 : 0),
                                                static_cast<std::uint16_t>(entries_.size() / 4)};
    entries_.insert(entries_.begin(), begin.begin(), begin.end());
    to.push_back(short_tag(kKeyDirectory, entries_));
    if (!doubles_.empty()) to.push_back(double_tag(kKeyDoubles, doubles_));
    if (!texts_.empty()) to.push_back(text_tag(kKeyTexts, texts_));
  }

 private:
  void entry(std::uint16_t id, std::uint16_t where, std::uint64_t count, std::uint64_t at) {
    for (const std::uint64_t each : {std::uint64_t{id}, std::uint64_t{where}, count, at})
      entries_.push_back(static_cast<std::uint16_t>(each));
  }

  std::vector<std::uint16_t> entries_;
  std::vector<double> doubles_;
  std::string texts_;
};

// TIFF's own texts by GDAL's names. Source: TIFF 6.0, sections 8 and 12.
constexpr std::array<std::pair<std::string_view, std::uint16_t>, 7> kTexts = {{{"TIFFTAG_DOCUMENTNAME", 269},
                                                                               {"TIFFTAG_IMAGEDESCRIPTION", 270},
                                                                               {"TIFFTAG_SOFTWARE", 305},
                                                                               {"TIFFTAG_DATETIME", 306},
                                                                               {"TIFFTAG_ARTIST", 315},
                                                                               {"TIFFTAG_HOSTCOMPUTER", 316},
                                                                               {"TIFFTAG_COPYRIGHT", 33432}}};

/// Adds the tags of items that TIFF has tags for, and returns the other items.
metadata_items add_texts(const metadata_items& items, std::vector<tiff_tag>& to) {
  metadata_items others;
  for (const auto& item : items) {
    const auto* const known =
        std::find_if(kTexts.begin(), kTexts.end(), [&](const auto& each) { return each.first == item.first; });
    if (known == kTexts.end())
      others.push_back(item);
    else
      to.push_back(text_tag(known->second, item.second));
  }
  return others;
}

result<> add_keys(const tiff_meaning& from, std::vector<tiff_tag>& to) {
  std::map<std::uint16_t, geo_key::value_type> keys;
  for (const geo_key& each : from.geo_keys) keys.insert_or_assign(each.id, each.value);
  // GDAL treats keys without a system as an unknown system. Without keys, values are of areas.
  const bool is_point = from.extent == pixel_extent::point;
  if (is_point || (!keys.empty() && from.extent == pixel_extent::area))
    keys.insert_or_assign(kRasterTypeKey, std::uint64_t{is_point ? 2U : 1U});
  if (keys.empty()) return {};
  if (keys.size() > kMostNewKeys)
    return refused(fmt::format("an image has at most {} GeoTIFF keys, this one has {}", kMostNewKeys, keys.size()));
  key_tags tags;
  for (const auto& [id, value] : keys) PENSTOCK_TRY(tags.add(id, value));
  tags.move_to(keys.count(kVerticalCrsKey) != 0, to);
  return {};
}

}  // namespace

result<coordinate_system> epsg_system(std::uint32_t code) {
  using kind = coordinate_system::kind;
  static constexpr std::uint32_t kGeographic[] = {4258, 4267, 4269, 4326};
  static constexpr std::uint32_t kProjected[] = {2154, 3035, 3395, 3857, 5070};
  const auto is_of = [&](const auto& codes) {
    return std::find(std::begin(codes), std::end(codes), code) != std::end(codes);
  };
  const bool is_utm = (code >= 32601 && code <= 32660) || (code >= 32701 && code <= 32760);
  coordinate_system out;
  out.epsg = code;
  out.of = is_of(kGeographic) ? kind::geographic : kind::projected;
  if (out.of == kind::geographic || is_utm || is_of(kProjected)) return out;
  return error{errc::unsupported,
               fmt::format("whether EPSG:{} is projected or geographic takes a database of coordinate systems", code)};
}

result<std::vector<geo_key>> geo_keys_of(const coordinate_system& system) {
  constexpr std::uint64_t kProjectedModel = 1, kGeographicModel = 2;
  for (const auto& code : {system.epsg, system.vertical})
    if (code && (*code == 0 || *code >= kNoCode))
      return error{errc::unsupported, fmt::format("EPSG:{} is not a code that GeoTIFF can hold: 1 to 32766", *code)};
  std::vector<geo_key> out;
  const bool is_geographic = system.epsg && system.of == coordinate_system::kind::geographic;
  if (system.epsg) {
    out.push_back({kModelTypeKey, is_geographic ? kGeographicModel : kProjectedModel});
  } else if (!system.esri_wkt.empty()) {
    out.push_back({kModelTypeKey, std::uint64_t{kNoCode}});
  } else {
    return refused("a coordinate system needs an EPSG code or WKT");
  }
  if (!system.name.empty()) out.push_back({kCitationKey, system.name});
  if (system.epsg) {
    out.push_back({is_geographic ? kGeodeticCrsKey : kProjectedCrsKey, std::uint64_t{*system.epsg}});
  } else {
    out.push_back({kProjectedCrsKey, std::uint64_t{kNoCode}});
    out.push_back({kProjectedCitationKey, "ESRI PE String = " + system.esri_wkt});
  }
  if (system.vertical) out.push_back({kVerticalCrsKey, std::uint64_t{*system.vertical}});
  return out;
}

result<std::vector<tiff_tag>> tags_of_meaning(const tiff_meaning& from) {
  std::vector<tiff_tag> out;
  const pixel_extent extent = from.extent == pixel_extent::unspecified ? pixel_extent_of(from.geo_keys) : from.extent;
  if (from.transform) PENSTOCK_TRY(add_transform(*from.transform, extent, out));
  PENSTOCK_TRY(add_keys(from, out));
  PENSTOCK_ASSIGN(const std::string metadata, make_gdal_metadata(add_texts(from.metadata, out), from.bands));
  if (!metadata.empty()) out.push_back(text_tag(kMetadataText, metadata));
  return out;
}

tiff_tag nodata_tag(const nodata_value& held) {
  if (const auto* const real = std::get_if<double>(&held)) return text_tag(kNodataText, text_of_number(*real));
  if (const auto* const number = std::get_if<std::int64_t>(&held))
    return text_tag(kNodataText, fmt::to_string(*number));
  return text_tag(kNodataText, fmt::to_string(std::get<std::uint64_t>(held)));
}

result<tiff_tag> colormap_tag(std::span<const std::array<std::uint16_t, 3>> colors, std::uint32_t bits) {
  const std::size_t values = std::size_t{1} << std::min(bits, 16U);
  if (colors.size() > values)
    return refused(fmt::format("a colormap has at most {} colours for samples of {} bits, it has {}", values, bits,
                               colors.size()));
  std::vector<std::uint16_t> table(3 * values);
  for (std::size_t i = 0; i < colors.size(); ++i)
    for (std::size_t k = 0; k < 3; ++k) table[k * values + i] = colors[i][k];
  return short_tag(kNewColors, table);
}

}  // namespace penstock::inline v0
