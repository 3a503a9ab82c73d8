#pragma once

#include <cstddef>
#include <cstdint>

#include <penstock/shape.h>

namespace penstock::inline v0 {

/// One copy between two strided blocks of equal shape; the last step of a decode and the first of an encode.
///
/// `counts` in elements, strides in bytes (any sign); `swap_bytes` > 1 reverses the bytes of each unit of that size
/// within an element (a complex64 has two units of 4). The blocks must not overlap. Dimensions are merged and ordered
/// for the longest contiguous inner run; runs are memcpy, swaps use pshufb if the processor has it.
void strided_copy(std::byte* to, const strides& to_strides, const std::byte* from, const strides& from_strides,
                  const extents& counts, std::uint32_t item_bytes, std::uint32_t swap_bytes) noexcept;

/// Writes `item` (item_bytes long) to every element.
void strided_fill(std::byte* to, const strides& to_strides, const extents& counts, const std::byte* item,
                  std::uint32_t item_bytes) noexcept;

/// Reverses each `unit_bytes` unit of a contiguous block in place or from another block.
void swap_contiguous(std::byte* to, const std::byte* from, std::uint64_t bytes, std::uint32_t unit_bytes) noexcept;

/// The same without vector instructions: used on other processors, and as the reference in tests.
void swap_contiguous_portable(std::byte* to, const std::byte* from, std::uint64_t bytes,
                              std::uint32_t unit_bytes) noexcept;

}  // namespace penstock::inline v0
