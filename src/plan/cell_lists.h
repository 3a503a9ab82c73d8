#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "array/chunk_grid.h"
#include "array/indexed_copy.h"

namespace penstock::inline v0 {

/// A selected element, by its numbers in its cell and in the result.
struct wide_point {
  std::uint64_t in_cell, in_result;
};

/// Elements grouped by cell: those of `cells[i]` are [begin[i], begin[i + 1]), in the order of the result.
struct cell_groups {
  std::vector<std::uint64_t> cells;  ///< ascending
  std::vector<std::size_t> begin;

  /// The index of `cell` in `cells`; cells.size() if it is absent.
  std::size_t find(std::uint64_t cell) const noexcept;
};

/// Replaces the numbers in the result by `places` of them; empty: they remain.
template <class Point>
void move_to_places(std::vector<Point>& points, std::span<const std::uint64_t> places) noexcept {
  if (places.empty()) return;
  for (Point& each : points)
    each.in_result = static_cast<decltype(each.in_result)>(places[static_cast<std::size_t>(each.in_result)]);
}

/// Splits positions along one dimension into cells, quickly.
class axis_split {
 public:
  explicit axis_split(const grid_axis& axis) noexcept;
  struct part {
    std::uint64_t cell, in_cell;
  };
  part operator()(std::uint64_t at) const noexcept {
    const std::uint64_t cell = reciprocal_ == 0 ? axis_.cell_of(at) : by_reciprocal(at);
    return {cell, at - axis_.origin(cell)};
  }

 private:
  // Exact for positions and lengths below 2^32 (Lemire, Kaser, Kurz: Faster remainder by direct computation, 2019).
  std::uint64_t by_reciprocal(std::uint64_t at) const noexcept {
    __extension__ using wide = unsigned __int128;
    return static_cast<std::uint64_t>(static_cast<wide>(reciprocal_) * at >> 64);
  }

  const grid_axis& axis_;
  std::uint64_t reciprocal_ = 0;
};

/// Groups elements by cell, in linear time: element i of the result is number `in_cell[i]` of cell `cell[i]`. The
/// points are returned in the order of `begin`. `Point` is cell_point or wide_point, `Number` std::uint32_t or
/// std::uint64_t.
template <class Point, class Number>
cell_groups group_by_cell(std::span<const Number> cell, std::span<const Number> in_cell, std::uint64_t cell_count,
                          std::vector<Point>& points);

}  // namespace penstock::inline v0
