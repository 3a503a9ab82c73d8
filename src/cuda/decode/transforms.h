#pragma once

// What follows a compressor: bytes and bits of items back in their order. Every thread writes words of its own.

#include "cuda/decode/device.h"

namespace penstock::inline v0::device {

/// Which share of a part a thread works on: indexes `first`, `first + step`, and so on.
struct thread_share {
  std::uint32_t first;
  std::uint32_t step;
};

PENSTOCK_DEVICE void unshuffle(const std::uint8_t* from, std::uint8_t* to, std::uint32_t bytes, std::uint32_t item,
                               thread_share share) {
  const std::uint32_t items = bytes / item, whole = items * item;
  for (std::uint32_t i = share.first; i < items; i += share.step)
    for (std::uint32_t k = 0; k < item; ++k) to[i * item + k] = from[k * items + i];
  for (std::uint32_t i = whole + share.first; i < bytes; i += share.step) to[i] = from[i];
}

/// Eight bytes, each the same bit of eight items, become eight bytes of one item each.
PENSTOCK_DEVICE std::uint64_t transpose_bits(std::uint64_t x) {
  std::uint64_t t = (x ^ x >> 7) & 0x00aa00aa00aa00aau;
  x ^= t ^ t << 7;
  t = (x ^ x >> 14) & 0x0000cccc0000ccccu;
  x ^= t ^ t << 14;
  t = (x ^ x >> 28) & 0x00000000f0f0f0f0u;
  return x ^ t ^ t << 28;
}

PENSTOCK_DEVICE void unbitshuffle(const std::uint8_t* from, std::uint8_t* to, std::uint32_t bytes, std::uint32_t item,
                                  thread_share share) {
  const std::uint32_t groups = bytes / item / 8, whole = groups * 8 * item;  // of eight items
  for (std::uint32_t i = share.first; i < groups; i += share.step) {
    for (std::uint32_t k = 0; k < item; ++k) {
      std::uint64_t bits = 0;
      for (std::uint32_t b = 0; b < 8; ++b)
        bits |= static_cast<std::uint64_t>(from[(8 * k + b) * groups + i]) << (8 * b);
      bits = transpose_bits(bits);
      for (std::uint32_t b = 0; b < 8; ++b) to[(8 * i + b) * item + k] = static_cast<std::uint8_t>(bits >> (8 * b));
    }
  }
  for (std::uint32_t i = whole + share.first; i < bytes; i += share.step) to[i] = from[i];
}

PENSTOCK_DEVICE void swap_bytes(const std::uint8_t* from, std::uint8_t* to, std::uint32_t bytes, std::uint32_t item,
                                thread_share share) {
  const std::uint32_t items = bytes / item;
  for (std::uint32_t i = share.first; i < items; i += share.step) {
    const std::uint8_t* const source = from + i * item;
    std::uint8_t* const target = to + i * item;
    for (std::uint32_t k = 0; 2 * k < item; ++k) {  // both ends at once: the target may be the source
      const std::uint8_t low = source[k], high = source[item - 1 - k];
      target[k] = high;
      target[item - 1 - k] = low;
    }
  }
  for (std::uint32_t i = items * item + share.first; i < bytes; i += share.step) to[i] = from[i];
}

PENSTOCK_DEVICE void reverse_bits(const std::uint8_t* from, std::uint8_t* to, std::uint32_t bytes, thread_share share) {
  for (std::uint32_t i = share.first; i < bytes; i += share.step) {
    std::uint32_t x = from[i];
    x = (x & 0x0fu) << 4 | x >> 4;
    x = (x & 0x33u) << 2 | (x >> 2 & 0x33u);
    x = (x & 0x55u) << 1 | (x >> 1 & 0x55u);
    to[i] = static_cast<std::uint8_t>(x);
  }
}

/// Whether the byte that counts the padding is right; the sizes are.
PENSTOCK_DEVICE bool unpack_bits(const decode_part& part, thread_share share) {
  const auto* from = pointer<const std::uint8_t>(part.source);
  auto* const to = pointer<std::uint8_t>(part.target);
  const std::uint32_t how = part.parameter & 0xffffu, bits = part.target_bytes, padding = (8 - (bits & 7u)) & 7u;
  bool right = true;
  if ((how & kPaddingInFirstByte) != 0) right = *from++ == padding;
  if ((how & kPaddingInLastByte) != 0)
    right = pointer<const std::uint8_t>(part.source)[part.source_bytes - 1] == padding;
  for (std::uint32_t i = share.first; i < bits; i += share.step) {
    const std::uint32_t place = (how & kHighestBitFirst) != 0 ? 7 - (i & 7u) : i & 7u;
    to[i] = static_cast<std::uint8_t>(from[i / 8] >> place & 1);
  }
  return right;
}

/// What one thread of the transform kernel does.
PENSTOCK_DEVICE void transform_thread(const transform_wave& wave, std::uint32_t block, std::uint32_t thread,
                                      std::uint32_t threads) {
  const decode_part& part = pointer<const decode_part>(wave.parts)[block / wave.blocks_per_part];
  if (failed(wave.statuses, part.chunk)) return;
  const auto* const from = pointer<const std::uint8_t>(part.source);
  auto* const to = pointer<std::uint8_t>(part.target);
  const thread_share share{block % wave.blocks_per_part * threads + thread, wave.blocks_per_part * threads};
  const std::uint32_t item = part.parameter & 0xffffu;
  switch (static_cast<transform_kind>(part.parameter >> 16)) {
    case transform_kind::unshuffle:
      return unshuffle(from, to, part.target_bytes, item, share);
    case transform_kind::unbitshuffle:
      return unbitshuffle(from, to, part.target_bytes, item, share);
    case transform_kind::byte_swap:
      return swap_bytes(from, to, part.target_bytes, item, share);
    case transform_kind::reverse_bits:
      return reverse_bits(from, to, part.target_bytes, share);
    case transform_kind::unpack_bits:
      if (!unpack_bits(part, share) && share.first == 0)
        report(wave.statuses, part.chunk, chunk_status::corrupt_stream);
      return;
    case transform_kind::copy:
      break;
  }
  for (std::uint32_t i = share.first; i < part.target_bytes; i += share.step) to[i] = from[i];
}

}  // namespace penstock::inline v0::device
