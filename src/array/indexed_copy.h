#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include <penstock/shape.h>
#include "array/bit_mask.h"
#include "array/conversion.h"

namespace penstock::inline v0 {

/// Neighbours in an index list whose positions are equally far apart: `start + i * step` goes to `result + i`.
struct index_run {
  std::int64_t start;  // within the cell
  std::int64_t step;   // never 0
  std::uint64_t result;
  std::uint64_t count;
};

/// One dimension of a cell: the wanted positions, in the order of the result.
struct run_list {
  const index_run* runs;
  std::size_t size;
};

/// One wanted element: its C-order number within the cell's shape and within the result.
struct cell_point {
  std::uint32_t in_cell, in_result;
};

/// Wanted elements that follow each other, in the cell and in the result; both in C order.
struct point_run {
  std::uint64_t in_cell, in_result, count;
};

/// The wanted elements of one cell where they are no box. A view, of what an indexed selection and a placement own.
struct indexed_region {
  enum class kind : std::uint8_t {
    axes,    ///< every combination of the dimensions' lists
    points,  ///< single elements
    runs,    ///< the same, for results or cells of more than 2^32 elements, and where neighbours are wanted together
    mask,    ///< the set bits of the part of a mask that the cell covers
  };
  kind what = kind::axes;
  dim_vector<run_list> axes;
  std::span<const cell_point> points;
  std::span<const point_run> runs;
  const bit_mask* mask = nullptr;          // of the whole array
  std::uint64_t mask_origin = 0;           // the bit of the cell's first element
  dim_vector<std::uint64_t> mask_strides;  // bits between neighbours of each dimension
  extents mask_counts;                     // elements of the cell that lie inside the array
  const extents* result_shape = nullptr;   // but for `axes`: what the numbers in the result count
};

/// Wanted elements, duplicates included.
std::uint64_t wanted_elements(const indexed_region& region) noexcept;

/// A cell and a result in memory. `cell` has any strides; so has the result, which has one for each dimension of the
/// array where the region is `axes`, else one for each dimension of `result_shape`.
struct indexed_blocks {
  std::byte* result;
  const strides& result_strides;
  std::byte* cell;
  const strides& cell_strides;
  const extents& cell_shape;
  std::uint32_t item_bytes;
};

/// Copies the wanted elements from the cell to the result; `swap_bytes` as in strided_copy.
void indexed_scatter(const indexed_blocks& blocks, const indexed_region& region, std::uint32_t swap_bytes) noexcept;

/// The same of elements that become others: those of the cell have `how.from_bytes`, which is `blocks.item_bytes`.
void indexed_scatter(const indexed_blocks& blocks, const indexed_region& region, std::uint32_t swap_bytes,
                     const conversion& how) noexcept;

/// Copies them from the result to the cell. Of two that go to the same place the later one in the result stays.
void indexed_gather(const indexed_blocks& blocks, const indexed_region& region) noexcept;
/// The same of elements that become others: those of the result have `how.from_bytes`, those of the cell
/// `how.to_bytes`, which is `blocks.item_bytes`.
void indexed_gather(const indexed_blocks& blocks, const indexed_region& region, const conversion& how) noexcept;

/// Writes `item` to the wanted elements of the result; `blocks.cell` is not used.
void indexed_fill(const indexed_blocks& blocks, const indexed_region& region, const std::byte* item) noexcept;

/// The one stride that leads from element to element of a block in C order, if there is one.
bool linear_stride(const extents& shape, const strides& by, std::int64_t& stride) noexcept;

/// Calls `each` with the elements that a mask wants of a cell of these strides, neighbours of a row together: the
/// first one's offset in the cell, its number in the result, how many.
void for_each_masked(const indexed_region& region, const strides& cell_strides,
                     const std::function<void(std::int64_t, std::uint64_t, std::uint64_t)>& each);

/// How many different elements of the cell are wanted. Takes a bit for each element of the cell, but for a mask.
std::uint64_t distinct_elements(const indexed_region& region, const extents& cell_shape);

}  // namespace penstock::inline v0
