#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/result.h>
#include <penstock/tiff_header.h>
#include "codec/tiff/tiff_samples.h"
#include "format/tiff/tiff_tags.h"

namespace penstock::inline v0 {

/// Source: TIFF 6.0 and the registries of libtiff and GDAL.
enum class tiff_compression : std::uint16_t {
  none = 1,
  ccitt_rle = 2,
  ccitt_fax3 = 3,
  ccitt_fax4 = 4,
  lzw = 5,
  old_jpeg = 6,
  jpeg = 7,
  adobe_deflate = 8,
  ccitt_rlew = 32771,
  packbits = 32773,
  deflate = 32946,
  aperio_ycbcr = 33003,
  aperio_rgb = 33005,
  jpeg2000 = 34712,
  lerc = 34887,
  lzma = 34925,
  zstd = 50000,
  webp = 50001,
  jpegxl = 50002,
  dng_jpegxl = 52546,
};

/// The stream is one whole picture of the strip or tile, which has a byte order of its own.
bool is_picture(tiff_compression compression) noexcept;

/// Whether the Predictor tag is used: as in libtiff, not for PackBits and uncompressed data.
bool has_predictors(tiff_compression compression) noexcept;

/// `lzw`, `deflate`, ...; the number as text if it has no name here.
std::string_view compression_name(std::uint16_t compression) noexcept;

/// A strided array of integers in the file: offsets or byte counts of tiles.
struct tiff_array {
  std::uint64_t offset = 0, count = 0;
  std::uint32_t width = 0;  ///< bytes of a number; 0: the array does not exist
};

/// The description of the pixels in one directory, checked.
struct tiff_image {
  std::uint64_t width = 0, height = 0;
  std::uint32_t samples = 1, bits = 1;
  sample_kind kind = sample_kind::unsigned_integer;
  std::uint16_t compression = 1;
  std::uint64_t photometric = 0;
  std::uint32_t predictor = 1;
  bool planar = false, tiled = false, reversed_bits = false, big_endian = false;
  bool mask = false;                              ///< is read as 0 and 255
  std::uint64_t cell_width = 0, cell_height = 0;  ///< of a tile, or of a strip
  tiff_array offsets, byte_counts;
  std::string nodata;  ///< as in the file: empty if it is absent
  std::vector<std::byte> jpeg_tables;
  std::uint16_t subsampling[2] = {2, 2};  ///< of chroma, across and down
  std::uint32_t fax_options = 0;          ///< T4Options or T6Options
  std::uint32_t lerc_compression = 0;     ///< 0 none, 1 deflate, 2 zstd

  /// \error corrupt_data  A tag that is missing or contradicts another. \error unsupported  By name.
  static result<tiff_image> read(const tiff_details& from, const tiff_directory& directory);

  std::uint64_t cells_down() const noexcept { return (height - 1) / cell_height + 1; }
  std::uint64_t cells_across() const noexcept { return (width - 1) / cell_width + 1; }
};

}  // namespace penstock::inline v0
