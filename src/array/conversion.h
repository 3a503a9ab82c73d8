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

/// A conversion of elements from one type to another, on the host and on devices. Complex numbers are converted as two
/// parts.
struct conversion {
  number_kind from = number_kind::none, to = number_kind::none;  ///< kinds of one part of a complex number
  std::uint32_t parts = 1;
  std::uint32_t from_bytes = 0, to_bytes = 0;  ///< bytes of an element
  /// Not null: elements are also scaled and compared with nodata. Borrowed. For `convert_items` only.
  const number_unpacking* unpack = nullptr;

  bool converts() const noexcept { return from != number_kind::none; }
};

/// Converts booleans, integers, floats of 16 bits and more, and complex numbers of these, as NumPy's "same_kind"
/// casting does. In addition, any float may become any other. For equal types the conversion changes nothing.
/// \error invalid_argument  Values would leave their kind: a float does not become an integer.
/// \error unsupported  Other types.
result<conversion> conversion_of(const dtype& from, const dtype& to);

/// One element, in native byte order. `to` has `how.to_bytes`.
void convert_item(const conversion& how, const std::byte* from, std::byte* to) noexcept;
/// `count` adjacent elements, in native byte order; any alignment.
void convert_items(const conversion& how, const std::byte* from, std::byte* to, std::uint64_t count) noexcept;

/// The conversion in a read of an array's elements, or in a write of the caller's.
struct element_conversion {
  conversion how;
  alignas(16) std::byte fill[16] = {};  ///< in a read: the converted fill value

  /// In a read of boxes whose elements are converted by their position along an axis of the array, `by_axis`: the
  /// conversion for each position along the result's axis; its `unpack` is not null. Empty: `how` applies to all.
  std::vector<conversion> along;
  std::size_t by_axis = 0;
  /// The converted fill value at each of these positions.
  std::vector<std::array<std::byte, 16>> fills;
};

}  // namespace penstock::inline v0
