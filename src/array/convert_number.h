#pragma once

/// \file Numbers of one type as those of another, bit for bit as NumPy (and ml_dtypes) cast them on x86-64. One source
/// for host and device, without includes that device code cannot have.
///
/// NaNs are converted by their bits: a GPU's conversions return one NaN for all, those of the host keep sign and
/// payload. Source: IEEE 754-2019, 5.4.2 and 6.2.3.

#include <cstdint>
#include <cstring>

#include "base/device_code.h"

namespace penstock::inline v0 {

/// `complex64` and `complex128` are targets of real numbers; complex sources are converted as two floats.
enum class number_kind : std::uint8_t {
  none,
  boolean,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  complex64,
  complex128,
};

/// Bytes of a number; of one part if it is complex.
PENSTOCK_DEVICE_CODE constexpr std::uint32_t part_bytes(number_kind kind) {
  switch (kind) {
    case number_kind::none:
      return 0;
    case number_kind::boolean:
    case number_kind::int8:
    case number_kind::uint8:
      return 1;
    case number_kind::int16:
    case number_kind::uint16:
    case number_kind::float16:
    case number_kind::bfloat16:
      return 2;
    case number_kind::int32:
    case number_kind::uint32:
    case number_kind::float32:
    case number_kind::complex64:
      return 4;
    default:
      return 8;
  }
}

PENSTOCK_DEVICE_CODE constexpr bool is_complex(number_kind kind) {
  return kind == number_kind::complex64 || kind == number_kind::complex128;
}

namespace converting {

template <class To, class From>
PENSTOCK_DEVICE_CODE To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

// An integer, with the sign in all bits above its own.
PENSTOCK_DEVICE_CODE std::uint64_t whole_of(number_kind from, std::uint64_t bits) {
  switch (from) {
    case number_kind::boolean:
      return (bits & 0xFF) != 0 ? 1 : 0;
    case number_kind::int8:
      return static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int8_t>(bits)));
    case number_kind::int16:
      return static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int16_t>(bits)));
    case number_kind::int32:
      return static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int32_t>(bits)));
    default:
      return bits;
  }
}

template <class Real>
PENSTOCK_DEVICE_CODE Real real_of_whole(number_kind from, std::uint64_t bits) {
  const std::uint64_t whole = whole_of(from, bits);
  return from == number_kind::uint64 ? static_cast<Real>(whole) : static_cast<Real>(static_cast<std::int64_t>(whole));
}

PENSTOCK_DEVICE_CODE std::uint32_t single_of_half(std::uint32_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16, exponent = half >> 10 & 31U, fraction = half & 1023U;
  if (exponent == 0) return sign | same_bits<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24F);
  return sign | (exponent == 31 ? 255U : exponent + 112U) << 23 | fraction << 13;
}

PENSTOCK_DEVICE_CODE std::uint64_t double_of_half(std::uint32_t half) {
  const std::uint64_t sign = static_cast<std::uint64_t>(half & 0x8000U) << 48;
  const std::uint64_t exponent = half >> 10 & 31U, fraction = half & 1023U;
  if (exponent == 0) return sign | same_bits<std::uint64_t>(static_cast<double>(fraction) * 0x1p-24);
  return sign | (exponent == 31 ? 2047U : exponent + 1008U) << 52 | fraction << 42;
}

PENSTOCK_DEVICE_CODE std::uint64_t double_of_single(std::uint32_t single) {
  if ((single & 0x7FFFFFFFU) > 0x7F800000U) {
    const std::uint64_t sign = static_cast<std::uint64_t>(single >> 31) << 63;
    const std::uint64_t payload = static_cast<std::uint64_t>(single & 0x7FFFFFU) << 29;
    return sign | 0x7FF8000000000000U | payload;
  }
  return same_bits<std::uint64_t>(static_cast<double>(same_bits<float>(single)));
}

PENSTOCK_DEVICE_CODE std::uint32_t single_of_double(std::uint64_t wide) {
  if ((wide & 0x7FFFFFFFFFFFFFFFU) > 0x7FF0000000000000U) {
    const auto sign = static_cast<std::uint32_t>(wide >> 63) << 31;
    return sign | 0x7FC00000U | (static_cast<std::uint32_t>(wide >> 29) & 0x7FFFFFU);
  }
  return same_bits<std::uint32_t>(static_cast<float>(same_bits<double>(wide)));
}

// To the nearest, ties to even.
PENSTOCK_DEVICE_CODE std::uint32_t half_of_double(std::uint64_t wide) {
  const auto sign = static_cast<std::uint32_t>(wide >> 48) & 0x8000U;
  const std::uint64_t magnitude = wide & 0x7FFFFFFFFFFFFFFFU;
  if (magnitude >= 0x7FF0000000000000U) {
    const std::uint32_t payload = static_cast<std::uint32_t>(magnitude >> 42) & 1023U;
    const bool is_nan = magnitude > 0x7FF0000000000000U;
    return sign | 0x7C00U | (is_nan && payload == 0 ? 1U : payload);
  }
  if (magnitude >= 0x40EFFE0000000000U) return sign | 0x7C00U;  // 65520
  if (magnitude < 0x3F10000000000000U) {
    // Subnormal, or rounds up to the first normal one: adding 2^28 leaves units of 2^-24, rounded by the addition.
    const std::uint64_t moved = same_bits<std::uint64_t>(same_bits<double>(magnitude) + 0x1p28);
    return sign | (static_cast<std::uint32_t>(moved) & 2047U);
  }
  const std::uint64_t rounded = magnitude + ((std::uint64_t{1} << 41) - 1) + (magnitude >> 42 & 1U);
  return sign | static_cast<std::uint32_t>((rounded >> 42) - (std::uint64_t{1008} << 10));
}

PENSTOCK_DEVICE_CODE std::uint32_t half_of_single(std::uint32_t single) {
  if ((single & 0x7FFFFFFFU) > 0x7F800000U) {
    const std::uint32_t payload = single >> 13 & 1023U;
    return (single >> 16 & 0x8000U) | 0x7C00U | (payload == 0 ? 1U : payload);
  }
  return half_of_double(double_of_single(single));
}

// To the nearest, ties to even; there are two NaNs.
PENSTOCK_DEVICE_CODE std::uint32_t brain_of_single(std::uint32_t single) {
  if ((single & 0x7FFFFFFFU) > 0x7F800000U) return (single >> 16 & 0x8000U) | 0x7FC0U;
  return (single + 0x7FFFU + (single >> 16 & 1U)) >> 16;
}

PENSTOCK_DEVICE_CODE std::uint32_t single_bits(number_kind from, std::uint64_t bits) {
  switch (from) {
    case number_kind::float16:
      return single_of_half(static_cast<std::uint32_t>(bits));
    case number_kind::bfloat16:
      return static_cast<std::uint32_t>(bits) << 16;
    case number_kind::float32:
      return static_cast<std::uint32_t>(bits);
    case number_kind::float64:
      return single_of_double(bits);
    default:
      return same_bits<std::uint32_t>(real_of_whole<float>(from, bits));
  }
}

PENSTOCK_DEVICE_CODE std::uint64_t double_bits(number_kind from, std::uint64_t bits) {
  switch (from) {
    case number_kind::float16:
      return double_of_half(static_cast<std::uint32_t>(bits));
    case number_kind::bfloat16:
    case number_kind::float32:
      return double_of_single(single_bits(from, bits));
    case number_kind::float64:
      return bits;
    default:
      return same_bits<std::uint64_t>(real_of_whole<double>(from, bits));
  }
}

PENSTOCK_DEVICE_CODE std::uint32_t half_bits(number_kind from, std::uint64_t bits) {
  if (from == number_kind::float64) return half_of_double(bits);
  if (from == number_kind::bfloat16 && (bits & 0x7FFFU) > 0x7F80U)  // ml_dtypes has one NaN here
    return (static_cast<std::uint32_t>(bits) & 0x8000U) | 0x7E00U;
  return half_of_single(single_bits(from, bits));
}

}  // namespace converting

/// The bits of the number of type `to` for those of type `from`; of the real part if `to` is complex. Integers wrap.
/// Floats to integers, and any number to boolean: the result is unspecified.
PENSTOCK_DEVICE_CODE std::uint64_t convert_number(number_kind from, number_kind to, std::uint64_t bits) {
  switch (to) {
    case number_kind::float16:
      return converting::half_bits(from, bits);
    case number_kind::bfloat16:
      return converting::brain_of_single(converting::single_bits(from, bits));
    case number_kind::float32:
    case number_kind::complex64:
      return converting::single_bits(from, bits);
    case number_kind::float64:
    case number_kind::complex128:
      return converting::double_bits(from, bits);
    default:
      return converting::whole_of(from, bits);
  }
}

}  // namespace penstock::inline v0
