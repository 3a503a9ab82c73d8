#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/geo_values.h>
#include <penstock/result.h>
#include <penstock/tiff_header.h>

namespace penstock::inline v0 {

/// The GeoTIFF keys of the image's page, in the order of the file, each once (the last one of several counts). Keys
/// whose values are outside of their tags are ignored.
/// \error corrupt_data  One of the three tags has a wrong type. Source: OGC GeoTIFF 1.1, 7.1.
result<std::vector<geo_key>> parse_geo_keys(const tiff_details& from);

/// The bytes of the three tags, which determine the keys: files with equal text have the same keys.
std::string text_of_geo_keys(const tiff_details& from);

/// The value of a key, or null.
const geo_key::value_type* find_geo_key(const std::vector<geo_key>& keys, std::uint16_t id) noexcept;
/// The value of a key that is a number without a fraction.
std::optional<std::uint64_t> geo_key_code(const std::vector<geo_key>& keys, std::uint16_t id) noexcept;

/// Numbers of keys. Source: OGC GeoTIFF 1.1, annex B.
inline constexpr std::uint16_t kModelTypeKey = 1024, kRasterTypeKey = 1025, kCitationKey = 1026;
inline constexpr std::uint16_t kGeodeticCrsKey = 2048, kGeodeticCitationKey = 2049;
inline constexpr std::uint16_t kProjectedCrsKey = 3072, kProjectedCitationKey = 3073, kVerticalCrsKey = 4096;

/// Whether pixels are areas or points, by the keys. Source: OGC GeoTIFF 1.1, 7.4.2 (GTRasterTypeGeoKey).
pixel_extent pixel_extent_of(const std::vector<geo_key>& keys) noexcept;

/// The EPSG code of the projected system, else of the geographic one, that the keys name. Nothing if the file describes
/// a system by parameters, or holds it as text only. An additional unit of coordinates in the file is not compared with
/// the code's own: that needs EPSG's registry.
std::optional<std::uint32_t> epsg_code_of(const std::vector<geo_key>& keys) noexcept;

/// The EPSG code that a text names: `EPSG:32633`, or WKT whose last identifier is EPSG's (`AUTHORITY["EPSG","32633"]]`,
/// `ID["EPSG",32633]]`). Nothing for other text: finding the code of a description needs EPSG's registry.
std::optional<std::uint32_t> epsg_code_of_text(std::string_view text) noexcept;

/// WKT in one of the file's citations, as written by ArcGIS and GDAL's ESRI flavour; empty: none.
std::string_view esri_wkt_of(const std::vector<geo_key>& keys) noexcept;

}  // namespace penstock::inline v0
