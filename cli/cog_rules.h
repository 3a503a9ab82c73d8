#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/array.h>
#include <penstock/result.h>
#include <penstock/tiff.h>

namespace penstock::inline v0::cli {

/// Why a file is not a Cloud Optimized GeoTIFF, and possible improvements.
struct cog_verdict {
  std::vector<std::string> errors, warnings;
};

/// Judges a TIFF's first image and its overviews by the rules of GDAL's validate_cloud_optimized_geotiff, as rio-cogeo
/// applies them. \param levels  The image, then its overviews, the largest first; all as (band, y, x).
/// \error As of a read of their indexes. Damaged tiles are an error in the verdict instead.
result<cog_verdict> judge_cog(std::span<const array> levels);

/// The image has tiles, not strips.
bool is_tiled(const array& image);

/// The value of a name in GDAL's text at the beginning of a cloud-optimised file (`LAYOUT`, ...); empty if it does not
/// exist.
std::string_view structure_item(const tiff_details& of, std::string_view name);

}  // namespace penstock::inline v0::cli
