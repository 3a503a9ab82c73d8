#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include <penstock/extend/codec.h>
#include "base/buffer.h"
#include "codec/tiff/tiff_samples.h"

namespace penstock::inline v0 {

/// The most bytes that `encode_tiff_lzw` writes.
constexpr std::uint64_t max_tiff_lzw_bytes(std::uint64_t bytes) noexcept { return bytes + bytes / 2 + 64; }
/// LZW with the most significant bit first. Returns the number of bytes. Source: TIFF 6.0, section 13.
std::size_t encode_tiff_lzw(std::span<const std::byte> from, std::byte* to) noexcept;

/// The most bytes that `encode_tiff_packbits` writes for this many rows of one length.
constexpr std::uint64_t max_tiff_packbits_bytes(std::uint64_t rows, std::uint64_t row_bytes) noexcept {
  return rows * (row_bytes + row_bytes / 128 + 1);
}
/// Each row separately. Returns the number of bytes. Source: TIFF 6.0, section 9.
std::size_t encode_tiff_packbits(std::span<const std::byte> from, std::size_t row_bytes, std::byte* to) noexcept;

enum class tiff_encoding : std::uint8_t { none, packbits, lzw, deflate, zstd, lzma, jpeg };

/// The state of one worker for encoding tiles; reused from tile to tile.
struct tiff_encoder_room {
  explicit tiff_encoder_room(ledger* accounts) : items(accounts), predicted(accounts), encoded(accounts) {}
  buffer items, predicted, encoded;
};

/// Encodes tiles: predictor, byte order (always little-endian) or packed bits, compression. Immutable.
class tiff_tile_encoder {
 public:
  /// \param samples  No complex integers; of unsigned integers any number of bits, of others whole bytes. A mask's
  ///              items are 0 or not 0.
  /// \param level    For deflate 1 to 12 (default 6), zstd 1 to 22 (9), lzma 0 to 9 (6), JPEG 1 to 100
  ///                 (75).
  /// \error invalid_argument  A level that the compression does not have, or a predictor that the samples or the
  /// compression do not allow.
  /// \error unsupported  JPEG of such samples, or without libtiff.
  static result<tiff_tile_encoder> make(const tiff_samples& samples, tiff_encoding encoding, std::optional<int> level);

  /// Bytes of a tile's items.
  std::uint64_t item_bytes() const noexcept { return samples_.rows * samples_.width * samples_.samples * item_; }

  /// \param items    A tile's native items in the order (row, column, sample). May be changed.
  /// \param reserve  Bytes left free at the beginning and at the end of the result.
  /// \returns The encoded bytes, within `room`; `reserve` bytes before and after them may be written.
  /// \error invalid_argument  An item that needs more bits than its sample has.
  result<std::span<std::byte>> encode(std::span<std::byte> items, std::size_t reserve, tiff_encoder_room& room,
                                      worker_scratch& scratch) const;

 private:
  std::span<std::byte> predict(std::span<std::byte> items, std::span<std::byte> to, std::byte* work) const noexcept;
  result<std::span<std::byte>> pack(std::span<const std::byte> items, std::span<std::byte> to) const;
  bool packs() const noexcept { return samples_.bits != 8 * item_; }

  tiff_samples samples_;
  std::uint32_t item_ = 1;
  tiff_encoding encoding_ = tiff_encoding::none;
  int level_ = 0;
  std::shared_ptr<const byte_codec> compressor_;  // zstd, lzma and JPEG
};

}  // namespace penstock::inline v0
