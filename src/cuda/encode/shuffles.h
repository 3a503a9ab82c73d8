#pragma once

// Bytes and bits of items, one plane after the other: the reverse of cuda/decode/transforms.h. Each thread takes
// different items, and neighbouring threads write neighbouring words of each plane.

#include "cuda/decode/transforms.h"
#include "cuda/encode/encode_parts.h"

namespace penstock::inline v0::device {

/// Items of 2, 4 or 8 bytes whose places are aligned; per turn, 16 bytes of items, and 32 where an item has 8.
template <std::uint32_t Item>
PENSTOCK_DEVICE void shuffle_words(const std::uint8_t* from, std::uint8_t* to, std::uint32_t items,
                                   thread_share share) {
  constexpr std::uint32_t kItems = Item == 2 ? 8 : 4, kWords = Item * kItems / 4;
  for (std::uint32_t i = share.first; i < items / kItems; i += share.step) {
    std::uint32_t words[kWords], out[kWords];
    for (std::uint32_t w = 0; w < kWords; w += 4) load_words(words + w, from + kItems * Item * i + 4 * w);
    if constexpr (Item == 2) {
      for (std::uint32_t w = 0; w < 2; ++w) {
        out[w] = pick_bytes(words[2 * w], words[2 * w + 1], 0x6420);
        out[2 + w] = pick_bytes(words[2 * w], words[2 * w + 1], 0x7531);
      }
    } else {
      for (std::uint32_t half = 0; half < Item / 4; ++half) {
        for (std::uint32_t w = 0; w < 4; ++w) out[4 * half + w] = words[Item / 4 * w + half];
        transpose_bytes(out + 4 * half);
      }
    }
    constexpr std::uint32_t kPlaneWords = kItems / 4;
    for (std::uint32_t k = 0; k < Item; ++k)
      for (std::uint32_t w = 0; w < kPlaneWords; ++w)
        store_word(to + k * items + kItems * i + 4 * w, out[k * kPlaneWords + w]);
  }
}

/// Byte k of every item together, for k from 0; bytes that are not a whole item are copied to the end unchanged.
PENSTOCK_DEVICE void shuffle(const std::uint8_t* __restrict__ from, std::uint8_t* __restrict__ to, std::uint32_t bytes,
                             std::uint32_t item, thread_share share) {
  const std::uint32_t items = bytes / item, whole = items * item;
  const bool aligned = misalignment(from, 16) == 0 && misalignment(to, 4) == 0 && items % 8 == 0;
  if (aligned && item == 2) {
    shuffle_words<2>(from, to, items, share);
  } else if (aligned && item == 4) {
    shuffle_words<4>(from, to, items, share);
  } else if (aligned && item == 8) {
    shuffle_words<8>(from, to, items, share);
  } else {
    for (std::uint32_t i = share.first; i < items; i += share.step)
      for (std::uint32_t k = 0; k < item; ++k) to[k * items + i] = from[i * item + k];
  }
  for (std::uint32_t i = whole + share.first; i < bytes; i += share.step) to[i] = from[i];
}

/// Bit b of byte k of every item together, eight items a byte, over all whole multiples of eight items; the rest is
/// copied unchanged.
PENSTOCK_DEVICE void bitshuffle(const std::uint8_t* __restrict__ from, std::uint8_t* __restrict__ to,
                                std::uint32_t bytes, std::uint32_t item, thread_share share) {
  const std::uint32_t groups = bytes / item / 8, whole = groups * 8 * item;  // of eight items
  for (std::uint32_t i = share.first; i < groups; i += share.step) {
    for (std::uint32_t k = 0; k < item; ++k) {
      std::uint64_t bits = 0;
      for (std::uint32_t b = 0; b < 8; ++b) bits |= static_cast<std::uint64_t>(from[(8 * i + b) * item + k]) << (8 * b);
      bits = transpose_bits(bits);
      for (std::uint32_t b = 0; b < 8; ++b) to[(8 * k + b) * groups + i] = static_cast<std::uint8_t>(bits >> (8 * b));
    }
  }
  for (std::uint32_t i = whole + share.first; i < bytes; i += share.step) to[i] = from[i];
}

/// Run by one thread: its share of a part.
PENSTOCK_DEVICE void shuffle_thread(const shuffle_wave& wave, std::uint32_t block, std::uint32_t thread,
                                    std::uint32_t threads) {
  const encode_part& part = pointer<const encode_part>(wave.parts)[block / wave.blocks_per_part];
  const auto* const from = pointer<const std::uint8_t>(part.source);
  auto* const to = pointer<std::uint8_t>(part.target);
  const thread_share share{block % wave.blocks_per_part * threads + thread, wave.blocks_per_part * threads};
  if (wave.bits != 0) return bitshuffle(from, to, part.source_bytes, wave.item_bytes, share);
  shuffle(from, to, part.source_bytes, wave.item_bytes, share);
}

}  // namespace penstock::inline v0::device
