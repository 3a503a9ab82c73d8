#pragma once

// A match that repeats the last few bytes depends on the bytes right before it, and those on the sequence before:
// followed one by one, such chains are as long as the frame. But the effect of a sequence on the last eight bytes is a
// function (each byte afterwards is either a known one or one of the eight before), functions can be composed, and
// composition is associative: a scan gives every lane the eight bytes that its match repeats.

#include <cstdint>

#include "cuda/decode/warp.h"

namespace penstock::inline v0::device {

/// Bytes `x[selection byte j & 7]` for j = 0 to 7.
PENSTOCK_DEVICE std::uint64_t gather_bytes(std::uint64_t x, std::uint64_t selection) {
#if defined(__CUDA_ARCH__)
  const auto pick = [&](std::uint32_t indexes) {
    indexes &= 0x07070707u;
    const std::uint32_t selector = __byte_perm(indexes | indexes >> 4, 0, 0x4420);
    return __byte_perm(static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(x >> 32), selector);
  };
  return pick(static_cast<std::uint32_t>(selection)) |
         static_cast<std::uint64_t>(pick(static_cast<std::uint32_t>(selection >> 32))) << 32;
#else
  std::uint64_t out = 0;
  for (int j = 0; j < 64; j += 8) out |= ((x >> (8 * ((selection >> j) & 7))) & 255) << j;
  return out;
#endif
}

/// A function from the eight bytes before a sequence to the eight bytes before the next; the highest byte is the last
/// one.
struct alignas(16) byte_window {
  std::uint64_t value;      ///< the known bytes, 0 elsewhere
  std::uint64_t selection;  ///< by byte: 0x80 for a known one, otherwise the index of a byte before

  static constexpr std::uint64_t kSame = 0x0706050403020100u, kKnown = 0x8080808080808080u;

#if defined(__CUDA_ARCH__)
  PENSTOCK_DEVICE byte_window shuffled_up(int distance) const {
    return {__shfl_up_sync(0xffffffffu, value, static_cast<unsigned>(distance)),
            __shfl_up_sync(0xffffffffu, selection, static_cast<unsigned>(distance))};
  }
#endif

  /// This function after `before`.
  PENSTOCK_DEVICE byte_window after(const byte_window& before) const {
    const std::uint64_t known = ((selection & kKnown) >> 7) * 255;
    return {value | (gather_bytes(before.value, selection) & ~known),
            (selection & kKnown) | (gather_bytes(before.selection, selection) & ~known)};
  }

  /// Applies it to `bytes`.
  PENSTOCK_DEVICE std::uint64_t of(std::uint64_t bytes) const {
    const std::uint64_t known = ((selection & kKnown) >> 7) * 255;
    return value | (gather_bytes(bytes, selection) & ~known);
  }

  /// Appends the last `count` (or 8) bytes of `bytes`.
  PENSTOCK_DEVICE static byte_window of_known(std::uint64_t bytes, std::uint32_t count) {
    if (count == 0) return {0, kSame};
    if (count >= 8) return {bytes, kKnown};
    const std::uint64_t high = ~std::uint64_t{0} << (64 - 8 * count);
    return {bytes & high, (kSame >> (8 * count)) | (kKnown & high)};
  }

  /// Appends a match of `length` bytes that repeats the last `offset` bytes, 1 to 8.
  PENSTOCK_DEVICE static byte_window of_match(std::uint32_t offset, std::uint32_t length) {
    std::uint64_t selection = 0;
    std::uint32_t phase = 0;
    if (length > 8) {
      const std::uint32_t cut = length - 8;
      phase = (offset & (offset - 1)) == 0 ? cut & (offset - 1) : cut % offset;
    }
    for (std::uint32_t j = 0; j < 8; ++j) {
      std::uint32_t from = length + j;  // still one of the bytes before
      if (from >= 8) {
        from = 8 - offset + phase;
        phase = phase + 1 == offset ? 0 : phase + 1;
      }
      selection |= static_cast<std::uint64_t>(from) << (8 * j);
    }
    return {0, selection};
  }
};

}  // namespace penstock::inline v0::device
