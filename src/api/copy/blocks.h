#pragma once

#include <cstdint>

#include <penstock/shape.h>

namespace penstock::inline v0 {

/// Blocks in which an array is read once: whole multiples of `unit`, and whole chunks of the array if `most` bytes
/// suffice. They are long in the last dimensions: runs of files in C order.
/// \param chunks  Of the array; empty: none.
extents block_of(const extents& shape, const extents& unit, const extents& chunks, std::uint64_t item_bytes,
                 std::uint64_t most);

/// Saturating.
std::uint64_t bytes_of(const extents& block, std::uint64_t item_bytes) noexcept;

}  // namespace penstock::inline v0
