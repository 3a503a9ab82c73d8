#pragma once

// The CRC-32C of encoded bytes, appended to them in little-endian order, as Zarr's codec `crc32c` does.

#include "cuda/decode/checksums.h"
#include "cuda/encode/encode_parts.h"

namespace penstock::inline v0::device {

/// Run by one warp: writes the checksum of the `encoded_bytes` of part `turn` after them, which makes them four bytes
/// longer. A part that did not fit remains so; a part without space for the checksum is marked as not fitting.
PENSTOCK_DEVICE void append_crc32c_warp(const encode_wave& wave, std::uint32_t turn, warp lanes) {
  const encode_part& part = pointer<const encode_part>(wave.parts)[turn];
  std::uint32_t& encoded = pointer<std::uint32_t>(wave.encoded_bytes)[turn];
  auto* const target = pointer<std::uint8_t>(part.target);
  const std::uint32_t size = encoded;
  if (size == kDoesNotFit) return;
  const bool fits = size <= part.target_bytes && part.target_bytes - size >= 4;
  const std::uint32_t crc = fits ? crc_by_warp({target, size}, kCrc32c, lanes) : 0;
  lanes.sync();  // all lanes know the size
  lanes.once_alone([&] {
    encoded = fits ? size + 4 : kDoesNotFit;
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = 0; fits && i < 4; ++i) target[size + i] = static_cast<std::uint8_t>(crc >> (8 * i));
  });
}

}  // namespace penstock::inline v0::device
