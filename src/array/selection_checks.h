#pragma once

#include <cstdint>
#include <span>

#include <penstock/result.h>
#include <penstock/selection.h>
#include "array/chunk_grid.h"

namespace penstock::inline v0 {

/// `index 7 is out of bounds for axis 0 with size 5`, NumPy's IndexError.
error bounds_error(std::int64_t index, std::size_t axis, std::uint64_t size);

/// The number of points, if there is one list for each dimension and all have the length of a result of `result_shape`.
/// Positions are not checked.
result<std::uint64_t> check_points(std::span<const std::span<const std::int64_t>> points, const extents& result_shape,
                                   const extents& shape);

/// The mask has the array's shape and a bit for each element.
result<> check_mask(const mask_selection& which, const extents& shape);

/// Blocks of any grid; see the public function.
result<resolved_basic> resolve(const block_selection& which, const chunk_grid& grid);

}  // namespace penstock::inline v0
