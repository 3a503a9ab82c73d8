#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "codec/filters/number.h"
#include "codec/tiff/tiff_samples.h"

namespace penstock::inline v0 {

/// What a codec decodes, in numbers: for engines that run it elsewhere than in `byte_codec::decode`.
///
/// Which members count, `what` says. Pointers and spans are the codec's.
struct portable_form {
  enum class kind : std::uint8_t {
    tiff_lzw,
    tiff_packbits,
    tiff_deflate,  ///< a zlib stream, which may hold more than is needed
    tiff_zstd,
    reversed_bits,  ///< of each byte
    tiff_samples,   ///< samples, picked
    delta,          ///< decoded, encoded: integers that wrap
    packed_bits,    ///< one bit for each byte of a boolean: highest_first, padding
  };
  /// Where the byte stands that counts the bits of padding.
  enum class padding_place : std::uint8_t { none, first_byte, last_byte };

  kind what;
  const tiff_samples* samples = nullptr;
  std::span<const std::uint32_t> picked = {};
  stored_number decoded = {}, encoded = {};
  bool highest_first = false;
  padding_place padding = padding_place::none;
};

/// A codec that can say so.
class has_portable_form {
 public:
  virtual ~has_portable_form() = default;
  /// Nothing: with these settings it cannot.
  virtual std::optional<portable_form> portable() const = 0;
};

}  // namespace penstock::inline v0
