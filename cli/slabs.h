#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <penstock/selection.h>
#include <penstock/shape.h>

namespace penstock::inline v0::cli {

/// A range of a selection; its elements follow those of the preceding range in C order.
struct slab {
  basic_selection which;
  extents shape;  ///< one size for each dimension of the array
};

/// Divides a selection into slabs along its first dimension that can be divided, one after the other: the slabs of a
/// large array do not fit into memory.
///
/// A slab holds about `goal_bytes`. If the step is 1, slabs do not divide chunks, so that no chunk is decoded twice;
/// the smallest slab is one layer of chunks. A selection without elements has no slabs.
class slab_cutter {
 public:
  slab_cutter(const resolved_basic& all, const extents& chunks, std::uint64_t item_bytes, std::uint64_t goal_bytes);

  /// The next slab; nullopt after the last one.
  std::optional<slab> next();

 private:
  strided_box from_;
  std::size_t axis_ = 0;  ///< the dimension that is divided
  std::uint64_t rows_ = 1, step_ = 1, layer_ = 1, rows_per_slab_ = 1;
  std::uint64_t row_ = 0;
};

}  // namespace penstock::inline v0::cli
