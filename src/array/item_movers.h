#pragma once

/// \file Moves of one element, used by strided and indexed copies.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "array/strided_copy.h"

namespace penstock::inline v0 {

/// Moves one element of a fixed size; reverses `Unit` bytes at a time if it is not 1.
template <std::uint32_t Item, std::uint32_t Unit>
struct fixed_mover {
  void operator()(std::byte* to, const std::byte* from) const noexcept {
    if constexpr (Unit <= 1) {
      std::byte item[Item];
      std::memcpy(item, from, Item);
      std::memcpy(to, item, Item);
    } else if constexpr (Item == Unit) {
      reverse(to, from);
    } else {
      for (std::uint32_t i = 0; i < Item; i += Unit) reverse(to + i, from + i);
    }
  }

 private:
  static void reverse(std::byte* to, const std::byte* from) noexcept {
    if constexpr (Unit == 2) {
      std::uint16_t value;
      std::memcpy(&value, from, 2);
      value = __builtin_bswap16(value);
      std::memcpy(to, &value, 2);
    } else if constexpr (Unit == 4) {
      std::uint32_t value;
      std::memcpy(&value, from, 4);
      value = __builtin_bswap32(value);
      std::memcpy(to, &value, 4);
    } else {
      static_assert(Unit == 8);
      std::uint64_t value;
      std::memcpy(&value, from, 8);
      value = __builtin_bswap64(value);
      std::memcpy(to, &value, 8);
    }
  }
};

struct general_mover {
  std::uint32_t item, unit;
  void operator()(std::byte* to, const std::byte* from) const noexcept {
    if (unit <= 1) {
      std::memcpy(to, from, item);
    } else {
      swap_contiguous(to, from, item, unit);
    }
  }
};

}  // namespace penstock::inline v0
