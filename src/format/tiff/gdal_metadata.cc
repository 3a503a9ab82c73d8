#include "format/tiff/gdal_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>
#include <utility>

#include "array/utf8.h"
#include "base/xml.h"
#include "format/tiff/number_text.h"

namespace penstock::inline v0 {
namespace {

std::string without_entities(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, char>, 5> kEntities = {
      {{"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}, {"&amp;", '&'}}};
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto* const found =
        text[i] != '&' ? kEntities.end() : std::find_if(kEntities.begin(), kEntities.end(), [&](const auto& each) {
          return text.substr(i, each.first.size()) == each.first;
        });
    out += found == kEntities.end() ? text[i] : found->second;
    i += found == kEntities.end() ? 1 : found->first.size();
  }
  return out;
}

std::string escaped(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"' && quotes) {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

// Adds quotes, if possible of the kind that the text does not contain.
std::string attribute_of(std::string_view text) {
  const bool has_double = text.find('"') != std::string_view::npos,
             has_single = text.find('\'') != std::string_view::npos;
  std::string out;
  for (const char c : escaped(text, has_double && has_single)) {
    if (c == '\n' || c == '\r' || c == '\t') {
      out += fmt::format("&#{};", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  const char quote = has_double && !has_single ? '\'' : '"';
  return quote + out + quote;
}

std::string twice_escaped(std::string_view text) { return escaped(escaped(text, true), false); }

std::string role_line(std::size_t band, std::string_view role, std::string_view name, std::string_view text) {
  return fmt::format("  <Item name=\"{}\" sample=\"{}\" role=\"{}\">{}</Item>\n", name, band, role,
                     twice_escaped(text));
}

void add_items(const xml_element& from, std::vector<gdal_item>& to) {
  if (from.name == "Item") {
    gdal_item& item = to.emplace_back();
    item.name = from.attribute("name");
    item.band = band_number(from.attribute("sample"));
    item.role = from.attribute("role");
    item.domain = from.attribute("domain");
    item.text = without_entities(from.text);
  }
  for (const xml_element& each : from.children) add_items(each, to);
}

}  // namespace

std::optional<std::uint64_t> band_number(std::string_view text) noexcept {
  constexpr std::size_t kMostDigits = 8;
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  if (text.empty() || text.size() > kMostDigits) return std::nullopt;
  const auto read = std::from_chars(text.data(), end, number);
  return read.ec == std::errc() && read.ptr == end ? std::optional(number) : std::nullopt;
}

std::vector<gdal_item> parse_gdal_metadata(std::string_view document) {
  std::vector<gdal_item> out;
  const auto root = parse_xml(document);
  if (root.ok()) add_items(*root, out);
  return out;
}

result<std::string> make_gdal_metadata(const metadata_items& image, std::span<const new_band_meaning> bands) {
  std::string lines;
  for (const auto& [name, text] : image)
    lines += fmt::format("  <Item name={}>{}</Item>\n", attribute_of(name), twice_escaped(text));
  for (std::size_t i = 0; i < bands.size(); ++i) {
    const new_band_meaning& band = bands[i];
    if (band.description) lines += role_line(i, "description", "DESCRIPTION", *band.description);
    if (band.unit) lines += role_line(i, "unittype", "UNITTYPE", *band.unit);
    if (band.scale) lines += role_line(i, "scale", "SCALE", text_of_number(*band.scale));
    if (band.offset) lines += role_line(i, "offset", "OFFSET", text_of_number(*band.offset));
  }
  // XML 1.0, section 2.2: readers ignore all metadata of a document with other ones.
  for (const char c : lines) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20 && c != '\t' && c != '\n' && c != '\r')
      return error{errc::invalid_argument, fmt::format("metadata cannot hold the character {}", unsigned{code})};
  }
  if (!is_utf8(std::as_bytes(std::span(lines)))) return error{errc::invalid_argument, "metadata must be UTF-8"};
  return lines.empty() ? lines : "<GDALMetadata>\n" + lines + "</GDALMetadata>\n";
}

metadata_items without_repetitions(metadata_items items) {
  std::unordered_map<std::string, std::size_t> places;
  std::size_t count = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto [known, is_new] = places.try_emplace(items[i].first, count);
    if (is_new && count++ == i) continue;
    items[known->second] = std::move(items[i]);
  }
  items.resize(count);
  return items;
}

const std::string* find_item(const metadata_items& items, std::string_view name) noexcept {
  const auto found = std::find_if(items.begin(), items.end(), [&](const auto& each) { return each.first == name; });
  return found == items.end() ? nullptr : &found->second;
}

}  // namespace penstock::inline v0
