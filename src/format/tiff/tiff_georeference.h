#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <penstock/geo_values.h>
#include <penstock/result.h>
#include <penstock/tiff_header.h>
#include "format/tiff/gdal_metadata.h"
#include "format/tiff/sidecar_metadata.h"

namespace penstock::inline v0 {

/// How many rows and columns of the page correspond to one pixel of an image of `rows` x `columns`: 1 unless it is an
/// overview.
struct page_pixels {
  double rows = 1, columns = 1;
  static page_pixels of(const tiff_details& details, std::uint64_t rows, std::uint64_t columns) noexcept;
};

/// The transform of the page's pixels by its tags and its sidecar file; nothing if neither has one, or pixels have no
/// size. Rows go down for either sign of their scale, as in GDAL. Pixels that are points are moved by half a pixel.
/// \error corrupt_data  By tag. Source: OGC GeoTIFF 1.1, 7.2 and annex D;
/// GTiffDataset::LoadGeoreferencingAndPamIfNeeded.
result<std::optional<affine_transform>> page_transform(const tiff_details& details, const sidecar_metadata& sidecar);

/// The same for an image with larger pixels.
affine_transform of_level(const affine_transform& page, const page_pixels& of) noexcept;

/// The rectangle that contains all pixels. For images that are not rotated its sides are those of the first and the
/// last pixel, in this order: `bottom` is above `top` if rows go up.
ground_bounds bounds_of(const affine_transform& transform, std::uint64_t rows, std::uint64_t columns) noexcept;

/// Ground control points in the sidecar file, in pixels of the page. Those of ESRI are positions in the image only if
/// the page has a resolution in inches. \error corrupt_data  By tag.
result<std::vector<ground_control_point>> sidecar_points(const tiff_details& details, const sidecar_metadata& sidecar);
/// The tie points of a page without a transform, in pixels of the page. \error corrupt_data  By tag.
result<std::vector<ground_control_point>> own_points(const tiff_details& details);

/// The coefficients in the page's tag 50844, in pixels of the page. \error corrupt_data  By tag.
result<std::optional<rational_polynomial>> own_polynomial(const tiff_details& details);
/// The same polynomial for an image with larger pixels.
rational_polynomial of_level(rational_polynomial page, const page_pixels& of) noexcept;

/// The band (from 0) that holds the opacity of the others: the last one, if its colour interpretation is alpha. GDAL's
/// own COLORINTERP item takes precedence over ExtraSamples: GDAL's COG driver writes ExtraSamples 2 with the item
/// `Undefined` for a fourth band that is not alpha. \error corrupt_data  By tag.
result<std::optional<std::uint64_t>> alpha_band_of(const tiff_details& details, const std::vector<gdal_item>& items);

/// The colour interpretation of each of the file's bands in lower case: `red`, `gray`, `palette`, `alpha`, `undefined`.
/// \error corrupt_data  By tag.
result<std::vector<std::string>> colors_of(const tiff_details& details, const std::vector<gdal_item>& items);

/// GDAL's item NODATA_VALUES: a pixel with these values in all of the file's bands is missing. Nothing unless it has a
/// value for each band. \error corrupt_data  By tag.
result<std::optional<std::vector<double>>> nodata_of_pixels(const tiff_details& details, const metadata_items& image);

/// The text of the item that has this role for a band (from 0), or null. Of several the last one counts.
const std::string* find_role(const std::vector<gdal_item>& items, std::uint64_t band, std::string_view role) noexcept;

}  // namespace penstock::inline v0
