#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <penstock/result.h>
#include <penstock/shape.h>
#include "array/chunk_grid.h"

namespace penstock::inline v0 {

/// Which dimension's neighbours lie next to each other: the last one's (C), or the first one's (Fortran).
enum class storage_order : std::uint8_t { c, fortran };

/// Uncompressed contiguous data has no chunks. It is read as if it were cut into blocks of about this size: enough of
/// them for all threads, each long enough for one request.
inline constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 20;
/// No array is cut into more blocks than about this many; larger ones have larger blocks.
inline constexpr std::uint64_t kMaxBlocks = std::uint64_t{1} << 22;

/// Bytes between neighbours of each dimension, without gaps. `shape` has fewer than 2^63 bytes.
strides stored_strides(const extents& shape, std::uint32_t item_bytes, storage_order order) noexcept;

/// The shape of the blocks: whole rows, or a part of one, of at most `target_bytes` (but at least one item). Outer
/// dimensions have length 1, one dimension is cut, the inner ones are whole: so every block is contiguous.
///
/// `shape` has no empty dimension. A target of 0 is kBlockBytes, or more where the array would have too many blocks.
extents contiguous_block(const extents& shape, std::uint32_t item_bytes, storage_order order,
                         std::uint64_t target_bytes = 0) noexcept;

/// Where a dimension that many parts share, one behind the other, is cut into cells.
struct part_cuts {
  std::vector<std::uint64_t> edges;  ///< from 0 to the sum of all lengths
  std::vector<std::uint32_t> parts;  ///< for each cell, the number of its part
};

/// Cuts each part into cells of `block` elements and what is left at its end; no cell lies in two parts.
///
/// \param lengths   Of the parts; empty parts have no cell.
/// \param max_rests What is left at the ends may have so many different lengths. Where there would be more, rests are
///                  cut into powers of two, so that the number of different cells stays small.
/// \error unsupported  More than 2^32 parts, 2^32 cells, or 2^63 elements.
result<part_cuts> cut_parts(std::span<const std::uint64_t> lengths, std::uint64_t block,
                            std::uint64_t max_rests = 1024);

/// The same for one part: edges 0, block, 2 * block, ..., length. `length` is not 0.
result<grid_axis> block_axis(std::uint64_t length, std::uint64_t block);

}  // namespace penstock::inline v0
