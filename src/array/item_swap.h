#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <penstock/dtype.h>

namespace penstock::inline v0 {

/// This machine's byte order.
inline constexpr bool kNativeBig = std::endian::native == std::endian::big;

/// The fields of a structure that are not structures themselves, including nested ones; 1 for every other type.
std::size_t leaf_count(const dtype& type) noexcept;

/// Reverses the bytes of every unit of each item in place, a structure's field by field.
///
/// \param leaves  Not empty: which leaves, in order, are reversed (leaf_count of them).
void swap_items(std::byte* items, std::uint64_t count, const dtype& type, const std::vector<bool>& leaves) noexcept;

}  // namespace penstock::inline v0
