#pragma once

#include <cstddef>
#include <cstdint>

#include <penstock/shape.h>

namespace penstock::inline v0 {

/// Whether every element of a strided block has exactly the bytes of `item` (item_bytes long).
///
/// `counts` in elements, `steps` in bytes (any sign, and 0). Bits are compared: a NaN equals itself, and -0.0 is not
/// 0.0, so that a block that is omitted as fill value reads back unchanged. Stops at the first difference; contiguous
/// runs are compared at the speed of memory. An empty block is equal.
bool all_equal(const std::byte* data, const strides& steps, const extents& counts, const std::byte* item,
               std::uint32_t item_bytes) noexcept;

}  // namespace penstock::inline v0
