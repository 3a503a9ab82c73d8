#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::inline v0 {

/// `ImageWidth`, `GDAL_NODATA`, ...; empty if the tag has no name here. Source: TIFF 6.0, its supplements, GDAL's tags.
std::string_view tiff_tag_name(std::uint16_t tag) noexcept;
/// The tag with this name; nothing if no tag has it.
std::optional<std::uint16_t> tiff_tag_of(std::string_view name) noexcept;
/// `ProjectedCRS`, ...; empty if the key has no name here. Source: OGC GeoTIFF 1.1, annex B.
std::string_view geo_key_name(std::uint16_t key) noexcept;
/// `deflate`, `lzw`, ...; the number in words if it has no name here. Source: the registries of libtiff and GDAL.
std::string tiff_compression_word(std::int64_t number);
/// `minisblack`, `rgb`, ...; the number in words if it has no name here.
std::string tiff_photometric_word(std::int64_t number);

}  // namespace penstock::inline v0
