#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <penstock/extend/codec.h>
#include "codec/filters/number.h"
#include "codec/tiff/tiff_samples.h"

namespace penstock::inline v0 {

/// The operation of a codec on its bytes, as data: all that an engine needs to run it outside of `byte_codec`.
///
/// `what` determines which members are used. Pointers and spans belong to the codec.
struct device_form {
  enum class kind : std::uint8_t {
    other_settings,  ///< devices have the codec, but not with these settings: the host runs it
    zstd,            ///< checksum and level: of the encoder
    lz4,             ///< four bytes of size, one block
    blosc,
    zlib,
    gzip,
    crc32c,   ///< after the content
    shuffle,  ///< item_bytes
    hdf5_bitshuffle,
    tiff_lzw,
    tiff_packbits,
    tiff_deflate,   ///< a zlib stream, which may hold more than is needed
    reversed_bits,  ///< of each byte
    tiff_samples,   ///< samples, picked
    delta,          ///< decoded, encoded: integers that wrap
    packed_bits,    ///< one bit for each byte of a boolean: highest_first, padding
  };
  /// Which byte holds the number of padding bits.
  enum class padding_place : std::uint8_t { none, first_byte, last_byte };
  /// The compressor inside hdf5_bitshuffle.
  enum class block_codec : std::uint8_t { none, lz4, zstd };

  kind what;
  bool encodes = false;  ///< the description in `kind` is sufficient for an encoder too
  bool checksum = false;
  std::int64_t level = 0;
  std::uint32_t item_bytes = 0;
  std::uint32_t block_items = 0;  ///< of hdf5_bitshuffle; 0: the filter's own choice
  block_codec inside = block_codec::none;
  const tiff_samples* samples = nullptr;
  std::span<const std::uint32_t> picked = {};
  stored_number decoded = {}, encoded = {};
  bool highest_first = false;
  padding_place padding = padding_place::none;

  static device_form of(kind what) noexcept {
    device_form out{};
    out.what = what;
    return out;
  }
  /// A form that encoders of a device can use, too.
  static device_form both_ways(kind what) noexcept {
    device_form out = of(what);
    out.encodes = true;
    return out;
  }
};

/// The longest item that devices shuffle.
inline constexpr std::uint64_t kMostDeviceItemBytes = 65535;

}  // namespace penstock::inline v0
