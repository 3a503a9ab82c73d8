#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::inline v0 {

/// Writes the differences of a row's items to those `step` items before, modulo their range: the inverse of `sum_row`.
///
/// \param to          `count * item_bytes` bytes, not overlapping `from`.
/// \param item_bytes  1, 2, 4 or 8; items in native order.
/// Source: TIFF 6.0, section 14.
void subtract_row(std::byte* to, const std::byte* from, std::size_t count, std::uint32_t item_bytes,
                  std::size_t step) noexcept;

/// Splits the floats of a row into planes of bytes, most significant first, and writes the differences of the bytes to
/// those `step` before: the inverse of `restore_float_row`.
///
/// \param item_bytes  2, 4 or 8; items in native order. \param work  `count * item_bytes` bytes.
/// Source: Adobe Photoshop TIFF Technical Note 3.
void split_float_row(std::byte* to, const std::byte* from, std::size_t count, std::uint32_t item_bytes,
                     std::size_t step, std::byte* work) noexcept;

}  // namespace penstock::inline v0
