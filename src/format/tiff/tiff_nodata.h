#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/dtype.h>

namespace penstock::inline v0 {

/// What tiles that were never written are.
struct tiff_fill {
  std::vector<std::byte> item;  ///< of the image's type, in native order
  std::string json;             ///< the same as metadata of Zarr write it
  bool is_nodata = false;       ///< it is what the text says, and not 0 in its place
};

/// The number that GDAL_NODATA writes, where the type has it: integers exactly, floats rounded to the nearest one that
/// is finite. Else 0: also where `text` is empty, or no number.
///
/// Source: GDAL's page on GeoTIFF, "Internal nodata value" and "Sparse files".
tiff_fill fill_of_nodata(std::string_view text, const dtype& type);

}  // namespace penstock::inline v0
