#pragma once

// Scatter and fill: boxes of items, strided on both sides.

#include "cuda/decode/device.h"

namespace penstock::inline v0::device {

PENSTOCK_DEVICE void copy_item(const std::uint8_t* from, std::uint8_t* to, std::uint32_t bytes) {
  const std::uint32_t mixed = misalignment(from, 16) | misalignment(to, 16) | bytes;
#if defined(__CUDA_ARCH__)
  if ((mixed & 15u) == 0) {
    for (std::uint32_t i = 0; i < bytes; i += 16)
      *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<const uint4*>(from + i);
    return;
  }
  if ((mixed & 7u) == 0) {
    for (std::uint32_t i = 0; i < bytes; i += 8)
      *reinterpret_cast<std::uint64_t*>(to + i) = *reinterpret_cast<const std::uint64_t*>(from + i);
    return;
  }
#endif
  if ((mixed & 3u) == 0) {
    for (std::uint32_t i = 0; i < bytes; i += 4) store_word(to + i, load_word(from + i));
  } else if ((mixed & 1u) == 0) {
    for (std::uint32_t i = 0; i < bytes; i += 2) {
#if defined(__CUDA_ARCH__)
      *reinterpret_cast<std::uint16_t*>(to + i) = *reinterpret_cast<const std::uint16_t*>(from + i);
#else
      std::memcpy(to + i, from + i, 2);
#endif
    }
  } else {
    for (std::uint32_t i = 0; i < bytes; ++i) to[i] = from[i];
  }
}

/// Calls `item(source offset, target offset)` for the thread's share of the box's items, the last axis fastest.
template <class Item>
PENSTOCK_DEVICE void each_item(const copy_wave& wave, const copy_box& box, std::uint32_t block, std::uint32_t thread,
                               std::uint32_t threads, Item&& item) {
  std::uint64_t count = 1;
  for (std::uint32_t axis = 0; axis < box.rank; ++axis) count *= box.extents[axis];
  const std::uint64_t step = static_cast<std::uint64_t>(wave.blocks_per_box) * threads;
  for (std::uint64_t i = static_cast<std::uint64_t>(block % wave.blocks_per_box) * threads + thread; i < count;
       i += step) {
    std::int64_t from = 0, to = 0;
    std::uint64_t rest = i;
    for (std::uint32_t axis = box.rank; axis-- > 0;) {
      std::uint64_t at;
      if (rest <= 0xffffffffu) {  // a 64-bit division costs a GPU a hundred instructions
        at = static_cast<std::uint32_t>(rest) % box.extents[axis];
        rest = static_cast<std::uint32_t>(rest) / box.extents[axis];
      } else {
        at = rest % box.extents[axis];
        rest /= box.extents[axis];
      }
      from += static_cast<std::int64_t>(at) * box.source_strides[axis];
      to += static_cast<std::int64_t>(at) * box.target_strides[axis];
    }
    item(from, to);
  }
}

/// What one thread of the copy kernel does.
PENSTOCK_DEVICE void copy_thread(const copy_wave& wave, std::uint32_t block, std::uint32_t thread,
                                 std::uint32_t threads) {
  const copy_box& box = pointer<const copy_box>(wave.boxes)[block / wave.blocks_per_box];
  const auto* const source = pointer<const std::uint8_t>(box.source);
  auto* const target = pointer<std::uint8_t>(box.target);
  each_item(wave, box, block, thread, threads,
            [&](std::int64_t from, std::int64_t to) { copy_item(source + from, target + to, box.item_bytes); });
}

/// What one thread of the fill kernel does.
PENSTOCK_DEVICE void fill_thread(const copy_wave& wave, std::uint32_t block, std::uint32_t thread,
                                 std::uint32_t threads) {
  const copy_box& box = pointer<const copy_box>(wave.boxes)[block / wave.blocks_per_box];
  const auto* const source = pointer<const std::uint8_t>(box.source);
  auto* const target = pointer<std::uint8_t>(box.target);
  each_item(wave, box, block, thread, threads,
            [&](std::int64_t, std::int64_t to) { copy_item(source, target + to, box.item_bytes); });
}

}  // namespace penstock::inline v0::device
