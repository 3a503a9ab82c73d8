#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include <penstock/shape.h>
#include "array/bit_mask.h"
#include "array/conversion.h"

namespace penstock::inline v0 {

/// Adjacent entries of an index list at equal distances: `start + i * step` is copied to `result + i`.
struct index_run {
  std::int64_t start;  // within the cell
  std::int64_t step;   // never 0
  std::uint64_t result;
  std::uint64_t count;
};

/// One dimension of a cell: the selected positions, in the order of the result.
struct run_list {
  const index_run* runs;
  std::size_t size;
};

/// One selected element: its C-order number within the cell's shape and within the result.
struct cell_point {
  std::uint32_t in_cell, in_result;
};

/// Selected elements that are adjacent, in the cell and in the result; both in C order.
struct point_run {
  std::uint64_t in_cell, in_result, count;
};

/// The selected elements of one cell if they are not a box. A view of data that an indexed selection and a placement
/// own.
struct indexed_region {
  enum class kind : std::uint8_t {
    axes,    ///< every combination of the dimensions' lists
    points,  ///< single elements
    runs,    ///< the same, for results or cells of more than 2^32 elements, and if adjacent elements are selected
             ///< together
    mask,    ///< the set bits of the mask in the part that the cell covers
  };
  kind what = kind::axes;
  dim_vector<run_list> axes;
  std::span<const cell_point> points;
  std::span<const point_run> runs;
  const bit_mask* mask = nullptr;          // of the whole array
  std::uint64_t mask_origin = 0;           // the bit of the cell's first element
  dim_vector<std::uint64_t> mask_strides;  // bits between neighbours of each dimension
  extents mask_counts;                     // number of elements of the cell inside the array
  const extents* result_shape = nullptr;  // except for `axes`: the shape in which the numbers in the result are counted
};

/// Number of selected elements, including duplicates.
std::uint64_t wanted_elements(const indexed_region& region) noexcept;

/// A cell and a result in memory. `cell` has any strides; so has the result, with one for each dimension of the array
/// if the region is `axes`, else one for each dimension of `result_shape`.
struct indexed_blocks {
  std::byte* result;
  const strides& result_strides;
  std::byte* cell;
  const strides& cell_strides;
  const extents& cell_shape;
  std::uint32_t item_bytes;
};

/// Copies the selected elements from the cell to the result; `swap_bytes` as in strided_copy.
void indexed_scatter(const indexed_blocks& blocks, const indexed_region& region, std::uint32_t swap_bytes) noexcept;

/// The same with a conversion: elements of the cell have `how.from_bytes`, which is `blocks.item_bytes`.
void indexed_scatter(const indexed_blocks& blocks, const indexed_region& region, std::uint32_t swap_bytes,
                     const conversion& how) noexcept;

/// Copies the elements from the result to the cell. If two have the same destination, the later one in the result is
/// stored.
void indexed_gather(const indexed_blocks& blocks, const indexed_region& region) noexcept;
/// The same with a conversion: elements of the result have `how.from_bytes`, those of the cell `how.to_bytes`, which is
/// `blocks.item_bytes`.
void indexed_gather(const indexed_blocks& blocks, const indexed_region& region, const conversion& how) noexcept;

/// Writes `item` to the selected elements of the result; `blocks.cell` is not used.
void indexed_fill(const indexed_blocks& blocks, const indexed_region& region, const std::byte* item) noexcept;

/// The one stride between adjacent elements of a block in C order, if there is one.
bool linear_stride(const extents& shape, const strides& by, std::int64_t& stride) noexcept;

/// Calls `each` with the elements that a mask selects in a cell of these strides, adjacent ones of a row together: the
/// first one's offset in the cell, its number in the result, and their number.
void for_each_masked(const indexed_region& region, const strides& cell_strides,
                     const std::function<void(std::int64_t, std::uint64_t, std::uint64_t)>& each);

/// How many different elements of the cell are selected. Needs a bit for each element of the cell, except for a mask.
std::uint64_t distinct_elements(const indexed_region& region, const extents& cell_shape);

}  // namespace penstock::inline v0
