#pragma once

#include <cstdint>
#include <vector>

#include <penstock/selection.h>
#include <penstock/shape.h>

namespace penstock::inline v0::cli {

/// A range of a selection; its elements follow those of the preceding range in C order.
struct slab {
  basic_selection which;
  extents shape;  ///< one size for each dimension of the array
};

/// Divides a selection into slabs along its first dimension that can be divided.
///
/// A slab holds about `goal_bytes`. If the step is 1, slabs do not divide chunks, so that no chunk is decoded twice;
/// the smallest slab is one layer of chunks. A selection without elements has no slabs.
std::vector<slab> cut_into_slabs(const resolved_basic& all, const extents& chunks, std::uint64_t item_bytes,
                                 std::uint64_t goal_bytes);

}  // namespace penstock::inline v0::cli
