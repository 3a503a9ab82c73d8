#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <penstock/dtype.h>
#include <penstock/result.h>
#include "array/convert_number.h"

namespace penstock::inline v0 {

struct number_unpacking;  // array/unpack_items.h

/// How elements of one type become those of another, on the host and on devices. Complex numbers that become others are
/// two parts.
struct conversion {
  number_kind from = number_kind::none, to = number_kind::none;  ///< of a part
  std::uint32_t parts = 1;
  std::uint32_t from_bytes = 0, to_bytes = 0;  ///< of an element
  /// Not null: elements are also scaled and compared with nodata. Borrowed. Of `convert_items` alone.
  const number_unpacking* unpack = nullptr;

  bool converts() const noexcept { return from != number_kind::none; }
};

/// Booleans, integers, floats of 16 bits and more, and complex numbers of these, as NumPy's "same_kind" casting and
/// one step more: any float may become any other. Equal types give a conversion that converts nothing.
/// \error invalid_argument  Values would leave their kind: a float does not become an integer.
/// \error unsupported  Other types.
result<conversion> conversion_of(const dtype& from, const dtype& to);

/// One element, in native byte order. `to` has `how.to_bytes`.
void convert_item(const conversion& how, const std::byte* from, std::byte* to) noexcept;
/// `count` elements that follow each other, in native byte order; any alignment.
void convert_items(const conversion& how, const std::byte* from, std::byte* to, std::uint64_t count) noexcept;

/// What a read makes of an array's elements, or a write of the caller's.
struct element_conversion {
  conversion how;
  alignas(16) std::byte fill[16] = {};  ///< of a read: what the fill value becomes

  /// Of a read of boxes in which elements become others by their place along an axis of the array, `by_axis`: `how` of
  /// each place along the result's axis; its `unpack` is not null. Empty: `how` is of all.
  std::vector<conversion> along;
  std::size_t by_axis = 0;
  /// What the fill value becomes at each of these places.
  std::vector<std::array<std::byte, 16>> fills;
};

}  // namespace penstock::inline v0
