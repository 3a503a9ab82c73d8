#include "array/converted_copy.h"

#include <algorithm>
#include <utility>

#include "array/loop_nest.h"
#include "array/streaming_copy.h"
#include "array/strided_copy.h"

namespace penstock::inline v0 {
namespace {

/// Elements of a block; two blocks of 16 bytes an element leave room in 32 KiB.
constexpr std::uint64_t kBlockItems = 768;
constexpr std::uint64_t kMaxItemBytes = 16;
/// A block of rows and columns, in which one side has its neighbours along rows, the other along columns.
constexpr std::uint64_t kRows = 24, kColumns = 32;
static_assert(kRows * kColumns == kBlockItems);

/// Lines that are longer after the conversion exceed the second-level cache of most processors.
constexpr std::uint64_t kStreamedBytes = std::uint64_t{1} << 20;

struct blocks {
  alignas(64) std::byte from[kBlockItems * kMaxItemBytes];
  alignas(64) std::byte to[kBlockItems * kMaxItemBytes];
};

// Converts boxes of two dimensions, in blocks.
void convert_tiled(const nest_level& outer, const nest_level& inner, std::byte* to, const std::byte* from,
                   const conversion& how, std::uint32_t swap_bytes) noexcept {
  blocks room;
  for (std::uint64_t i = 0; i < outer.count; i += kRows) {
    for (std::uint64_t j = 0; j < inner.count; j += kColumns) {
      const extents counts{std::min(kRows, outer.count - i), std::min(kColumns, inner.count - j)};
      strided_copy(room.from, c_order_strides(counts, how.from_bytes),
                   from + distance(i, outer.from) + distance(j, inner.from), {outer.from, inner.from}, counts,
                   how.from_bytes, swap_bytes);
      convert_items(how, room.from, room.to, counts[0] * counts[1]);
      strided_copy(to + distance(i, outer.to) + distance(j, inner.to), {outer.to, inner.to}, room.to,
                   c_order_strides(counts, how.to_bytes), counts, how.to_bytes, 1);
    }
  }
}

void convert_streaming(std::byte* to, const std::byte* from, std::uint64_t count, const conversion& how) noexcept {
  alignas(64) std::byte made[kBlockItems * kMaxItemBytes];
  for (std::uint64_t i = 0; i < count; i += kBlockItems) {
    const std::uint64_t some = std::min(kBlockItems, count - i);
    convert_items(how, from + i * how.from_bytes, made, some);
    streaming_copy(to + i * how.to_bytes, made, static_cast<std::size_t>(some * how.to_bytes));
  }
  end_streaming();
}

}  // namespace

void convert_line(std::byte* to, std::int64_t to_step, const std::byte* from, std::int64_t from_step,
                  std::uint64_t count, const conversion& how, std::uint32_t swap_bytes) noexcept {
  const bool as_read = swap_bytes <= 1 && (count == 1 || from_step == static_cast<std::int64_t>(how.from_bytes));
  const bool as_made = count == 1 || to_step == static_cast<std::int64_t>(how.to_bytes);
  if (as_read && as_made && count * how.to_bytes > kStreamedBytes) return convert_streaming(to, from, count, how);
  if (as_read && as_made) return convert_items(how, from, to, count);
  blocks room;
  for (std::uint64_t i = 0; i < count; i += kBlockItems) {
    const extents some{std::min(kBlockItems, count - i)};
    const std::byte* const next = from + distance(i, from_step);
    std::byte* const target = to + distance(i, to_step);
    if (!as_read)
      strided_copy(room.from, {static_cast<std::int64_t>(how.from_bytes)}, next, {from_step}, some, how.from_bytes,
                   swap_bytes);
    convert_items(how, as_read ? next : room.from, as_made ? target : room.to, some[0]);
    if (!as_made)
      strided_copy(target, {to_step}, room.to, {static_cast<std::int64_t>(how.to_bytes)}, some, how.to_bytes, 1);
  }
}

void strided_convert(std::byte* to, const strides& to_strides, const std::byte* from, const strides& from_strides,
                     const extents& counts, const conversion& how, std::uint32_t swap_bytes) noexcept {
  loop_nest nest;
  if (!normalise(nest, to, to_strides, from, &from_strides, counts)) return;
  if (nest.rank == 0) return convert_line(to, 0, from, 0, 1, how, swap_bytes);
  const nest_level inner = nest.levels[nest.rank - 1];
  const auto item = static_cast<std::int64_t>(how.from_bytes);
  if (magnitude(inner.from) != how.from_bytes) {
    for (std::size_t d = 0; d + 1 < nest.rank; ++d) {
      if (nest.levels[d].from != item) continue;
      std::swap(nest.levels[d], nest.levels[nest.rank - 2]);
      const nest_level outer = nest.levels[nest.rank - 2];
      return for_each_run(nest, nest.rank - 2, to, from, [&](std::byte* t, const std::byte* f) {
        convert_tiled(outer, inner, t, f, how, swap_bytes);
      });
    }
  }
  for_each_run(nest, nest.rank - 1, to, from, [&](std::byte* t, const std::byte* f) {
    convert_line(t, inner.to, f, inner.from, inner.count, how, swap_bytes);
  });
}

}  // namespace penstock::inline v0
