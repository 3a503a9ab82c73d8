#pragma once

#include <penstock/dtype.h>

#include <cstdint>

namespace penstock::inline v0 {

/// Floating-point numbers of 16 bits or fewer, converted one at a time: for fill values, and codecs with arithmetic.
/// Source: IEEE 754; ml_dtypes' descriptions of its types; OCP Microscaling Formats.

/// The bits of `bits` width nearest to `value`, ties to even, rounded once. Beyond the largest number: infinity, or
/// NaN, or (formats with neither) the largest number, as in ml_dtypes.
/// \param bits  16 for ieee and bfloat16; otherwise the width of the format.
std::uint64_t bits_from_double(double value, float_format format, unsigned bits) noexcept;

/// The finite numbers of a format around a magnitude, without their signs.
struct float_neighbours {
  std::uint64_t code = 0;  ///< bits of `below`
  double below = 0;        ///< the largest number that is not greater than the magnitude; the smallest if all are
  double above = 0;        ///< the next one; above the largest: the next number if the format continued
  bool is_largest = false;
};
float_neighbours neighbours_of(long double magnitude, float_format format, unsigned bits) noexcept;

/// The sign bit; 0 if the format has none.
std::uint64_t sign_bit(float_format format, unsigned bits) noexcept;

/// The number with these bits.
double double_from_bits(std::uint64_t pattern, float_format format, unsigned bits) noexcept;

/// The usual quiet NaN; 0 if the format has none.
std::uint64_t usual_nan(float_format format, unsigned bits) noexcept;

/// Whether the format has infinities.
bool has_infinity(float_format format) noexcept;
/// The bits of positive infinity, if the format has it.
std::uint64_t infinity_bits(float_format format, unsigned bits) noexcept;

/// Whether the format has a NaN.
bool has_nan(float_format format) noexcept;

/// IEEE 754 binary16 nearest to `value`, ties to even, rounded once.
std::uint16_t half_from_double(double value) noexcept;

}  // namespace penstock::inline v0
