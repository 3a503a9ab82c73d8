#pragma once

// Numbers after a decompressor: the rows of a TIFF strip or tile (byte order, predictors, selected samples), and sums
// of differences. A warp processes 32 numbers at a time and carries their sum.

#include "cuda/decode/warp.h"

namespace penstock::inline v0::device {

/// `size` bytes (1, 2, 4 or 8) at any address, little-endian.
PENSTOCK_DEVICE std::uint64_t load_number(const std::uint8_t* at, std::uint32_t size) {
  if (size == 1) return *at;
  if (size >= 4 && misalignment(at, 4) == 0) {
    std::uint64_t value = load_word(at);
    if (size == 8) value |= static_cast<std::uint64_t>(load_word(at + 4)) << 32;
    return value;
  }
  std::uint64_t value = 0;
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t i = 0; i < size; ++i) value |= static_cast<std::uint64_t>(at[i]) << (8 * i);
  return value;
}

PENSTOCK_DEVICE void store_number(std::uint8_t* at, std::uint64_t value, std::uint32_t size) {
  if (size >= 4 && misalignment(at, 4) == 0) {
    store_word(at, static_cast<std::uint32_t>(value));
    if (size == 8) store_word(at + 4, static_cast<std::uint32_t>(value >> 32));
    return;
  }
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t i = 0; i < size; ++i) at[i] = static_cast<std::uint8_t>(value >> (8 * i));
}

/// The lowest `size` bytes of `value` in reverse order.
PENSTOCK_DEVICE std::uint64_t swapped_number(std::uint64_t value, std::uint32_t size) {
  std::uint64_t out = 0;
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t i = 0; i < size; ++i) out = out << 8 | (value >> (8 * i) & 255);
  return out;
}

/// Adds up `load(i)` for i = 0 to count - 1, and calls `store(i, sum)` for each.
template <class Load, class Store>
PENSTOCK_DEVICE void sum_by_warp(std::uint64_t count, warp lanes, Load&& load, Store&& store) {
  std::uint64_t carry = 0;
  for (std::uint64_t first = 0; first < count; first += kLanes) {
    per_lane<std::uint64_t> sums;
    lanes.each_alone([&](int lane) {
      const std::uint64_t i = first + static_cast<std::uint64_t>(lane);
      sums[lane] = i < count ? load(i) : 0;
    });
    lanes.scan(sums, [](std::uint64_t before, std::uint64_t own) { return before + own; });
    lanes.each_alone([&](int lane) {
      const std::uint64_t i = first + static_cast<std::uint64_t>(lane);
      if (i < count) store(i, carry + sums[lane]);
    });
    carry += lanes.from(sums, kLanes - 1);
  }
}

/// A part's `parameter` for sums of differences: integers of 1, 2, 4 or 8 bytes each.
struct delta_layout {
  std::uint32_t stored_bytes, item_bytes;
  bool stored_signed, stored_swapped, item_swapped;

  constexpr std::uint32_t parameter() const {
    return stored_bytes | item_bytes << 4 | (stored_signed ? 256u : 0) | (stored_swapped ? 512u : 0) |
           (item_swapped ? 1024u : 0);
  }
  PENSTOCK_DEVICE static delta_layout of(std::uint32_t parameter) {
    return {parameter & 15, parameter >> 4 & 15, (parameter & 256) != 0, (parameter & 512) != 0,
            (parameter & 1024) != 0};
  }
};

/// The work of one warp of the delta kernel: the part with index `turn` in the wave's order. Parts of a chunk that
/// failed are skipped.
PENSTOCK_DEVICE void delta_warp(const part_wave& wave, std::uint32_t turn, warp lanes) {
  const decode_part& part = pointer<const decode_part>(wave.parts)[pointer<const std::uint32_t>(wave.order)[turn]];
  if (failed(wave.statuses, part.chunk, lanes)) return;
  const delta_layout how = delta_layout::of(part.parameter);
  const auto* const from = pointer<const std::uint8_t>(part.source);
  auto* const to = pointer<std::uint8_t>(part.target);
  std::uint32_t count = part.target_bytes / how.item_bytes;
  if (count > part.source_bytes / how.stored_bytes) count = part.source_bytes / how.stored_bytes;
  const int spare = 64 - 8 * static_cast<int>(how.stored_bytes);
  sum_by_warp(
      count, lanes,
      [&](std::uint64_t i) {
        std::uint64_t value = load_number(from + i * how.stored_bytes, how.stored_bytes);
        if (how.stored_swapped) value = swapped_number(value, how.stored_bytes);
        if (how.stored_signed) value = static_cast<std::uint64_t>(static_cast<std::int64_t>(value << spare) >> spare);
        return value;
      },
      [&](std::uint64_t i, std::uint64_t sum) {
        if (how.item_swapped) sum = swapped_number(sum, how.item_bytes);
        store_number(to + i * how.item_bytes, sum, how.item_bytes);
      });
}

/// The index of the j-th selected sample in a pixel.
PENSTOCK_DEVICE std::uint32_t picked_sample(const row_layout& rows, std::uint32_t j) { return rows.picked[j]; }

/// One row without a predictor: all numbers are independent.
PENSTOCK_DEVICE void copy_samples(const row_layout& rows, const std::uint8_t* from, std::uint8_t* to, warp lanes) {
  const std::uint32_t item = rows.item_bytes;
  lanes.each_alone([&](int lane) {
    PENSTOCK_SMALL_LOOP
    for (auto i = static_cast<std::uint32_t>(lane); i < rows.width * rows.wanted; i += kLanes) {
      const std::uint32_t pixel = i / rows.wanted, sample = picked_sample(rows, i - pixel * rows.wanted);
      const std::uint64_t at = static_cast<std::uint64_t>(pixel) * rows.samples + sample;
      // Both halves of a complex number count as numbers.
      PENSTOCK_SMALL_LOOP
      for (std::uint32_t part = 0; part < item; part += rows.unit_bytes) {
        std::uint64_t value = load_number(from + at * item + part, rows.unit_bytes);
        if (rows.big_endian != 0) value = swapped_number(value, rows.unit_bytes);
        store_number(to + static_cast<std::uint64_t>(i) * item + part, value, rows.unit_bytes);
      }
    }
  });
}

/// One row of horizontal differences (TIFF 6.0, section 14).
PENSTOCK_DEVICE void sum_samples(const row_layout& rows, const std::uint8_t* from, std::uint8_t* to, warp lanes) {
  const std::uint32_t item = rows.item_bytes;
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t j = 0; j < rows.wanted; ++j) {
    const std::uint32_t sample = picked_sample(rows, j);
    sum_by_warp(
        rows.width, lanes,
        [&](std::uint64_t pixel) {
          const std::uint64_t value = load_number(from + (pixel * rows.samples + sample) * item, item);
          return rows.big_endian != 0 ? swapped_number(value, item) : value;
        },
        [&](std::uint64_t pixel, std::uint64_t sum) {
          store_number(to + (pixel * rows.wanted + j) * item, sum, item);
        });
  }
}

/// One row of the floating-point predictor (Adobe Photoshop TIFF Technical Note 3): differences of bytes at distances
/// of `samples`, in planes from the most significant byte on.
PENSTOCK_DEVICE void sum_float_bytes(const row_layout& rows, const std::uint8_t* from, std::uint8_t* to, warp lanes) {
  const std::uint32_t item = rows.item_bytes, numbers = rows.width * rows.samples;
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t s = 0; s < rows.samples; ++s) {
    std::uint32_t wanted = rows.wanted;
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t j = 0; j < rows.wanted; ++j)
      if (picked_sample(rows, j) == s) wanted = j;
    if (wanted == rows.wanted) continue;
    // Bytes s, s + samples, ... are one sum over all planes: a plane has a multiple of `samples` bytes.
    sum_by_warp(
        static_cast<std::uint64_t>(rows.width) * item, lanes,
        [&](std::uint64_t i) { return static_cast<std::uint64_t>(from[i * rows.samples + s]); },
        [&](std::uint64_t i, std::uint64_t sum) {
          const std::uint32_t at = static_cast<std::uint32_t>(i) * rows.samples + s, plane = at / numbers;
          const std::uint64_t pixel = (at - plane * numbers) / rows.samples;
          to[(pixel * rows.wanted + wanted) * item + (item - 1 - plane)] = static_cast<std::uint8_t>(sum);
        });
  }
}

/// The work of one warp of the rows kernel: `rows_per_warp` rows of a part. Parts of a chunk that failed are skipped.
PENSTOCK_DEVICE void rows_warp(const rows_wave& wave, std::uint32_t group, warp lanes) {
  const row_layout& rows = wave.rows;
  const std::uint32_t each = wave.warps_per_part, share = group % each;
  const decode_part& part = pointer<const decode_part>(wave.parts)[group / each];
  if (failed(wave.statuses, part.chunk, lanes)) return;
  const auto* const from = pointer<const std::uint8_t>(part.source);
  auto* const to = pointer<std::uint8_t>(part.target);
  const std::uint64_t stored = static_cast<std::uint64_t>(rows.width) * rows.samples * rows.item_bytes;
  const std::uint64_t made = static_cast<std::uint64_t>(rows.width) * rows.wanted * rows.item_bytes;
  for (std::uint32_t y = share; y < rows.rows; y += each) {
    if (rows.predictor == 3) {
      sum_float_bytes(rows, from + y * stored, to + y * made, lanes);
    } else if (rows.predictor == 2) {
      sum_samples(rows, from + y * stored, to + y * made, lanes);
    } else {
      copy_samples(rows, from + y * stored, to + y * made, lanes);
    }
  }
}

}  // namespace penstock::inline v0::device
