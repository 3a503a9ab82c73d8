#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <penstock/geo_values.h>
#include <penstock/result.h>

namespace penstock::inline v0 {

/// A coordinate system as a GeoTIFF names it: by codes of EPSG's registry, or by WKT as ESRI writes it.
///
/// Finding the code of a description, or writing its WKT, needs a database of coordinate systems, such as PROJ's.
struct coordinate_system {
  enum class kind : std::uint8_t { projected, geographic };

  /// Of the horizontal system: 1 to 32766; nullopt: see `esri_wkt`.
  std::optional<std::uint32_t> epsg;
  kind of = kind::projected;              ///< the kind of system that `epsg` names
  std::optional<std::uint32_t> vertical;  ///< EPSG's code of the vertical system
  std::string name;                       ///< a readable name; empty: none
  std::string esri_wkt;                   ///< used if there is no code
};

/// The system of an EPSG code that is known without a database: WGS 84 and its UTM zones, Web Mercator, ETRS89 with
/// LAEA Europe, NAD27, NAD83 with Conus Albers, and Lambert-93. It has no name.
/// \error unsupported  Another code: whether it is projected or geographic is in EPSG's registry.
PENSTOCK_API result<coordinate_system> epsg_system(std::uint32_t code);

/// The GeoTIFF keys of a system. Source: OGC GeoTIFF 1.1, 7.1; GDAL's option GEOTIFF_KEYS_FLAVOR=ESRI_PE for WKT.
/// \error unsupported  A code that GeoTIFF cannot hold. \error invalid_argument  The system has neither a code nor WKT.
PENSTOCK_API result<std::vector<geo_key>> geo_keys_of(const coordinate_system& system);

/// The meaning of the values of one band of a new image.
struct new_band_meaning {
  std::optional<std::string> description, unit;
  std::optional<double> scale, offset;  ///< measured value = stored value * scale + offset
};

/// The meaning and the position of a new TIFF's pixels: the counterpart of `georeference` for writing.
struct tiff_meaning {
  /// From pixels to the ground, counted from the first pixel's corner also if `extent` is `point`.
  /// \error invalid_argument  Numbers that are not finite, or pixels of no area.
  std::optional<affine_transform> transform;
  /// Unspecified: the value of key 1025 in `geo_keys`, if it exists.
  pixel_extent extent = pixel_extent::unspecified;
  /// The coordinate system: from `geo_keys_of`, or copied from `georeference::geo_keys` of another file. If a number
  /// occurs more than once, the last key counts. Characters that are not ASCII become `?`, and `|` becomes `/`.
  std::vector<geo_key> geo_keys;
  metadata_items metadata;              ///< GDAL's metadata of the whole image, UTF-8
  std::vector<new_band_meaning> bands;  ///< one for each band; empty: none
};

}  // namespace penstock::inline v0
