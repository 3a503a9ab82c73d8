#pragma once

// Transforms after a compressor: bytes and bits of items are put in their order. Every thread writes its own words.

#include "cuda/decode/device.h"

namespace penstock::inline v0::device {

/// The share of a part that a thread processes: indexes `first`, `first + step`, and so on.
struct thread_share {
  std::uint32_t first;
  std::uint32_t step;
};

/// Four words at an address that is a multiple of 16.
PENSTOCK_DEVICE void store_words(std::uint8_t* at, const std::uint32_t* words) {
#if defined(__CUDA_ARCH__)
  *reinterpret_cast<uint4*>(at) = make_uint4(words[0], words[1], words[2], words[3]);
#else
  assert(misalignment(at, 16) == 0);
  std::memcpy(at, words, 16);
#endif
}

/// Loads four words from an address that is a multiple of 16.
PENSTOCK_DEVICE void load_words(std::uint32_t* words, const std::uint8_t* at) {
#if defined(__CUDA_ARCH__)
  const uint4 all = *reinterpret_cast<const uint4*>(at);
  words[0] = all.x;
  words[1] = all.y;
  words[2] = all.z;
  words[3] = all.w;
#else
  assert(misalignment(at, 16) == 0);
  std::memcpy(words, at, 16);
#endif
}

/// Transposes the 4 x 4 bytes of four words.
PENSTOCK_DEVICE void transpose_bytes(std::uint32_t* words) {
  const std::uint32_t low01 = pick_bytes(words[0], words[1], 0x5140), high01 = pick_bytes(words[0], words[1], 0x7362);
  const std::uint32_t low23 = pick_bytes(words[2], words[3], 0x5140), high23 = pick_bytes(words[2], words[3], 0x7362);
  words[0] = pick_bytes(low01, low23, 0x5410);
  words[1] = pick_bytes(low01, low23, 0x7632);
  words[2] = pick_bytes(high01, high23, 0x5410);
  words[3] = pick_bytes(high01, high23, 0x7632);
}

/// Items of 2 bytes or of whole words at aligned addresses: all words of a turn are loaded before the first is written,
/// so that a thread waits for memory once. Four items per turn, or eight of 2 bytes.
template <std::uint32_t Item>
PENSTOCK_DEVICE void unshuffle_words(const std::uint8_t* from, std::uint8_t* to, std::uint32_t items,
                                     thread_share share) {
  constexpr std::uint32_t kItems = Item == 2 ? 8 : 4, kWords = Item * kItems / 4;
  for (std::uint32_t i = share.first; i < items / kItems; i += share.step) {
    std::uint32_t words[kWords], out[kWords];
    std::uint32_t at = kItems * i;  // a sum: the products of `k` and `items` would take a register each
    for (std::uint32_t k = 0; k < Item; ++k) {
      for (std::uint32_t w = 0; w < kItems / 4; ++w) words[k * (kItems / 4) + w] = load_word(from + at + 4 * w);
      at += items;
    }
    if constexpr (Item == 2) {
      for (std::uint32_t w = 0; w < 2; ++w) {
        out[2 * w] = pick_bytes(words[w], words[2 + w], 0x5140);
        out[2 * w + 1] = pick_bytes(words[w], words[2 + w], 0x7362);
      }
    } else {
      for (std::uint32_t part = 0; part < Item / 4; ++part) {  // a word of each item
        transpose_bytes(words + 4 * part);
        for (std::uint32_t w = 0; w < 4; ++w) out[Item / 4 * w + part] = words[4 * part + w];
      }
    }
    for (std::uint32_t w = 0; w < kWords; w += 4) store_words(to + kItems * Item * i + 4 * w, out + w);
  }
}

inline constexpr std::uint32_t kMovedBytes = 8;

/// Moves eight bytes, each `step` after the one before: all are loaded before the first is written, so that a thread
/// waits for memory once.
PENSTOCK_DEVICE void move_eight(const std::uint8_t* from, std::uint32_t step, std::uint8_t* to, std::uint32_t to_step) {
  std::uint8_t bytes[kMovedBytes];
  for (std::uint32_t j = 0; j < kMovedBytes; ++j, from += step) bytes[j] = *from;  // products would take registers
  for (std::uint32_t j = 0; j < kMovedBytes; ++j, to += to_step) *to = bytes[j];
}

/// Items of any size at any address: a byte of each of eight items at a time, or eight bytes of a large item.
PENSTOCK_DEVICE void unshuffle_bytes(const std::uint8_t* from, std::uint8_t* to, std::uint32_t items,
                                     std::uint32_t item, thread_share share) {
  std::uint32_t i = share.first;
  if (item < kMovedBytes) {
    for (; i < items && items - i > (kMovedBytes - 1) * share.step; i += kMovedBytes * share.step) {
      PENSTOCK_SMALL_LOOP
      for (std::uint32_t k = 0; k < item; ++k)
        move_eight(from + k * items + i, share.step, to + i * item + k, share.step * item);
    }
  }
  for (; i < items; i += share.step) {
    std::uint32_t k = 0;
    PENSTOCK_SMALL_LOOP
    for (; k + kMovedBytes <= item; k += kMovedBytes) move_eight(from + k * items + i, items, to + i * item + k, 1);
    PENSTOCK_SMALL_LOOP
    for (; k < item; ++k) to[i * item + k] = from[k * items + i];
  }
}

PENSTOCK_DEVICE void unshuffle(const std::uint8_t* __restrict__ from, std::uint8_t* __restrict__ to,
                               std::uint32_t bytes, std::uint32_t item, thread_share share) {
  const std::uint32_t items = bytes / item, whole = items * item;
  const bool aligned = misalignment(from, 4) == 0 && misalignment(to, 16) == 0 && items % 8 == 0;
  if (aligned && item == 2) {
    unshuffle_words<2>(from, to, items, share);
  } else if (aligned && item == 4) {
    unshuffle_words<4>(from, to, items, share);
  } else if (aligned && item == 8) {
    unshuffle_words<8>(from, to, items, share);
  } else if (aligned && item == 12) {
    unshuffle_words<12>(from, to, items, share);
  } else if (aligned && item == 16) {
    unshuffle_words<16>(from, to, items, share);
  } else {
    unshuffle_bytes(from, to, items, item, share);
  }
  for (std::uint32_t i = whole + share.first; i < bytes; i += share.step) to[i] = from[i];
}

/// Bytes that no step changes: 16 bytes at once if source and target have the same alignment.
PENSTOCK_DEVICE void copy_bytes(const std::uint8_t* __restrict__ from, std::uint8_t* __restrict__ to,
                                std::uint32_t bytes, thread_share share) {
  std::uint32_t head = (16 - misalignment(to, 16)) & 15u;
  if (misalignment(from, 16) != misalignment(to, 16) || head > bytes) head = bytes;
  const std::uint32_t whole = (bytes - head) / 16;
  for (std::uint32_t i = share.first; i < head; i += share.step) to[i] = from[i];
  for (std::uint32_t i = share.first; i < whole; i += share.step) {
    std::uint32_t words[4];
    load_words(words, from + head + 16 * i);
    store_words(to + head + 16 * i, words);
  }
  for (std::uint32_t i = head + 16 * whole + share.first; i < bytes; i += share.step) to[i] = from[i];
}

/// Transposes 8 x 8 bits: eight bytes, each the same bit of eight items, become one byte of each item.
PENSTOCK_DEVICE std::uint64_t transpose_bits(std::uint64_t x) {
  std::uint64_t t = (x ^ x >> 7) & 0x00aa00aa00aa00aau;
  x ^= t ^ t << 7;
  t = (x ^ x >> 14) & 0x0000cccc0000ccccu;
  x ^= t ^ t << 14;
  t = (x ^ x >> 28) & 0x00000000f0f0f0f0u;
  return x ^ t ^ t << 28;
}

/// The same for four times eight items: word b of `words` has bit b of them. Byte j of words 2g and 2g+1 of `out`,
/// taken together, becomes item 8g+j.
PENSTOCK_DEVICE void transpose_bits(std::uint32_t* words, std::uint32_t* out) {
  transpose_bytes(words);
  transpose_bytes(words + 4);
  for (std::uint32_t g = 0; g < 4; ++g) {
    std::uint32_t halves[2] = {words[g], words[4 + g]};
    for (std::uint32_t& x : halves) {
      std::uint32_t t = (x ^ x >> 7) & 0x00aa00aau;
      x ^= t ^ t << 7;
      t = (x ^ x >> 14) & 0x0000ccccu;
      x ^= t ^ t << 14;
    }
    out[2 * g] = (halves[0] & 0x0f0f0f0fu) | (halves[1] << 4 & 0xf0f0f0f0u);
    out[2 * g + 1] = (halves[0] >> 4 & 0x0f0f0f0fu) | (halves[1] & 0xf0f0f0f0u);
  }
}

/// Items of 1, 2, 4 or 8 bytes at aligned addresses, 32 of them per turn: a word of each bit's plane is loaded before
/// the first item is written; for items of 8 bytes, first the planes of the lower four bytes.
template <std::uint32_t Item>
PENSTOCK_DEVICE void unbitshuffle_words(const std::uint8_t* from, std::uint8_t* to, std::uint32_t groups,
                                        thread_share share) {
  constexpr std::uint32_t kBytes = Item < 4 ? Item : 4;  // of an item at a time
  for (std::uint32_t i = share.first; i < groups / 4; i += share.step) {
    std::uint8_t* const target = to + 32 * Item * i;
    for (std::uint32_t begin = 0; begin < Item; begin += kBytes) {
      std::uint32_t planes[8 * kBytes], items[8 * kBytes];
      for (std::uint32_t plane = 0; plane < 8 * kBytes; ++plane)
        planes[plane] = load_word(from + (8 * begin + plane) * groups + 4 * i);
      for (std::uint32_t k = 0; k < kBytes; ++k) transpose_bits(planes + 8 * k, items + 8 * k);
      if constexpr (Item == 1) {
        for (std::uint32_t w = 0; w < 8; w += 4) store_words(target + 4 * w, items + w);
      } else if constexpr (Item == 2) {
        for (std::uint32_t w = 0; w < 8; w += 2) {
          const std::uint32_t out[4] = {
              pick_bytes(items[w], items[8 + w], 0x5140), pick_bytes(items[w], items[8 + w], 0x7362),
              pick_bytes(items[w + 1], items[9 + w], 0x5140), pick_bytes(items[w + 1], items[9 + w], 0x7362)};
          store_words(target + 8 * w, out);
        }
      } else {
        for (std::uint32_t w = 0; w < 8; ++w) {
          std::uint32_t out[4] = {items[w], items[8 + w], items[16 + w], items[24 + w]};
          transpose_bytes(out);
          if constexpr (Item == 4) {
            store_words(target + 16 * w, out);
          } else {
            for (std::uint32_t j = 0; j < 4; ++j) store_word(target + 8 * (4 * w + j) + begin, out[j]);
          }
        }
      }
    }
  }
}

PENSTOCK_DEVICE void unbitshuffle(const std::uint8_t* __restrict__ from, std::uint8_t* __restrict__ to,
                                  std::uint32_t bytes, std::uint32_t item, thread_share share) {
  const std::uint32_t groups = bytes / item / 8, whole = groups * 8 * item;  // of eight items
  const bool aligned = misalignment(from, 4) == 0 && misalignment(to, 16) == 0 && groups % 4 == 0;
  const bool by_words = aligned && (item == 1 || item == 2 || item == 4 || item == 8);
  if (by_words && item == 1) unbitshuffle_words<1>(from, to, groups, share);
  if (by_words && item == 2) unbitshuffle_words<2>(from, to, groups, share);
  if (by_words && item == 4) unbitshuffle_words<4>(from, to, groups, share);
  if (by_words && item == 8) unbitshuffle_words<8>(from, to, groups, share);
  for (std::uint32_t i = share.first; i < groups && !by_words; i += share.step) {
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

/// Reverses the items of 2, 4 or 8 bytes in 16 bytes.
PENSTOCK_DEVICE void swap_words(std::uint32_t* words, std::uint32_t item) {
  for (std::uint32_t w = 0; w < 4; ++w) words[w] = pick_bytes(words[w], words[w], item == 2 ? 0x2301 : 0x0123);
  if (item != 8) return;
  for (std::uint32_t w = 0; w < 4; w += 2) {
    const std::uint32_t low = words[w];
    words[w] = words[w + 1];
    words[w + 1] = low;
  }
}

/// Reverses the bytes of each item. The target may be the source.
PENSTOCK_DEVICE void swap_bytes(const std::uint8_t* from, std::uint8_t* to, std::uint32_t bytes, std::uint32_t item,
                                thread_share share) {
  const std::uint32_t items = bytes / item;
  const bool aligned = misalignment(from, 16) == 0 && misalignment(to, 16) == 0;
  const std::uint32_t by_words = aligned && (item == 2 || item == 4 || item == 8) ? bytes / 16 : 0;  // of 16 bytes each
  for (std::uint32_t i = share.first; i < by_words; i += share.step) {
    std::uint32_t words[4];
    load_words(words, from + 16 * i);
    swap_words(words, item);
    store_words(to + 16 * i, words);
  }
  for (std::uint32_t i = 16 * by_words / item + share.first; i < items; i += share.step) {
    const std::uint8_t* const source = from + i * item;
    std::uint8_t* const target = to + i * item;
    for (std::uint32_t k = 0; 2 * k < item; ++k) {  // from both ends
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

/// Returns whether the byte with the number of padding bits is valid; the sizes are.
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

/// The work of one thread of the transform kernel.
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
  copy_bytes(from, to, part.target_bytes, share);
}

}  // namespace penstock::inline v0::device
