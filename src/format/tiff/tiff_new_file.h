#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <penstock/result.h>
#include <penstock/tiff_header.h>

namespace penstock::inline v0 {

/// Bytes before each tile (its length) and after it (its last four bytes again). Source: GDAL's page on its COG driver,
/// "Cloud Optimized GeoTIFF: low-level".
inline constexpr std::uint64_t kTileLeaderBytes = 4, kTileTrailerBytes = 4;

/// Fills leader and trailer of a tile, which are before and after `tile`.
void mark_tile(std::span<std::byte> tile) noexcept;

/// A tag whose values are little-endian numbers.
tiff_tag short_tag(std::uint16_t tag, std::span<const std::uint16_t> values);
tiff_tag long_tag(std::uint16_t tag, std::uint32_t value);

/// A directory to be written.
struct tiff_new_directory {
  std::vector<tiff_tag> tags;  ///< little-endian, without the arrays of tiles, in any order, none twice
  /// Encoded bytes of each tile without leader and trailer, in the file's order; 0: the tile does not exist.
  std::vector<std::uint32_t> tile_bytes;
};

/// The beginning of a Cloud Optimized GeoTIFF: header, GDAL's structural metadata, and all directories, with their
/// arrays of tiles after the last of them. The tiles follow: those of the last directory first, each with leader and
/// trailer, in the order of their numbers.
///
/// \param directories  The image, then its overviews, the largest first.
/// \param big          BigTIFF.
/// \param planar       Tiles belong to one band each.
/// \error unsupported  The file is too large for a classic TIFF.
/// Source: TIFF 6.0; "The BigTIFF file format" (awaresystems); GDAL's page on its COG driver.
result<std::vector<std::byte>> make_tiff_begin(std::span<const tiff_new_directory> directories, bool big, bool planar);

/// Whether such a file needs BigTIFF.
bool needs_big_tiff(std::span<const tiff_new_directory> directories, bool planar) noexcept;

}  // namespace penstock::inline v0
