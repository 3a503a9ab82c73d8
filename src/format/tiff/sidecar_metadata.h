#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/geo_values.h>

namespace penstock::inline v0 {

/// The values that GDAL takes from `<name>.aux.xml` instead of those in the TIFF itself.
struct sidecar_metadata {
  /// For one band; empty texts are absent.
  struct band {
    std::optional<double> nodata;
    metadata_items metadata;
    std::string description, unit, scale, offset;
  };

  std::string crs;  ///< WKT or another form that PROJ reads; empty: none
  std::optional<affine_transform> transform;
  metadata_items metadata;
  std::map<std::uint64_t, band> bands;  ///< from 0
  std::vector<ground_control_point> gcps;
  std::string gcps_crs;
  bool gcps_in_inches = false;  ///< columns and rows of the points are inches from the lower left corner (ESRI)
};

/// Parses GDAL's `PAMDataset`, or ESRI's `GeodataXform`. The result is empty for other documents and for those that are
/// not well-formed. Source: GDAL's page on PAM (https://gdal.org/en/stable/user/pam.html); GDALPamDataset::XMLInit.
sidecar_metadata parse_sidecar_metadata(std::string_view document);

/// The transform of a world file: six numbers, of the centre of the first pixel. Nothing if it is not a world file, or
/// maps all pixels to a line. Source: GDAL's page on world files.
std::optional<affine_transform> parse_world_file(std::string_view text);
/// The endings of the world files of `<stem><ending>`, in the order of the lookup.
std::vector<std::string> world_file_endings(std::string_view ending);

/// Coefficients in an `.RPB` file: statements `name = value;` and `name = (value, ...);`. Nothing unless all of them
/// exist; only the errors may be missing. Source: GDAL's gcore/mdreader.
std::optional<rational_polynomial> parse_rpb(std::string_view text);
/// The same for a file `_RPC.TXT`: lines `NAME: value unit`, coefficients as `NAME_1` to `NAME_20`.
std::optional<rational_polynomial> parse_rpc_text(std::string_view text);

/// Splits a file's name as Python's `os.path.splitext`: the ending begins with its dot; empty: there is none.
std::pair<std::string_view, std::string_view> split_ending(std::string_view name) noexcept;

}  // namespace penstock::inline v0
