#pragma once

#include <penstock/dtype.h>
#include <penstock/result.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/json.h"

namespace penstock::inline v0 {

/// Parses a `fill_value` into one item: `type.item_bytes()` bytes in native order.
///
/// Takes true and false (and 0 and 1, which zarrita wrote); integers, exact to 64 bits; numbers, `"NaN"`, `"Infinity"`,
/// `"-Infinity"` and bit patterns such as `"0x7fc00001"` for floats; `[re, im]` of those for complex. A number that is
/// too large for its float type becomes infinite, as in NumPy; rounding is to nearest, ties to even.
/// \error corrupt_data  No value of that type. \error unsupported  A type that has no fill values here.
/// Source: Zarr v3 core specification, "Fill value".
result<std::vector<std::byte>> parse_fill_value(const json& value, dtype type);

/// Whether arrays of this type can be read: bool, int8 to uint64, float16 to float64, complex64 and complex128.
bool zarr_type_is_readable(dtype type) noexcept;

/// IEEE 754 binary16 nearest to `value`, ties to even, rounded once.
std::uint16_t half_from_double(double value) noexcept;

}  // namespace penstock::inline v0
