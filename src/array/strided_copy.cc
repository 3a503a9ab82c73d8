#include "array/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "array/item_movers.h"
#include "array/lane_copy.h"
#include "array/loop_nest.h"

namespace penstock::inline v0 {
namespace {

template <class Mover>
void copy_lines(const nest_level& inner, std::byte* to, const std::byte* from, const Mover& move) noexcept {
  for (std::uint64_t i = 0; i < inner.count; ++i, to += inner.to, from += inner.from) move(to, from);
}

/// Copies between a source with its neighbours along `outer` and a destination with its neighbours along `inner`.
///
/// Row by row this would load a cache line for each element. Square tiles go through a small block instead, so that
/// each line of either side is touched once: rows at a distance of a power of two share a few sets of the cache, and
/// would evict each other before their second use. The block is written in long pieces and read in short ones, not the
/// reverse, because processors cannot forward that.
template <std::uint32_t Item, std::uint32_t Unit>
void copy_tiled(const nest_level& outer, const nest_level& inner, std::byte* to, const std::byte* from) noexcept {
  constexpr std::uint64_t kTile = Item == 1 ? 64 : 128 / Item;
  constexpr fixed_mover<Item, Unit> kMove;
  constexpr fixed_mover<Item, 1> kLoad;
  alignas(64) std::byte tile[kTile * kTile * Item];
  for (std::uint64_t i = 0; i < outer.count; i += kTile) {
    const std::uint64_t rows = std::min(kTile, outer.count - i);
    for (std::uint64_t j = 0; j < inner.count; j += kTile) {
      const std::uint64_t columns = std::min(kTile, inner.count - j);
      const std::byte* f = from + distance(i, outer.from) + distance(j, inner.from);
      for (std::uint64_t column = 0; column < columns; ++column, f += inner.from) {
        std::byte* const line = tile + column * kTile * Item;
        if (outer.from != Item) {
          copy_lines({rows, Item, outer.from}, line, f, kLoad);
        } else if (rows == kTile) {
          std::memcpy(line, f, kTile * Item);
        } else {
          std::memcpy(line, f, rows * Item);
        }
      }
      std::byte* t = to + distance(i, outer.to) + distance(j, inner.to);
      for (std::uint64_t row = 0; row < rows; ++row, t += outer.to)
        copy_lines({columns, inner.to, static_cast<std::int64_t>(kTile * Item)}, t, tile + row * Item, kMove);
    }
  }
}

template <class Mover>
void copy_elements(const loop_nest& nest, std::byte* to, const std::byte* from, const Mover& move) noexcept {
  const nest_level inner = nest.levels[nest.rank - 1];
  for_each_run(nest, nest.rank - 1, to, from, [&](std::byte* t, const std::byte* f) { copy_lines(inner, t, f, move); });
}

// The order of the outer dimensions is free: moves one of them next to the innermost.
void bring_inwards(loop_nest& nest, std::size_t which) noexcept {
  for (std::size_t d = which; d + 2 < nest.rank; ++d) std::swap(nest.levels[d], nest.levels[d + 1]);
}

/// Between the samples of pixels and the pixels of bands. False: the copy is not of that kind.
template <std::uint32_t Item, std::uint32_t Unit>
bool copy_in_lanes(loop_nest& nest, std::byte* to, const std::byte* from) noexcept {
  const nest_level inner = nest.levels[nest.rank - 1];
  if (inner.to != Item) return false;
  const auto group = static_cast<std::uint64_t>(inner.from) / Item;
  const bool splits =
      inner.from > static_cast<std::int64_t>(Item) && inner.from % Item == 0 && group <= kMaxGroup && inner.count >= 16;
  const bool joins = inner.count <= kMaxGroup;
  if (!splits && !joins) return false;
  std::size_t found = nest.rank;
  for (std::size_t d = 0; d + 1 < nest.rank && found == nest.rank; ++d) {
    const nest_level& each = nest.levels[d];
    if (each.from != Item) continue;
    if (splits ? each.count <= group : each.to == distance(inner.count, Item)) found = d;
  }
  if (splits && found == nest.rank) {  // one lane
    with_lane_copy<Item, Unit>(group, [&]<class Copy>(Copy) {
      for_each_run(nest, nest.rank - 1, to, from,
                   [&](std::byte* t, const std::byte* f) { Copy::split(t, 0, f, inner.count, 1); });
    });
    return true;
  }
  if (found == nest.rank) return false;
  bring_inwards(nest, found);
  const nest_level outer = nest.levels[nest.rank - 2];
  with_lane_copy<Item, Unit>(splits ? group : inner.count, [&]<class Copy>(Copy) {
    for_each_run(nest, nest.rank - 2, to, from, [&](std::byte* t, const std::byte* f) {
      if (splits) {
        Copy::split(t, outer.to, f, inner.count, outer.count);
      } else {
        Copy::join(t, f, inner.from, outer.count);
      }
    });
  });
  return true;
}

template <std::uint32_t Item, std::uint32_t Unit>
void copy_fixed(loop_nest& nest, std::byte* to, const std::byte* from) noexcept {
  if constexpr (Item <= 4) {
    if (copy_in_lanes<Item, Unit>(nest, to, from)) return;
  }
  const nest_level inner = nest.levels[nest.rank - 1];
  // The dimension along which the source's neighbours are adjacent.
  std::size_t neighbours = nest.rank - 1;
  for (std::size_t d = 0; d + 1 < nest.rank; ++d) {
    if (nest.levels[d].from != 0 && magnitude(nest.levels[d].from) < magnitude(nest.levels[neighbours].from))
      neighbours = d;
  }
  if (neighbours + 1 == nest.rank || magnitude(inner.from) <= 2 * Item)
    return copy_elements(nest, to, from, fixed_mover<Item, Unit>());
  bring_inwards(nest, neighbours);
  const nest_level outer = nest.levels[nest.rank - 2];
  for_each_run(nest, nest.rank - 2, to, from,
               [&](std::byte* t, const std::byte* f) { copy_tiled<Item, Unit>(outer, inner, t, f); });
}

void copy_by_item(loop_nest& nest, std::byte* to, const std::byte* from, std::uint32_t item,
                  std::uint32_t unit) noexcept {
  if (unit <= 1) {
    switch (item) {
      case 1:
        return copy_fixed<1, 1>(nest, to, from);
      case 2:
        return copy_fixed<2, 1>(nest, to, from);
      case 4:
        return copy_fixed<4, 1>(nest, to, from);
      case 8:
        return copy_fixed<8, 1>(nest, to, from);
      case 16:
        return copy_fixed<16, 1>(nest, to, from);
      default:
        break;
    }
  } else {
    if (item == 2 && unit == 2) return copy_fixed<2, 2>(nest, to, from);
    if (item == 4 && unit == 4) return copy_fixed<4, 4>(nest, to, from);
    if (item == 8 && unit == 8) return copy_fixed<8, 8>(nest, to, from);
    if (item == 8 && unit == 4) return copy_fixed<8, 4>(nest, to, from);
    if (item == 16 && unit == 8) return copy_fixed<16, 8>(nest, to, from);
  }
  copy_elements(nest, to, from, general_mover{item, unit});
}

void copy_run(std::byte* to, const std::byte* from, std::uint64_t bytes, std::uint32_t unit) noexcept {
  if (unit <= 1) {
    std::memcpy(to, from, bytes);
  } else {
    swap_contiguous(to, from, bytes, unit);
  }
}

// Bytes of the whole block if both sides hold it in C order without gaps, else 0.
std::uint64_t contiguous_bytes(const strides& to, const strides& from, const extents& counts,
                               std::uint32_t item_bytes) noexcept {
  std::uint64_t bytes = item_bytes;
  for (std::size_t d = counts.size(); d-- > 0;) {
    if (counts[d] == 1) continue;
    if (static_cast<std::uint64_t>(to[d]) != bytes || static_cast<std::uint64_t>(from[d]) != bytes) return 0;
    bytes *= counts[d];
  }
  return bytes;
}

/// Patterns up to this long are written from one small block, many items at a time.
constexpr std::uint64_t kPatternBytes = 256;

}  // namespace

void strided_copy(std::byte* to, const strides& to_strides, const std::byte* from, const strides& from_strides,
                  const extents& counts, std::uint32_t item_bytes, std::uint32_t swap_bytes) noexcept {
  if (item_bytes == 0) return;
  if (const std::uint64_t bytes = contiguous_bytes(to_strides, from_strides, counts, item_bytes); bytes != 0)
    return copy_run(to, from, bytes, swap_bytes);

  loop_nest nest;
  if (!normalise(nest, to, to_strides, from, &from_strides, counts)) return;
  if (nest.rank == 0) return copy_run(to, from, item_bytes, swap_bytes);
  const nest_level& inner = nest.levels[nest.rank - 1];
  if (inner.to == item_bytes && inner.from == item_bytes) {
    const std::uint64_t bytes = inner.count * item_bytes;
    for_each_run(nest, nest.rank - 1, to, from,
                 [&](std::byte* t, const std::byte* f) { copy_run(t, f, bytes, swap_bytes); });
  } else {
    copy_by_item(nest, to, from, item_bytes, swap_bytes);
  }
}

void strided_fill(std::byte* to, const strides& to_strides, const extents& counts, const std::byte* item,
                  std::uint32_t item_bytes) noexcept {
  if (item_bytes == 0) return;
  loop_nest nest;
  const std::byte* unused = item;
  if (!normalise(nest, to, to_strides, unused, nullptr, counts)) return;

  bool uniform = true;
  for (std::uint32_t i = 1; i < item_bytes; ++i) uniform = uniform && item[i] == item[0];
  const bool dense = nest.rank == 0 || nest.levels[nest.rank - 1].to == item_bytes;
  const std::size_t outer = nest.rank == 0 || !dense ? nest.rank : nest.rank - 1;
  const std::uint64_t bytes = (outer == nest.rank ? 1 : nest.levels[outer].count) * item_bytes;

  if (uniform) {
    const int value = std::to_integer<int>(item[0]);
    for_each_run(nest, outer, to, nullptr, [&](std::byte* t, const std::byte*) { std::memset(t, value, bytes); });
    return;
  }
  std::byte pattern[kPatternBytes];
  std::uint64_t pattern_bytes = 0;
  if (item_bytes <= kPatternBytes) {
    for (; pattern_bytes + item_bytes <= kPatternBytes && pattern_bytes < bytes; pattern_bytes += item_bytes)
      std::memcpy(pattern + pattern_bytes, item, item_bytes);
  }
  const std::byte* const block = pattern_bytes == 0 ? item : pattern;
  if (pattern_bytes == 0) pattern_bytes = item_bytes;
  for_each_run(nest, outer, to, nullptr, [&](std::byte* t, const std::byte*) {
    std::uint64_t done = 0;
    for (; done + pattern_bytes <= bytes; done += pattern_bytes) std::memcpy(t + done, block, pattern_bytes);
    if (done != bytes) std::memcpy(t + done, block, bytes - done);
  });
}

}  // namespace penstock::inline v0
