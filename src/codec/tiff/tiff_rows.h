#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::inline v0 {

/// Undoes horizontal differences within a row of `count` items of `item_bytes` (1, 2, 4, 8), `step` items apart, in
/// native order. Source: TIFF 6.0, section 14.
///
/// \param from  May be `to`. \param swap  The items are in the other byte order.
void sum_row(std::byte* to, const std::byte* from, std::size_t count, std::uint32_t item_bytes, std::size_t step,
             bool swap) noexcept;

/// Undoes the floating-point predictor within a row of `count` items of `item_bytes` (2, 3, 4, 8): bytes are summed
/// `step` apart, and are in planes, most significant first. Writes native items (3 bytes: into 4).
///
/// \param work  `count * item_bytes` bytes. Source: Adobe Photoshop TIFF Technical Note 3.
void restore_float_row(std::byte* to, const std::byte* from, std::size_t count, std::uint32_t item_bytes,
                       std::size_t step, std::byte* work) noexcept;

/// Unpacks `count` integers of `bits` (1 to 64), most significant bit first, into native items of `item_bytes`.
void unpack_row(std::byte* to, const std::byte* from, std::size_t count, std::uint32_t bits, std::uint32_t item_bytes,
                bool is_signed) noexcept;

}  // namespace penstock::inline v0
