#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
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

// Selections of one part of an array that is made of parts, each with a grid of its own. Positions are within the part;
// `places` are the numbers of the listed elements in the result of the whole selection, ascending; empty: 0, 1, 2 ...

/// The positions along one dimension, within it.
using axis_positions = std::variant<axis_range, index_list>;

/// A list with equal distances is a range; false if this one is not.
bool as_range(const index_list& list, axis_range& out) noexcept;

/// The selected positions of one dimension, divided into cells.
struct selected_axis;  // plan/axis_selection.cc

/// Of a range, the numbers in the result begin with 0: the source's destination is that of its first element.
std::shared_ptr<const selected_axis> select_axis(const axis_positions& positions, std::span<const std::uint64_t> places,
                                                 const grid_axis& axis);
/// Every combination of the positions of all dimensions, each divided by its axis of the grid.
std::shared_ptr<const indexed_selection> select_axes(const chunk_grid& grid,
                                                     std::vector<std::shared_ptr<const selected_axis>> axes);

/// Points, within the part; `which.shape` is that of the whole result.
std::shared_ptr<const indexed_selection> select_points(const coordinate_view& which,
                                                       std::span<const std::uint64_t> places, const chunk_grid& grid);

/// A part that is a box of the array.
struct masked_part {
  const chunk_grid* grid;  ///< null: the part is left out
  extents origin, shape;
};
/// The elements of a part that a mask selects.
struct masked_elements {
  std::shared_ptr<const indexed_selection> indexed;  ///< null: there are none, or the part is left out
  std::uint64_t count = 0;
};
/// Divides a mask, which fits the array, among its parts. `part_of` returns the number of the part at a position; for
/// one part it is not called, and there `indexed` is never null.
std::vector<masked_elements> select_masked(const mask_selection& which, std::span<const masked_part> parts,
                                           const std::function<std::size_t(const extents&)>& part_of);

}  // namespace penstock::inline v0
