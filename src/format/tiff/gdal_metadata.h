#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/geo_values.h>
#include <penstock/result.h>
#include <penstock/tiff_meaning.h>

namespace penstock::inline v0 {

/// An item of the tag GDAL_METADATA.
struct gdal_item {
  std::string name;
  std::optional<std::uint64_t> band;  ///< from 0; nothing: of the image
  std::string role;                   ///< `scale`, `offset`, `unittype`, `description`, `colorinterp`, or empty
  std::string domain;
  std::string text;
};

/// The items of the tag GDAL_METADATA (42112), in document order; none if the text is not well-formed XML.
/// Source: GDAL's page on GeoTIFF, "Metadata"; GTiffDataset::WriteMDMetadata, which escapes text twice.
std::vector<gdal_item> parse_gdal_metadata(std::string_view document);

/// The text of the tag GDAL_METADATA of a new image; empty if there are no items. Values are escaped twice, as GDAL
/// writes and reads them. \error invalid_argument  Text with a NUL, or that is not UTF-8.
result<std::string> make_gdal_metadata(const metadata_items& image, std::span<const new_band_meaning> bands);

/// A number of a band of at most 8 digits; nothing for other text.
std::optional<std::uint64_t> band_number(std::string_view text) noexcept;

/// If several items have one name, the last one's text, at the position of the first one.
metadata_items without_repetitions(metadata_items items);
/// The text of an item, or null.
const std::string* find_item(const metadata_items& items, std::string_view name) noexcept;

}  // namespace penstock::inline v0
