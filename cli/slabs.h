#pragma once

#include <cstdint>
#include <vector>

#include <penstock/selection.h>
#include <penstock/shape.h>

namespace penstock::inline v0::cli {

/// One piece of a selection whose elements follow those of the piece before it in C order.
struct slab {
  basic_selection which;
  extents shape;  ///< one size for each dimension of the array
};

/// Cuts a selection into slabs along its first dimension that can be cut.
///
/// A slab holds about `goal_bytes`, and never cuts a chunk between two slabs where the step is 1, so that no chunk is
/// decoded twice; one layer of chunks is the least. No elements: no slabs.
std::vector<slab> cut_into_slabs(const resolved_basic& all, const extents& chunks, std::uint64_t item_bytes,
                                 std::uint64_t goal_bytes);

}  // namespace penstock::inline v0::cli
