#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <penstock/extend/codec.h>
#include <penstock/result.h>
#include "codec/tiff/tiff_samples.h"

namespace penstock::inline v0 {

/// The strip or tile that a stream of a picture codec must fill, and TIFF's additional data for the stream.
struct tiff_picture {
  std::uint64_t rows = 0, width = 0;
  std::uint32_t samples = 1, bits = 8;
  sample_kind kind = sample_kind::unsigned_integer;
  std::uint16_t compression = 0;  ///< TIFF's number
  std::string_view name;          ///< of the compression, for messages; empty: none
  bool ycbcr = false;             ///< JPEG: the stream has luminance and chroma, which become RGB
  std::uint16_t subsampling[2] = {2, 2};
  std::vector<std::byte> jpeg_tables;
  std::uint32_t fax_options = 0;       ///< T4Options or T6Options
  std::uint32_t lerc_compression = 0;  ///< of its stream: 0 none, 1 deflate, 2 zstd

  /// Bytes of one row, which begins on a byte.
  std::uint64_t row_bytes() const noexcept { return (width * samples * bits + 7) / 8; }
  std::uint64_t bytes() const noexcept { return rows * row_bytes(); }
};

/// Codecs that other libraries decode, one strip or tile a call: to native items in the order (row, column, sample). A
/// stream must have the size of its strip or tile, which is checked before memory is allocated for its pixels; a
/// library's additional memory is bounded by a multiple of it. All of them only decode.
///
/// \error unsupported  The compression is not readable in this build, or not with such samples.

/// JPEG, CCITT RLE, G3 and G4, WebP, LERC: through libtiff, as a TIFF of this one strip in memory.
result<std::shared_ptr<const byte_codec>> make_tiff_library_codec(tiff_picture picture);
/// Codestreams and JP2 files, through OpenJPEG: integers of 1 to 32 bits. Colours are not converted. Source: ISO/IEC
/// 15444-1, annex A.
result<std::shared_ptr<const byte_codec>> make_tiff_jpeg2000_codec(tiff_picture picture);
/// Through libjxl: unsigned integers of 8 and 16 bits, floats of 16 and 32. Source: ISO/IEC 18181.
result<std::shared_ptr<const byte_codec>> make_tiff_jpegxl_codec(tiff_picture picture);

/// The reverse, for tiles of uint8: complete JPEG streams, each with its tables. Three samples are RGB, stored as
/// luminance and chroma of half the width and height; one, two and four are stored unchanged.
/// \error unsupported  Other samples; libtiff is not available in this build or on this machine, or does not support
/// JPEG.
result<std::shared_ptr<const byte_codec>> make_tiff_jpeg_encoder(const tiff_samples& samples, int quality);

/// The error of a build without the library.
/// \param why  The missing part on this machine.
error unreadable_picture(const tiff_picture& picture, std::string_view why = "");
/// Why such a stream of `encoded_bytes` cannot fill the picture, judged by its number of pixels alone; 2^31 bytes at
/// most.
result<> check_picture_size(const tiff_picture& picture);

}  // namespace penstock::inline v0
