#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::inline v0 {

/// Halves rows of pixels: the most frequent of four, bit for bit; the first one of several, by rows. At odd edges the
/// last pixel counts twice.
///
/// \param to          (rows + 1) / 2 rows of (width + 1) / 2 items, contiguous.
/// \param from_row    Bytes between the rows of `from`, any sign. \param from_pixel  Between its items.
/// \param item_bytes  1, 2, 4 or 8.
void halve_by_mode(std::byte* to, const std::byte* from, std::ptrdiff_t from_row, std::ptrdiff_t from_pixel,
                   std::uint64_t rows, std::uint64_t width, std::uint32_t item_bytes) noexcept;

}  // namespace penstock::inline v0
