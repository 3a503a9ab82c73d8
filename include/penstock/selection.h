#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <penstock/result.h>
#include <penstock/shape.h>

namespace penstock::inline v0 {

/// `start:stop:step` as Python writes it; absent parts take Python's defaults.
struct slice {
  std::optional<std::int64_t> start, stop, step;
  friend bool operator==(const slice&, const slice&) = default;
};
struct ellipsis_t {
  friend bool operator==(const ellipsis_t&, const ellipsis_t&) = default;
};
struct newaxis_t {
  friend bool operator==(const newaxis_t&, const newaxis_t&) = default;
};
inline constexpr ellipsis_t ellipsis{};
inline constexpr newaxis_t newaxis{};

/// One item of a basic index.
using basic_item = std::variant<std::int64_t, slice, ellipsis_t, newaxis_t>;
/// Positions along one dimension, in any order, also more than once.
using index_list = std::vector<std::int64_t>;
/// One dimension of an orthogonal index. A boolean mask is equivalent to the list of its true positions.
using orthogonal_item = std::variant<std::int64_t, slice, index_list>;
/// One dimension of a block index: a block, or a slice of blocks.
using block_item = std::variant<std::int64_t, slice>;

struct basic_selection {
  std::vector<basic_item> items;  ///< fewer items than dimensions: the others are selected as a whole
};
struct orthogonal_selection {
  std::vector<orthogonal_item> items;
};
struct coordinate_selection {
  std::vector<index_list> points;  ///< one list for each dimension, all of the same length
  extents shape;                   ///< shape of the result; its product is that length
};
struct mask_selection {
  extents shape;                     ///< equal to the array's
  std::vector<std::uint64_t> words;  ///< C order: element i is bit i % 64 of word i / 64

  /// Packs one byte for each element; 0 is false.
  PENSTOCK_API static mask_selection pack(const extents& shape, std::span<const std::uint8_t> bytes);
};
struct block_selection {
  std::vector<block_item> items;  ///< in units of storage objects: chunks, or shards if the array is sharded
};

/// The selected elements of an array: a value that belongs to no array. The five kinds are zarr-python's.
using selection =
    std::variant<basic_selection, orthogonal_selection, coordinate_selection, mask_selection, block_selection>;

/// A basic selection resolved against a shape.
struct resolved_basic {
  strided_box from;              ///< one range for each dimension of the array; ints have count 1
  extents shape;                 ///< shape of the result, ints dropped and new axes added
  dim_vector<std::int8_t> axis;  ///< for each dimension of the array its axis in the result, or -1 if an int dropped it
};

class indexed_selection;  // src/plan/indexed_selection.h

/// Any selection resolved against one array (`array::select`), so that the work on its index lists is done once.
struct resolved_selection : resolved_basic {
  /// Set if the selection is not a box; then only `shape` has a meaning in addition. Null: `from` and `axis` are the
  /// selection.
  std::shared_ptr<const indexed_selection> indexed;
};

/// Resolves ints, slices, Ellipsis and newaxis with NumPy's semantics.
///
/// \error out_of_range  An int exceeds its dimension, there are more items than dimensions, or two ellipses (NumPy's
///                      IndexError).
/// \error invalid_argument  A slice step of 0 (NumPy's ValueError).
/// Source: NumPy user guide, "Basic indexing".
PENSTOCK_API result<resolved_basic> resolve(const basic_selection& which, const extents& shape);

/// The positions along each dimension, as lists: an orthogonal selection resolved against a shape.
struct resolved_orthogonal {
  std::vector<std::variant<axis_range, index_list>> from;  ///< negative positions already wrapped, all within the shape
  extents shape;
  dim_vector<std::int8_t> axis;
};
PENSTOCK_API result<resolved_orthogonal> resolve(const orthogonal_selection& which, const extents& shape);

/// Points after negative positions were wrapped and all were checked.
PENSTOCK_API result<coordinate_selection> resolve(const coordinate_selection& which, const extents& shape);
/// The points at which the mask is true, in C order.
PENSTOCK_API result<coordinate_selection> resolve(const mask_selection& which, const extents& shape);
/// The box that the blocks cover, cut at the array's edge. An int keeps its dimension, as in zarr-python.
PENSTOCK_API result<resolved_basic> resolve(const block_selection& which, const extents& shape, const extents& chunks);

/// Parses `0:10, ::2, ..., 3, None`, with or without the brackets: the argument of `penstock read URI`.
/// \error invalid_argument  Names the item that is not an int, a slice, `...` or `None`.
PENSTOCK_API result<basic_selection> parse_selection(std::string_view text);

/// The inverse of parse_selection.
PENSTOCK_API std::string to_string(const basic_selection& which);

}  // namespace penstock::inline v0
