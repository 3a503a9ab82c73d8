#pragma once

#include <penstock/result.h>
#include <penstock/shape.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "array/chunk_grid.h"
#include "format/zarr/zarr_grid.h"

namespace penstock::inline v0 {

/// The different shapes that the objects of an array have, numbered: one, unless the grid is rectilinear. Number 0 is
/// the largest along every dimension, and need not occur.
class object_shapes {
 public:
  /// Each shape needs compiled codecs. Daily data in monthly chunks has four different lengths.
  static constexpr std::uint64_t kMost = 4096;

  object_shapes() = default;
  /// \param objects  The result of object_grid for `grid`.
  /// \error unsupported  More than kMost shapes.
  static result<object_shapes> make(const zarr_grid& grid, const chunk_grid& objects);

  std::size_t count() const noexcept { return count_; }
  /// The shape with that number; in elements.
  extents shape(std::size_t number) const;
  /// The number of the shape of the object at these coordinates of the grid.
  std::size_t of(const dim_vector<std::uint64_t>& at) const noexcept;

 private:
  std::vector<std::vector<std::uint64_t>> lengths_;  // for each dimension the different lengths, longest first
  std::vector<std::vector<std::uint32_t>> place_;    // ... and the number of each object's; empty: all the first
  dim_vector<std::uint32_t> strides_;
  std::size_t count_ = 1;
};

}  // namespace penstock::inline v0
