#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <penstock/dtype.h>

namespace penstock::inline v0 {

/// How the pixels of an overview are computed from those of the level before.
struct overview_rule {
  dtype type;
  bool average = true;  ///< the mean of a pixel's four; else the one at its upper left
  /// One native item for missing pixels; empty: none. NaN is always missing.
  std::span<const std::byte> nodata;
};

/// Halves rows of one band: `rows` x `width` items to (rows + 1) / 2 x (width + 1) / 2.
///
/// A mean is over the valid pixels of the four: at odd edges two or one, without nodata and NaN; missing if none is
/// valid. Integers are rounded, halves up. A mean that equals nodata is replaced by one of its values.
///
/// \param to             Rows `to_row_bytes` apart, items contiguous.
/// \param from_row       Bytes between the rows of `from`, any sign. \param from_pixel  Between its items.
/// \param valid          Not null: one byte for each pixel, rows `valid_row` apart; 0 is not valid. If none of the four
///              is valid, the mean is that of all four.
void halve_rows(std::byte* to, std::size_t to_row_bytes, const std::byte* from, std::ptrdiff_t from_row,
                std::ptrdiff_t from_pixel, std::uint64_t rows, std::uint64_t width, const overview_rule& rule,
                const std::byte* valid = nullptr, std::size_t valid_row = 0) noexcept;

/// Halves a mask, one byte for each pixel, rows contiguous: 255 if one of the four is not 0 (`average`), or if the one
/// at the upper left is not.
void halve_mask(std::byte* to, const std::byte* from, std::uint64_t rows, std::uint64_t width, bool average) noexcept;

}  // namespace penstock::inline v0
