#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <penstock/result.h>
#include <penstock/shape.h>
#include "array/chunk_grid.h"

namespace penstock::inline v0 {

/// The dimension whose neighbours are adjacent in memory: the last one (C), or the first one (Fortran).
enum class storage_order : std::uint8_t { c, fortran };

/// Uncompressed contiguous data has no chunks. It is read as if it were divided into blocks of about this size: enough
/// of them for all threads, each long enough for one request.
inline constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 20;
/// An array is divided into at most about this many blocks; larger ones have larger blocks.
inline constexpr std::uint64_t kMaxBlocks = std::uint64_t{1} << 22;

/// Bytes between neighbours of each dimension, without gaps. `shape` has fewer than 2^63 bytes.
strides stored_strides(const extents& shape, std::uint32_t item_bytes, storage_order order) noexcept;

/// The shape of the blocks: whole rows, or a part of one, of at most `target_bytes` (but at least one item). Outer
/// dimensions have length 1, one dimension is divided, the inner ones are complete: so every block is contiguous.
///
/// `shape` has no empty dimension. A target of 0 is kBlockBytes, or more if the array would have too many blocks.
extents contiguous_block(const extents& shape, std::uint32_t item_bytes, storage_order order,
                         std::uint64_t target_bytes = 0) noexcept;

/// The division into cells of a dimension that many parts share, one after the other.
struct part_cuts {
  std::vector<std::uint64_t> edges;  ///< from 0 to the sum of all lengths
  std::vector<std::uint32_t> parts;  ///< for each cell, the number of its part
};

/// Divides each part into cells of `block` elements and a rest at its end; no cell is in two parts.
///
/// \param lengths   Of the parts; empty parts have no cell.
/// \param max_rests The most different lengths of the rests. If there would be more, rests are divided into powers of
///              two, so that the number of different cells stays small.
/// \error unsupported  More than 2^32 parts, 2^32 cells, or 2^63 elements.
result<part_cuts> cut_parts(std::span<const std::uint64_t> lengths, std::uint64_t block,
                            std::uint64_t max_rests = 1024);

/// The same for one part: edges 0, block, 2 * block, ..., length. `length` is not 0.
result<grid_axis> block_axis(std::uint64_t length, std::uint64_t block);

}  // namespace penstock::inline v0
