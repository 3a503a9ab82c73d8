#include "array/small_float.h"

#include <bit>
#include <cmath>
#include <limits>

namespace penstock::inline v0 {
namespace {

/// The codes that are not finite numbers.
enum class specials : std::uint8_t {
  ieee,    ///< the highest exponent: infinity, and NaNs
  nan,     ///< all ones are NaN, and there is no infinity
  fnuz,    ///< the bits of -0 are NaN, and there is no infinity
  finite,  ///< nothing
  scale,   ///< e8m0: no sign and no fraction, all ones are NaN
};

struct layout_of_bits {
  unsigned exponent, fraction;
  int bias;
  specials other;
};

layout_of_bits layout_of(float_format format, unsigned bits) noexcept {
  switch (format) {
    case float_format::ieee:
      if (bits == 16) return {5, 10, 15, specials::ieee};
      if (bits == 32) return {8, 23, 127, specials::ieee};
      return {11, 52, 1023, specials::ieee};
    case float_format::bfloat16:
      return {8, 7, 127, specials::ieee};
    case float_format::float8_e3m4:
      return {3, 4, 3, specials::ieee};
    case float_format::float8_e4m3:
      return {4, 3, 7, specials::ieee};
    case float_format::float8_e4m3b11fnuz:
      return {4, 3, 11, specials::fnuz};
    case float_format::float8_e4m3fn:
      return {4, 3, 7, specials::nan};
    case float_format::float8_e4m3fnuz:
      return {4, 3, 8, specials::fnuz};
    case float_format::float8_e5m2:
      return {5, 2, 15, specials::ieee};
    case float_format::float8_e5m2fnuz:
      return {5, 2, 16, specials::fnuz};
    case float_format::float8_e8m0fnu:
      return {8, 0, 127, specials::scale};
    case float_format::float6_e2m3fn:
      return {2, 3, 1, specials::finite};
    case float_format::float6_e3m2fn:
      return {3, 2, 3, specials::finite};
    case float_format::float4_e2m1fn:
      return {2, 1, 1, specials::finite};
  }
  return {};
}

/// The magnitude of exponent and fraction bits, also if they encode a special value.
double magnitude_of(std::uint64_t code, const layout_of_bits& how) noexcept {
  const auto exponent = static_cast<int>(code >> how.fraction);
  const std::uint64_t fraction = code & ((std::uint64_t{1} << how.fraction) - 1);
  if (how.other == specials::scale) return std::ldexp(1.0, exponent - how.bias);
  if (exponent == 0) return std::ldexp(static_cast<double>(fraction), 1 - how.bias - static_cast<int>(how.fraction));
  return std::ldexp(static_cast<double>(fraction | std::uint64_t{1} << how.fraction),
                    exponent - how.bias - static_cast<int>(how.fraction));
}

/// The largest code of a finite magnitude.
std::uint64_t largest(const layout_of_bits& how) noexcept {
  const std::uint64_t ones = (std::uint64_t{1} << (how.exponent + how.fraction)) - 1;
  if (how.other == specials::ieee) return ones - (std::uint64_t{1} << how.fraction);
  return how.other == specials::nan || how.other == specials::scale ? ones - 1 : ones;
}

}  // namespace

bool has_infinity(float_format format) noexcept { return layout_of(format, 64).other == specials::ieee; }
bool has_nan(float_format format) noexcept { return layout_of(format, 64).other != specials::finite; }

std::uint64_t usual_nan(float_format format, unsigned bits) noexcept {
  const layout_of_bits how = layout_of(format, bits);
  const std::uint64_t ones = (std::uint64_t{1} << (how.exponent + how.fraction)) - 1;
  switch (how.other) {
    case specials::ieee:
      return (ones >> how.fraction << how.fraction) | std::uint64_t{1} << (how.fraction - 1);
    case specials::nan:
    case specials::scale:
      return ones;
    case specials::fnuz:
      return ones + 1;
    case specials::finite:
      break;
  }
  return 0;
}

float_neighbours neighbours_of(long double magnitude_wanted, float_format format, unsigned bits) noexcept {
  const layout_of_bits how = layout_of(format, bits);
  // Magnitudes ascend with their codes: find the last one that is not greater.
  std::uint64_t low = 0, high = largest(how);
  while (low < high) {
    const std::uint64_t middle = low + (high - low + 1) / 2;
    if (magnitude_of(middle, how) <= magnitude_wanted) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return {low, magnitude_of(low, how), magnitude_of(low + 1, how), low == largest(how)};
}

std::uint64_t sign_bit(float_format format, unsigned bits) noexcept {
  const layout_of_bits how = layout_of(format, bits);
  return how.other == specials::scale ? 0 : std::uint64_t{1} << (how.exponent + how.fraction);
}

std::uint64_t infinity_bits(float_format format, unsigned bits) noexcept {
  const layout_of_bits how = layout_of(format, bits);
  return ((std::uint64_t{1} << how.exponent) - 1) << how.fraction;
}

double double_from_bits(std::uint64_t pattern, float_format format, unsigned bits) noexcept {
  const layout_of_bits how = layout_of(format, bits);
  const unsigned width = how.exponent + how.fraction;
  const std::uint64_t code = pattern & ((std::uint64_t{1} << width) - 1);
  const bool negative = how.other != specials::scale && (pattern >> width & 1) != 0;
  double value = 0;
  if (how.other == specials::fnuz && negative && code == 0) return std::numeric_limits<double>::quiet_NaN();
  if (how.other == specials::fnuz || code <= largest(how)) {
    value = magnitude_of(code, how);
  } else if (how.other == specials::ieee && (code & ((std::uint64_t{1} << how.fraction) - 1)) == 0) {
    value = std::numeric_limits<double>::infinity();
  } else {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return negative ? -value : value;
}

std::uint64_t bits_from_double(double value, float_format format, unsigned bits) noexcept {
  const layout_of_bits how = layout_of(format, bits);
  if (std::isnan(value)) return usual_nan(format, bits);
  if (how.other == specials::scale && value < 0) return usual_nan(format, bits);
  const double wanted = std::abs(value);
  const auto [code, below, above, is_largest] = neighbours_of(wanted, format, bits);
  std::uint64_t low = code;
  if (wanted > below && (wanted - below > above - wanted || (wanted - below == above - wanted && (low & 1) != 0)))
    ++low;
  if (low > largest(how)) {
    if (how.other == specials::finite) {
      low = largest(how);
    } else if (how.other != specials::ieee) {
      return usual_nan(format, bits);
    }
  }
  const bool negative = std::signbit(value);
  if (how.other == specials::fnuz && low == 0) return low;  // no -0
  return low | (negative ? sign_bit(format, bits) : 0);
}

std::uint16_t half_from_double(double value) noexcept {
  return static_cast<std::uint16_t>(bits_from_double(value, float_format::ieee, 16));
}

}  // namespace penstock::inline v0
