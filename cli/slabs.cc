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

slab_cutter::slab_cutter(const resolved_basic& all, const extents& chunks, std::uint64_t item_bytes,
                         std::uint64_t goal_bytes)
    : from_(all.from) {
  for (const axis_range& range : from_) {
    if (range.count == 0) rows_ = 0;
  }
  if (rows_ == 0 || from_.empty()) return;
  while (axis_ + 1 < from_.size() && from_[axis_].count == 1) ++axis_;

  std::uint64_t row_bytes = item_bytes;
  rows_ = from_[axis_].count;
  step_ = static_cast<std::uint64_t>(std::abs(from_[axis_].step));
  for (std::size_t e = axis_ + 1; e < from_.size(); ++e) row_bytes *= from_[e].count;
  layer_ = std::max<std::uint64_t>(1, chunks[axis_] / step_);
  rows_per_slab_ = std::max<std::uint64_t>(1, goal_bytes / std::max<std::uint64_t>(1, row_bytes));
  rows_per_slab_ = std::max(layer_, rows_per_slab_ / layer_ * layer_);
}

std::optional<slab> slab_cutter::next() {
  if (row_ == rows_) return std::nullopt;
  std::uint64_t count = std::min(rows_per_slab_, rows_ - row_);
  if (row_ == 0 && step_ == 1 && count < rows_) {
    // The first slab ends at the end of a chunk, in the direction of the read; therefore all others do, too.
    const auto start = static_cast<std::uint64_t>(from_[axis_].start);
    const std::uint64_t into = from_[axis_].step > 0 ? start % layer_ : layer_ - 1 - start % layer_;
    count -= std::min(into, count - 1);
  }
  slab piece;
  for (std::size_t e = 0; e < from_.size(); ++e) {
    axis_range range = from_[e];
    if (e == axis_) {
      range.start = range.at(row_);
      range.count = count;
    }
    piece.which.items.emplace_back(to_slice(range));
    piece.shape.push_back(range.count);
  }
  row_ += count;
  return piece;
}

}  // namespace penstock::inline v0::cli
