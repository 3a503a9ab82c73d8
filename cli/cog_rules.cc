#include "cog_rules.h"

#include <fmt/format.h>
#include <penstock/selection.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "format/tiff/number_text.h"
#include "format/tiff/tiff_values.h"

namespace penstock::inline v0::cli {
namespace {

/// A header, and GDAL's text after it.
constexpr std::uint64_t kHeadBytes = 300;
/// Pixels. Larger images need tiles and overviews.
constexpr std::uint64_t kLarge = 512;
/// Tiles that are checked before an image counts as having none.
constexpr std::uint64_t kTried = 256;

std::uint64_t longest_side(const array& a) { return std::max(a.shape()[1], a.shape()[2]); }

// The bytes that a read's plan fetches; nullopt if it fetches none.
std::optional<std::uint64_t> first_byte_of(std::string_view plan) {
  constexpr std::string_view kBytes = "bytes [";
  for (std::size_t at = 0; at < plan.size();) {
    const std::size_t end = std::min(plan.find('\n', at), plan.size());
    const std::string_view line = plan.substr(at, end - at);
    const std::size_t found = line.starts_with("fetch ") ? line.find(kBytes) : std::string_view::npos;
    std::uint64_t offset = 0;
    if (found != std::string_view::npos) {
      const char* const begin = line.data() + found + kBytes.size();
      if (std::from_chars(begin, line.data() + line.size(), offset).ec == std::errc()) return offset;
    }
    at = end + 1;
  }
  return std::nullopt;
}

// The offset of the first tile that is not absent, among the first ones.
result<std::optional<std::uint64_t>> first_tile(const array& a) {
  std::uint64_t tried = 0;
  for (std::uint64_t band = 0; band < a.shape()[0]; band += a.chunks()[0]) {
    for (std::uint64_t y = 0; y < a.shape()[1]; y += a.chunks()[1]) {
      for (std::uint64_t x = 0; x < a.shape()[2]; x += a.chunks()[2]) {
        if (tried++ == kTried) return std::optional<std::uint64_t>();
        PENSTOCK_ASSIGN(const basic_selection pixel,
                        parse_selection(fmt::format("{}:{}, {}:{}, {}:{}", band, band + 1, y, y + 1, x, x + 1)));
        PENSTOCK_ASSIGN(const resolved_selection resolved, a.select(pixel));
        PENSTOCK_ASSIGN(const std::string plan, a.plan(resolved));
        if (const auto found = first_byte_of(plan)) return found;
      }
    }
  }
  return std::optional<std::uint64_t>();
}

void judge_shape(std::span<const array> levels, bool in_side_file, cog_verdict& to) {
  if (in_side_file) to.errors.emplace_back("The overviews are in another file (.ovr); they should be in this one");
  if (longest_side(levels[0]) > kLarge) {
    if (!is_tiled(levels[0])) to.errors.push_back(fmt::format("It is larger than {} pixels and not tiled", kLarge));
    if (levels.size() == 1)
      to.warnings.push_back(fmt::format("It is larger than {} pixels and has no overviews", kLarge));
  }
  const std::uint64_t place = tiff_details_of(levels[0])->directory_offset;
  if (place > kHeadBytes)
    to.errors.push_back(
        fmt::format("The main directory should be in the first {} bytes; it is at {}", kHeadBytes, place));
  if (structure_item(*tiff_details_of(levels[0]), "KNOWN_INCOMPATIBLE_EDITION") == "YES")
    to.errors.emplace_back("It was edited after it was made, which changed the order of its parts");
}

result<> judge_tiles(std::span<const array> levels, cog_verdict& to) {
  std::vector<std::uint64_t> data;
  for (const array& level : levels) {
    auto found = first_tile(level);
    if (!found.ok() && found.error().code() == errc::corrupt_data) {
      to.errors.push_back(fmt::format("Tiles are damaged: {}", found.error().message()));
      return {};
    }
    if (!found.ok()) return std::move(found).error();
    if (*found) data.push_back(**found);
  }
  if (!data.empty() && data.back() < tiff_details_of(levels.back())->directory_offset)
    to.errors.emplace_back("The first tile of the smallest image is before its directory");
  for (std::size_t i = 0; i + 1 < data.size(); ++i) {
    if (data[i] < data[i + 1])
      to.errors.push_back(fmt::format("The tiles of overview {} should be before those of the next larger image", i));
  }
  for (std::size_t i = 1; i < levels.size(); ++i) {
    if (longest_side(levels[i]) > kLarge && !is_tiled(levels[i]))
      to.errors.push_back(fmt::format("Overview {} is not tiled", i - 1));
  }
  return {};
}

}  // namespace

bool is_tiled(const array& image) {
  constexpr std::uint16_t kTileWidth = 322;
  return tiff_values::of_image(*tiff_details_of(image)).has(kTileWidth);
}

std::string_view structure_item(const tiff_details& of, std::string_view name) {
  std::string_view rest = of.structure;
  std::string_view found;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = trimmed(rest.substr(0, end));
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos && line.substr(0, equals) == name) found = line.substr(equals + 1);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return found;
}

result<cog_verdict> judge_cog(std::span<const array> levels) {
  cog_verdict out;
  const bool in_side_file = levels.size() > 1 && !tiff_details_of(levels[1])->side_file.empty();
  judge_shape(levels, in_side_file, out);
  if (in_side_file) return out;
  for (std::size_t i = 0; i + 1 < levels.size(); ++i) {
    const std::uint64_t before = tiff_details_of(levels[i])->directory_offset;
    const std::uint64_t after = tiff_details_of(levels[i + 1])->directory_offset;
    if (after < before)
      out.errors.push_back(fmt::format(
          "The directory of overview {} is at {}, before that of the next larger image ({})", i, after, before));
  }
  PENSTOCK_TRY(judge_tiles(levels, out));
  return out;
}

}  // namespace penstock::inline v0::cli
