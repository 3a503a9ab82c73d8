#include "format/tiff/geo_keys.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "format/tiff/number_text.h"
#include "format/tiff/tiff_tags.h"
#include "format/tiff/tiff_values.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint16_t kDirectory = 34735, kDoubles = 34736, kText = 34737;
constexpr std::uint64_t kLowestCode = 1024, kUserDefined = 32767;
/// The standard defines fewer than 100 keys.
constexpr std::uint64_t kMostKeys = 4096;
constexpr std::string_view kEsriText = "ESRI PE String = ";

bool is_within(std::uint64_t at, std::uint64_t count, std::uint64_t all) noexcept {
  return count > 0 && at <= all && count <= all - at;
}

std::optional<std::uint64_t> code_of(const std::vector<geo_key>& keys, std::uint16_t id) noexcept {
  const auto code = geo_key_code(keys, id);
  return code && *code >= kLowestCode && *code < kUserDefined ? code : std::nullopt;
}

void set(std::vector<geo_key>& keys, geo_key made) {
  const auto known = std::find_if(keys.begin(), keys.end(), [&](const geo_key& each) { return each.id == made.id; });
  if (known == keys.end()) {
    keys.push_back(std::move(made));
  } else {
    known->value = std::move(made.value);
  }
}

}  // namespace

result<std::vector<geo_key>> parse_geo_keys(const tiff_details& from) {
  const tiff_values tags = tiff_values::of_page(from);
  const tiff_tag *const directory = tags.find(kDirectory), *const doubles = tags.find(kDoubles),
                        *const text = tags.find(kText);
  std::vector<geo_key> keys;
  if (directory == nullptr) return keys;
  if (!is_integer_type(directory->type)) return tags.refuse(kDirectory, "integers");
  if (doubles != nullptr && !is_integer_type(doubles->type) && !is_real_type(doubles->type))
    return tags.refuse(kDoubles, "numbers");
  if (text != nullptr && !is_text_type(text->type)) return tags.refuse(kText, "text");
  const auto number = [&](std::uint64_t i) {
    return tiff_integer(directory->value, directory->type, i, from.big_endian).value_or(0);
  };
  const std::string_view characters = text == nullptr ? std::string_view() : text_of(*text);
  const std::uint64_t last = directory->count / 4;
  const std::uint64_t listed = last == 0 ? 0 : std::min({number(3), last - 1, kMostKeys});
  std::uint64_t held = 0;  // values so far: entries may refer to the same ones repeatedly
  for (std::uint64_t entry = 1; entry <= listed; ++entry) {
    const std::uint64_t id = number(4 * entry), where = number(4 * entry + 1), count = number(4 * entry + 2),
                        at = number(4 * entry + 3);
    geo_key made;
    made.id = static_cast<std::uint16_t>(id);
    if (id > 0xffff) continue;
    if (where == 0) {
      made.value = at;
    } else if (where == kDoubles && doubles != nullptr && is_within(at, count, doubles->count)) {
      held += count;
      if (held > 2 * doubles->count + kMostKeys) break;
      std::vector<double> values(count);
      for (std::uint64_t i = 0; i < count; ++i) values[i] = tags.number(*doubles, at + i);
      if (count == 1)
        made.value = values[0];
      else
        made.value = std::move(values);
    } else if (where == kText) {
      std::string_view part = characters.substr(std::min<std::uint64_t>(at, characters.size()), count);
      part = part.substr(0, part.find_last_not_of('|') + 1);
      held += part.size();
      if (held > 2 * characters.size() + kMostKeys) break;
      made.value = std::string(part);
    } else if (where == kDirectory && is_within(at, count, directory->count)) {
      made.value = number(at);
    } else {
      continue;
    }
    set(keys, std::move(made));
  }
  return keys;
}

std::string text_of_geo_keys(const tiff_details& from) {
  const tiff_values tags = tiff_values::of_page(from);
  std::string out(1, from.big_endian ? 'M' : 'I');
  for (const std::uint16_t number : {kDirectory, kDoubles, kText}) {
    const tiff_tag* const found = tags.find(number);
    const std::uint64_t size = found == nullptr ? 0 : found->value.size();
    out.push_back(static_cast<char>(found == nullptr ? 0 : found->type));
    out.append(reinterpret_cast<const char*>(&size), sizeof(size));
    if (size != 0) out.append(reinterpret_cast<const char*>(found->value.data()), size);
  }
  return out;
}

const geo_key::value_type* find_geo_key(const std::vector<geo_key>& keys, std::uint16_t id) noexcept {
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const geo_key& each) { return each.id == id; });
  return found == keys.end() ? nullptr : &found->value;
}

std::optional<std::uint64_t> geo_key_code(const std::vector<geo_key>& keys, std::uint16_t id) noexcept {
  const geo_key::value_type* const found = find_geo_key(keys, id);
  const auto* const code = found == nullptr ? nullptr : std::get_if<std::uint64_t>(found);
  return code == nullptr ? std::nullopt : std::optional(*code);
}

pixel_extent pixel_extent_of(const std::vector<geo_key>& keys) noexcept {
  const auto code = geo_key_code(keys, kRasterTypeKey);
  return code == 1U ? pixel_extent::area : code == 2U ? pixel_extent::point : pixel_extent::unspecified;
}

std::optional<std::uint32_t> epsg_code_of(const std::vector<geo_key>& keys) noexcept {
  const bool is_projected = find_geo_key(keys, kProjectedCrsKey) != nullptr;
  // ArcGIS and GDAL name the base system only (4326) and hold the projected system as text.
  if (geo_key_code(keys, kModelTypeKey) != 2U && !is_projected && !esri_wkt_of(keys).empty()) return std::nullopt;
  const auto code = code_of(keys, is_projected ? kProjectedCrsKey : kGeodeticCrsKey);
  return code ? std::optional(static_cast<std::uint32_t>(*code)) : std::nullopt;
}

std::optional<std::uint32_t> epsg_code_of_text(std::string_view text) noexcept {
  text = trimmed(text);
  if (text.size() > 5 && (text.starts_with("EPSG:") || text.starts_with("epsg:"))) {
    text.remove_prefix(5);
  } else {
    if (!text.ends_with("]]")) return std::nullopt;
    text.remove_suffix(2);
    const std::size_t open = text.rfind('[');
    if (open == std::string_view::npos) return std::nullopt;
    const bool is_id = text.substr(0, open).ends_with("AUTHORITY") || text.substr(0, open).ends_with("ID");
    text.remove_prefix(open + 1);
    if (!is_id || !text.starts_with("\"EPSG\",")) return std::nullopt;
    text.remove_prefix(7);
    if (text.size() > 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  }
  std::uint32_t code = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, code);
  return read.ec == std::errc() && read.ptr == end ? std::optional(code) : std::nullopt;
}

std::string_view esri_wkt_of(const std::vector<geo_key>& keys) noexcept {
  for (const std::uint16_t id : {kCitationKey, kProjectedCitationKey, kGeodeticCitationKey}) {
    const geo_key::value_type* const found = find_geo_key(keys, id);
    const auto* const text = found == nullptr ? nullptr : std::get_if<std::string>(found);
    if (text != nullptr && text->starts_with(kEsriText)) return std::string_view(*text).substr(kEsriText.size());
  }
  return {};
}

}  // namespace penstock::inline v0
