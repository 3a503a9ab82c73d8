#pragma once

#include <cstdint>

#include <penstock/extend/chunk_grid.h>
#include <penstock/shape.h>

namespace penstock::inline v0 {

/// The part of a selection in one cell.
struct cell_region {
  strided_box in_cell;                  ///< elements relative to the cell's origin
  dim_vector<std::uint64_t> in_result;  ///< for each dimension, the number of its first element in the selection
  bool covers_cell = false;             ///< every element of the codec's shape, in order, step 1
};

/// Intersects `selection` (within the grid's extents) with the cell at `coordinates`; false if nothing remains.
bool intersect(const chunk_grid& grid, const dim_vector<std::uint64_t>& coordinates, const strided_box& selection,
               cell_region& out) noexcept;

/// The same along one dimension. `in_result` is the number of the range's first element in the cell.
bool intersect(const grid_axis& axis, std::uint64_t cell, const axis_range& range, axis_range& in_cell,
               std::uint64_t& in_result) noexcept;

/// Iterates over the cells that a strided box touches, in C order, without listing them.
///
/// A step longer than a cell skips cells that it does not touch. The iteration is lazy: 10^9 cells cost nothing at the
/// start.
class cell_walk {
 public:
  cell_walk() noexcept = default;
  /// Borrows `grid` and copies `selection`.
  void start(const chunk_grid& grid, const strided_box& selection) noexcept;
  bool done() const noexcept { return done_; }
  const dim_vector<std::uint64_t>& coordinates() const noexcept { return at_; }
  void next() noexcept;
  /// Cells in the whole iteration (saturating).
  std::uint64_t total() const noexcept { return total_; }

 private:
  // True if the selection's step may skip cells of dimension `d`.
  bool skips(std::size_t d) const noexcept;
  // The next cell that contains an element; `cell` must not be the last.
  std::uint64_t next_touched(std::size_t d, std::uint64_t cell) const noexcept;

  const chunk_grid* grid_ = nullptr;
  strided_box from_;  // made ascending
  dim_vector<std::uint64_t> at_;
  dim_vector<std::uint64_t> first_, last_;  // cells that hold the selection's first and last element
  bool done_ = true;
  std::uint64_t total_ = 0;
};

}  // namespace penstock::inline v0
