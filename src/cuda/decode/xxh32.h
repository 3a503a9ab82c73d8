#pragma once

// XXH32, as in LZ4 frames (the algorithm: github.com/Cyan4973/xxHash, doc/xxhash_spec.md). Four lanes process the
// stripes, all lanes get the result.

#include "cuda/decode/warp.h"

namespace penstock::inline v0::device {

namespace xxh32 {

inline constexpr std::uint32_t kPrime1 = 0x9E3779B1u, kPrime2 = 0x85EBCA77u, kPrime3 = 0xC2B2AE3Du,
                               kPrime4 = 0x27D4EB2Fu, kPrime5 = 0x165667B1u;

PENSTOCK_DEVICE std::uint32_t turn(std::uint32_t x, int bits) { return x << bits | x >> (32 - bits); }

PENSTOCK_DEVICE std::uint32_t load(const std::uint8_t* at) {
  return misalignment(at, 4) == 0 ? load_word(at) : load_bytes(at, 4);
}

/// Accumulator `which` (0 to 3) after all whole stripes of 16 bytes.
PENSTOCK_DEVICE std::uint32_t accumulate(byte_view content, int which) {
  std::uint32_t accumulator = which == 0 ? kPrime1 + kPrime2 : which == 1 ? kPrime2 : which == 2 ? 0 : 0 - kPrime1;
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t stripe = 0; stripe < content.size / 16; ++stripe)
    accumulator = turn(accumulator + load(content.begin + 16 * stripe + 4 * which) * kPrime2, 13) * kPrime1;
  return accumulator;
}

/// The hash with seed 0, from the four accumulators.
PENSTOCK_DEVICE std::uint32_t finish(byte_view content, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                     std::uint32_t d) {
  std::uint32_t hash = content.size >= 16 ? turn(a, 1) + turn(b, 7) + turn(c, 12) + turn(d, 18) : kPrime5;
  hash += content.size;
  const std::uint8_t* at = content.begin + content.size / 16 * 16;
  std::uint32_t left = content.size % 16;
  PENSTOCK_SMALL_LOOP
  for (; left >= 4; left -= 4, at += 4) hash = turn(hash + load_bytes(at, 4) * kPrime3, 17) * kPrime4;
  PENSTOCK_SMALL_LOOP
  for (; left > 0; --left, ++at) hash = turn(hash + *at * kPrime5, 11) * kPrime1;
  hash = (hash ^ hash >> 15) * kPrime2;
  hash = (hash ^ hash >> 13) * kPrime3;
  return hash ^ hash >> 16;
}

}  // namespace xxh32

/// XXH32 of `content`, by all lanes.
PENSTOCK_DEVICE_CALL std::uint32_t xxh32_by_warp(byte_view content, warp lanes) {
  per_lane<std::uint32_t> accumulators;
  lanes.each_alone([&](int lane) { accumulators[lane] = lane < 4 ? xxh32::accumulate(content, lane) : 0; });
  return xxh32::finish(content, lanes.from(accumulators, 0), lanes.from(accumulators, 1), lanes.from(accumulators, 2),
                       lanes.from(accumulators, 3));
}

}  // namespace penstock::inline v0::device
