#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <penstock/plan.h>
#include <penstock/result.h>
#include <penstock/selection.h>
#include "array/chunk_grid.h"

namespace penstock::inline v0 {

struct placement;  // plan/placement.h

/// A selection that is not a box, resolved against a grid: its cells, and the selected part of each. Immutable; shared
/// by the workers of a read.
class indexed_selection {
 public:
  virtual ~indexed_selection() = default;

  /// The grid that it was resolved against, and the only one that it may be read with.
  const chunk_grid& grid() const noexcept { return grid_; }
  /// Touched cells, saturating.
  virtual std::uint64_t cells() const noexcept = 0;
  /// The i-th of them (i < cells()), ascending: each cell is named once.
  virtual cell_id cell(std::uint64_t i) const noexcept = 0;
  /// The selected part of a cell; false if there is none. `out` may point into this object.
  virtual bool place(const source& from, cell_id cell, placement& out) const noexcept = 0;
  /// How many boxes of a cell have destinations of their own: more than one only if several selections are read at
  /// once.
  virtual std::size_t places(cell_id cell) const noexcept {
    (void)cell;
    return 1;
  }
  /// The which-th of them, which < places(cell).
  virtual bool place_one(const source& from, cell_id cell, std::size_t which, placement& out) const noexcept {
    (void)which;
    return place(from, cell, out);
  }
  /// The source's strides are one for each dimension of the array; otherwise one for each of the result.
  virtual bool places_axes() const noexcept = 0;
  /// `3 x 1000 positions`, `1000000 points`: text for a plan.
  virtual std::string describe() const = 0;

 protected:
  explicit indexed_selection(const chunk_grid& grid) : grid_(grid) {}

 private:
  chunk_grid grid_;
};

/// A coordinate selection that borrows its lists.
struct coordinate_view {
  std::vector<std::span<const std::int64_t>> points;
  extents shape;
};

/// Resolve a selection against an array whose cells are `grid`'s. Lists of equally spaced positions become ranges; if
/// no other lists remain, `indexed` is null.
///
/// Needs time and memory linear in the listed positions; slices are not expanded to lists.
/// \error out_of_range, invalid_argument  As NumPy.
result<resolved_selection> select(const orthogonal_selection& which, const chunk_grid& grid);
result<resolved_selection> select(const coordinate_selection& which, const chunk_grid& grid);
result<resolved_selection> select(const coordinate_view& which, const chunk_grid& grid);
result<resolved_selection> select(const mask_selection& which, const chunk_grid& grid);

}  // namespace penstock::inline v0
