#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <penstock/geo_values.h>
#include <penstock/result.h>
#include <penstock/tiff_header.h>
#include <penstock/tiff_meaning.h>

namespace penstock::inline v0 {

/// The tags of a new image's own directory: georeferencing and GDAL's metadata; little-endian.
/// \error invalid_argument, unsupported  As for `tiff_meaning`. Source: OGC GeoTIFF 1.1, 7; GDAL's page on GeoTIFF (tag
/// 42112).
result<std::vector<tiff_tag>> tags_of_meaning(const tiff_meaning& from);

/// GDAL_NODATA: the number as text; for floats, so that reading returns the same bits. See `held_nodata`.
tiff_tag nodata_tag(const nodata_value& held);

/// ColorMap: red, green and blue of each value; values beyond the last one are black.
/// \error invalid_argument  More colours than samples with this number of bits have values.
result<tiff_tag> colormap_tag(std::span<const std::array<std::uint16_t, 3>> colors, std::uint32_t bits);

}  // namespace penstock::inline v0
