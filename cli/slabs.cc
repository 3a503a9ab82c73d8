#include "slabs.h"

#include <algorithm>

namespace penstock::inline v0::cli {
namespace {

slice to_slice(const axis_range& range) {
  const std::int64_t last = range.at(range.count - 1);
  slice out;
  out.start = range.start;
  out.step = range.step;
  out.stop = range.step > 0 ? last + 1 : last - 1;
  if (*out.stop < 0) out.stop.reset();  // before the first element, which a negative number cannot name
  return out;
}

}  // namespace

std::vector<slab> cut_into_slabs(const resolved_basic& all, const extents& chunks, std::uint64_t item_bytes,
                                 std::uint64_t goal_bytes) {
  std::vector<slab> slabs;
  for (const axis_range& range : all.from) {
    if (range.count == 0) return slabs;
  }
  std::size_t d = 0;  // the dimension that is divided
  while (d + 1 < all.from.size() && all.from[d].count == 1) ++d;

  std::uint64_t rows = 1, step = 1, row_bytes = item_bytes;
  if (!all.from.empty()) {
    rows = all.from[d].count;
    step = static_cast<std::uint64_t>(std::abs(all.from[d].step));
    for (std::size_t e = d + 1; e < all.from.size(); ++e) row_bytes *= all.from[e].count;
  }
  const std::uint64_t layer = all.from.empty() ? 1 : std::max<std::uint64_t>(1, chunks[d] / step);
  std::uint64_t rows_per_slab = std::max<std::uint64_t>(1, goal_bytes / std::max<std::uint64_t>(1, row_bytes));
  rows_per_slab = std::max(layer, rows_per_slab / layer * layer);

  for (std::uint64_t row = 0; row < rows;) {
    std::uint64_t count = std::min(rows_per_slab, rows - row);
    if (row == 0 && step == 1 && !all.from.empty() && count < rows) {
      // The first slab ends at the end of a chunk, in the direction of the read; therefore all others do, too.
      const auto start = static_cast<std::uint64_t>(all.from[d].start);
      const std::uint64_t into = all.from[d].step > 0 ? start % layer : layer - 1 - start % layer;
      count -= std::min(into, count - 1);
    }
    slab piece;
    for (std::size_t e = 0; e < all.from.size(); ++e) {
      axis_range range = all.from[e];
      if (e == d) {
        range.start = range.at(row);
        range.count = count;
      }
      piece.which.items.emplace_back(to_slice(range));
      piece.shape.push_back(range.count);
    }
    slabs.push_back(std::move(piece));
    row += count;
  }
  return slabs;
}

}  // namespace penstock::inline v0::cli
