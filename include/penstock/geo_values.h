#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <penstock/config.h>

namespace penstock::inline v0 {

/// From pixels to the ground: x = a * column + b * row + c, y = d * column + e * row + f, where (0, 0) is the upper
/// left corner of the first pixel. The order of the numbers is the one of rasterio and affine.
struct affine_transform {
  double a = 1, b = 0, c = 0, d = 0, e = 1, f = 0;

  friend bool operator==(const affine_transform&, const affine_transform&) = default;
};

/// A rectangle on the ground, in the units of the coordinate system.
struct ground_bounds {
  double left = 0, bottom = 0, right = 0, top = 0;
};

/// A ground control point: a position in the image, in pixels from its upper left corner, and the same position on the
/// ground.
struct ground_control_point {
  double column = 0, row = 0, x = 0, y = 0, z = 0;
};

/// Rational polynomial coefficients of a sensor. Lines and samples count from the centre of the first pixel.
/// Source: GDAL RFC 22; "RPCs in GeoTIFF" (tag 50844).
struct rational_polynomial {
  std::optional<double> err_bias, err_rand;  ///< in metres
  double line_off = 0, samp_off = 0, lat_off = 0, long_off = 0, height_off = 0;
  double line_scale = 0, samp_scale = 0, lat_scale = 0, long_scale = 0, height_scale = 0;
  std::array<double, 20> line_num_coeff = {}, line_den_coeff = {}, samp_num_coeff = {}, samp_den_coeff = {};
};

/// A GeoTIFF key as in the file: a number or code, numbers, or text. Source: OGC GeoTIFF 1.1, 7.1.
struct geo_key {
  using value_type = std::variant<std::uint64_t, double, std::vector<double>, std::string>;

  std::uint16_t id = 0;
  value_type value;
};

/// The extent that a pixel's value represents.
enum class pixel_extent : std::uint8_t {
  unspecified,
  area,   ///< the pixel's area
  point,  ///< the pixel's centre
};

/// A nodata value: an exact integer if the file has one for an image of integers.
using nodata_value = std::variant<std::int64_t, std::uint64_t, double>;

/// Names and texts of metadata, in the order of the file. Text is UTF-8 unless the file has other bytes.
using metadata_items = std::vector<std::pair<std::string, std::string>>;

}  // namespace penstock::inline v0
