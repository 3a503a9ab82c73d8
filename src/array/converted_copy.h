#pragma once

#include <cstddef>
#include <cstdint>

#include <penstock/shape.h>
#include "array/conversion.h"

namespace penstock::inline v0 {

/// As strided_copy, with a conversion: elements of `from` have `how.from_bytes`, and `swap_bytes` > 1 reverses them
/// first. Runs that are contiguous on both sides are converted directly; all others go through a block of a few KiB
/// that stays in the first-level cache.
void strided_convert(std::byte* to, const strides& to_strides, const std::byte* from, const strides& from_strides,
                     const extents& counts, const conversion& how, std::uint32_t swap_bytes) noexcept;

/// The same for `count` elements in a line.
void convert_line(std::byte* to, std::int64_t to_step, const std::byte* from, std::int64_t from_step,
                  std::uint64_t count, const conversion& how, std::uint32_t swap_bytes) noexcept;

}  // namespace penstock::inline v0
