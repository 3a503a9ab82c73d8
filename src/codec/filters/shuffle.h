#pragma once

#include <cstddef>
#include <span>

namespace penstock::inline v0 {

/// Items from their byte planes: byte j of item i is `shuffled[j * plane + i]`.
///
/// \param plane  Items in each plane.
/// \param first  Number of the first item to make.
/// \param out    Whole items, as many as fit.
/// \param item   Bytes of an item, at least 2.
void unshuffle(const std::byte* shuffled, std::size_t plane, std::size_t first, std::span<std::byte> out,
               std::size_t item);

}  // namespace penstock::inline v0
