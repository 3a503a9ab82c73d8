#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/array.h>
#include <penstock/config.h>
#include <penstock/geo_values.h>
#include <penstock/result.h>

namespace penstock::inline v0 {

/// The meaning of one band's values.
struct band_meaning {
  std::uint64_t number = 0;  ///< number of the band in its file, from 0
  /// The nodata value of the file, in the precision of the pixels.
  std::optional<nodata_value> nodata;
  /// The same, if pixels can have the value; nullopt: no pixel is nodata.
  std::optional<nodata_value> held_nodata;
  double scale = 1, offset = 0;   ///< measured value = stored value * scale + offset
  std::string unit, description;  ///< empty: the file has none
  metadata_items metadata;
};

/// The meaning and the position of an image's pixels, as its file states them: in the tags of a TIFF, and in GDAL's
/// metadata in the tags. The sidecar files of a local file (`.aux.xml`, world files, `.RPB`, `_RPC.TXT`) take
/// precedence, as in GDAL.
///
/// Immutable and thread-safe; holds the array. Values apply to the open level. A tag of the wrong type is
/// `corrupt_data` with its number; other values of the same file stay available.
class PENSTOCK_API georeference {
 public:
  /// Whether the format has such values. If not, all of them are absent.
  bool is_known() const noexcept;

  /// From pixels to the ground; nullopt if the file has no transform, or its pixels have no size.
  result<std::optional<affine_transform>> transform() const;
  /// The area that all pixels cover; nullopt without a transform.
  result<std::optional<ground_bounds>> bounds() const;
  /// Ground control points: of the sidecar file, else of the image itself unless it has a transform.
  result<std::vector<ground_control_point>> gcps() const;
  /// The rational polynomial: from `.RPB` or `_RPC.TXT`, which are looked up at each call, else from the image itself.
  result<std::optional<rational_polynomial>> rpcs() const;

  /// The GeoTIFF keys. Converting them to WKT needs a database of coordinate systems, such as PROJ's.
  result<std::vector<geo_key>> geo_keys() const;
  /// The EPSG code at the end of the sidecar file's text or, without such a text, the code in the keys. Returns nullopt
  /// if the file describes its system in another way. A unit of coordinates in the keys that differs from the code's
  /// own is ignored.
  result<std::optional<std::uint32_t>> epsg() const;
  /// The text (WKT, or another form that PROJ reads) of the coordinate system in a sidecar file or, without one, in the
  /// keys as ArcGIS writes it; empty: none.
  result<std::string> crs_text() const;
  /// The text in the sidecar file; empty: none. It takes precedence over the keys.
  const std::string& sidecar_crs() const noexcept;
  /// Whether `gcps` come from the sidecar file. Their coordinate system is then `sidecar_gcps_crs`, else the image's.
  result<bool> has_sidecar_gcps() const;
  const std::string& sidecar_gcps_crs() const noexcept;  ///< as `sidecar_crs`
  /// Whether values represent pixels' areas or centres.
  result<pixel_extent> area_or_point() const;

  /// GDAL's metadata of the whole image.
  const metadata_items& metadata() const noexcept;
  /// For each band of the open array.
  std::vector<band_meaning> bands() const;
  /// The colour interpretation of each of the file's bands: `red`, `gray`, `palette`, `alpha`, `undefined`, ...
  result<std::vector<std::string>> colors() const;
  /// The file's band (from 0) that holds the opacity of the others.
  result<std::optional<std::uint64_t>> alpha_band() const;
  /// GDAL's item NODATA_VALUES: a pixel with these values in all of the file's bands is missing.
  result<std::optional<std::vector<double>>> nodata_of_pixels() const;

 private:
  friend PENSTOCK_API georeference georeference_of(const array& from);
  class state;
  explicit georeference(std::shared_ptr<const state> made) noexcept : state_(std::move(made)) {}
  std::shared_ptr<const state> state_;
};

/// Reads the facts that the file of an image states about it. For local files, `<name>.aux.xml` is looked up; a damaged
/// one is ignored.
PENSTOCK_API georeference georeference_of(const array& from);

/// Which pixels of an image have a value, by GDAL's rules: those in the mask; in bands without a mask, those that are
/// not nodata; without both, those that the alpha band does not make fully transparent.
struct pixel_validity {
  /// Has the pixels of the image: not 0 if the pixel has a value. One band for all of the image's bands, or one for
  /// each. nullopt: the image has neither a mask nor an alpha band that masks.
  std::optional<array> mask;
  bool is_alpha = false;  ///< `mask` is the image's alpha band
  /// Which of the array's bands is the alpha band; it is never masked.
  std::optional<std::uint64_t> alpha_band;
  /// For each of the array's bands: whether `mask` applies to it.
  std::vector<bool> masked;
  /// For each of the array's bands: the value of pixels without a value; nullopt if the band is masked.
  std::vector<std::optional<nodata_value>> nodata;
  /// GDAL's NODATA_VALUES instead of a mask, for all bands: a pixel is missing if each band of the file (not of the
  /// array) has its value; nullopt for a value that the type cannot hold. Empty: the file has no such list.
  std::vector<std::optional<nodata_value>> nodata_of_pixels;

  /// Whether pixels may be without a value.
  bool is_partial() const noexcept;
  /// The mask has one band for all bands of the image.
  bool mask_is_of_all_bands() const noexcept;
};

/// Determines how the missing pixels of an image are recognised. Opens the image of the mask, if there is one.
/// \error corrupt_data  By tag. \error As of `open_tiff`.
PENSTOCK_API result<pixel_validity> validity_of(const array& image, const georeference& of);

}  // namespace penstock::inline v0
