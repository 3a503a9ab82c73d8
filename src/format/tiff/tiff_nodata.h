#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/dtype.h>
#include <penstock/geo_values.h>

namespace penstock::inline v0 {

/// The number that GDAL_NODATA writes: for images of integers an exact integer if the text is one (`-9999`, `-9999.0`,
/// `1e3`), else a double. Nothing if the text does not begin with a number; text after the number is ignored, as in C.
///
/// Source: GDAL's page on GeoTIFF, "Internal nodata value"; GTiffDataset::ReadNoDataValue.
std::optional<nodata_value> parse_nodata(std::string_view text, const dtype& type);

/// The value that pixels of the type have for `value`: integers exactly, floats rounded to the nearest one that is
/// finite. Nothing if the type has no such value: then no pixel is nodata.
std::optional<nodata_value> held_nodata(const nodata_value& value, const dtype& type);

/// The value for users: for images of integers an integer if it is one; for float32 and complex64 rounded to the
/// precision of pixels, unless that is infinite.
nodata_value rounded_nodata(const nodata_value& value, const dtype& type);

/// The value of tiles that were never written.
struct tiff_fill {
  std::vector<std::byte> item;  ///< of the image's type, in native order
  std::string json;             ///< the same as in Zarr metadata
  bool is_nodata = false;       ///< `item` is the value in the text, not the 0 that replaces it
};

/// The nodata value in `text`, if the type has it, else 0.
///
/// Source: GDAL's page on GeoTIFF, "Internal nodata value" and "Sparse files".
tiff_fill fill_of_nodata(std::string_view text, const dtype& type);

/// One item of the type in native byte order. The type must have the value: see `held_nodata`.
std::vector<std::byte> item_of_nodata(const nodata_value& value, const dtype& type);

}  // namespace penstock::inline v0
