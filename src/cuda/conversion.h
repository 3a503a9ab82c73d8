#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <penstock/dtype.h>
#include <penstock/result.h>
#include "cuda/move/convert.h"

namespace penstock::inline v0::cuda {

/// How elements of one type become those of another on the device. Complex numbers that become others are two parts.
struct conversion {
  number_kind from = number_kind::none, to = number_kind::none;  ///< of a part
  std::uint32_t parts = 1;
  std::uint32_t from_bytes = 0, to_bytes = 0;  ///< of an element

  bool converts() const noexcept { return from != number_kind::none; }
};

/// Booleans, integers, floats of 16 bits and more, and complex numbers of these, as NumPy's "same_kind" casting and
/// one step more: any float may become any other. Equal types give a conversion that converts nothing.
/// \error invalid_argument  Values would leave their kind: a float does not become an integer.
/// \error unsupported  Types that only the host converts.
result<conversion> conversion_of(const dtype& from, const dtype& to);

/// One element, in native byte order. `to` has `how.to_bytes`.
void convert_item(const conversion& how, const std::byte* from, std::byte* to) noexcept;

}  // namespace penstock::inline v0::cuda
