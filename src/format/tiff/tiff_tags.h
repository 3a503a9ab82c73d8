#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <penstock/result.h>

namespace penstock::inline v0 {

/// The tags that decoding needs. Source: TIFF 6.0 and its technical notes; GDAL's GeoTIFF page for 42112 and 42113.
enum class tiff_id : std::uint16_t {
  new_subfile_type = 254,
  image_width = 256,
  image_length = 257,
  bits_per_sample = 258,
  compression = 259,
  photometric = 262,
  fill_order = 266,
  image_description = 270,
  strip_offsets = 273,
  samples_per_pixel = 277,
  rows_per_strip = 278,
  strip_byte_counts = 279,
  planar_configuration = 284,
  t4_options = 292,
  t6_options = 293,
  predictor = 317,
  tile_width = 322,
  tile_length = 323,
  tile_offsets = 324,
  tile_byte_counts = 325,
  sub_ifds = 330,
  extra_samples = 338,
  sample_format = 339,
  jpeg_tables = 347,
  ycbcr_subsampling = 530,
  reference_black_white = 532,
  image_depth = 32997,
  gdal_metadata = 42112,
  gdal_nodata = 42113,
  lerc_parameters = 50674,
};

/// Bytes of one value of a type, or 0 for unknown types.
std::uint32_t tiff_type_bytes(std::uint16_t type) noexcept;

/// Reads numbers in a file's byte order.
template <class T>
T tiff_number(const std::byte* at, bool big_endian) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);
  if (big_endian == (std::endian::native == std::endian::big)) return value;
  if constexpr (sizeof(T) == 2) value = __builtin_bswap16(value);
  if constexpr (sizeof(T) == 4) value = __builtin_bswap32(value);
  if constexpr (sizeof(T) == 8) value = __builtin_bswap64(value);
  return value;
}

/// The value of index `i` of an integer type as a number; nothing for other types and for negative ones.
std::optional<std::uint64_t> tiff_integer(std::span<const std::byte> value, std::uint16_t type, std::uint64_t i,
                                          bool big_endian) noexcept;

/// An entry of a directory: the location of its value.
struct tiff_entry {
  std::uint16_t tag = 0;
  std::uint16_t type = 0;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;   ///< of all values
  std::uint64_t offset = 0;  ///< in the file; for small values within the directory itself
};

/// A directory's entries, by tag.
struct tiff_directory {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  ///< of the entry itself, without its values
  std::vector<tiff_entry> entries;
  const tiff_entry* find(tiff_id tag) const noexcept;
};

}  // namespace penstock::inline v0
