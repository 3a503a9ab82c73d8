#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/dtype.h>
#include <penstock/geo_values.h>

namespace penstock::inline v0 {

/// The number that GDAL_NODATA writes: of images of integers an exact integer if the text is one (`-9999`, `-9999.0`,
/// `1e3`), else a double. Nothing if the text does not begin with a number; what follows the number is ignored, as in
/// C.
///
/// Source: GDAL's page on GeoTIFF, "Internal nodata value"; GTiffDataset::ReadNoDataValue.
std::optional<nodata_value> parse_nodata(std::string_view text, const dtype& type);

/// The value that pixels of the type have for `value`: integers exactly, floats rounded to the nearest one that is
/// finite. Nothing if the type has no such value: then no pixel is nodata.
std::optional<nodata_value> held_nodata(const nodata_value& value, const dtype& type);

/// The value as users see it: of images of integers an integer if it is one; of float32 and complex64 rounded to what
/// pixels can hold, unless that is infinite.
nodata_value rounded_nodata(const nodata_value& value, const dtype& type);

/// What tiles that were never written are.
struct tiff_fill {
  std::vector<std::byte> item;  ///< of the image's type, in native order
  std::string json;             ///< the same as metadata of Zarr write it
  bool is_nodata = false;       ///< it is what the text says, and not 0 in its place
};

/// The nodata value that `text` writes, if the type has it, else 0.
///
/// Source: GDAL's page on GeoTIFF, "Internal nodata value" and "Sparse files".
tiff_fill fill_of_nodata(std::string_view text, const dtype& type);

/// One item of the type in native byte order. The type must have the value: see `held_nodata`.
std::vector<std::byte> item_of_nodata(const nodata_value& value, const dtype& type);

}  // namespace penstock::inline v0
