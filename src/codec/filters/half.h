#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace penstock::inline v0 {

/// IEEE 754 binary16, for which these compilers do not have a type everywhere. Arithmetic is that of float, rounded
/// once.
struct half {
  std::uint16_t bits = 0;

  half() noexcept = default;
  explicit half(double value) noexcept : bits(from(value)) {}
  explicit operator double() const noexcept { return static_cast<double>(static_cast<float>(*this)); }
  explicit operator float() const noexcept {
    const std::uint32_t sign = std::uint32_t{bits} >> 15 << 31;
    const std::uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023u;
    if (exponent == 0) {
      const float value = static_cast<float>(fraction) * 0x1p-24f;
      return sign != 0 ? -value : value;
    }
    const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
    return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
  }

  /// To the nearest, ties to even, as in NumPy; infinite beyond 65519.99...; NaN keeps its upper bits.
  static std::uint16_t from(double value) noexcept {
    const std::uint64_t wide = std::bit_cast<std::uint64_t>(value);
    const auto sign = static_cast<std::uint16_t>(wide >> 48 & 0x8000);
    const std::uint64_t magnitude = wide & ~(std::uint64_t{1} << 63);
    if (magnitude >= std::uint64_t{0x7ff} << 52) {
      const auto kept = static_cast<std::uint16_t>(magnitude >> 42 & 1023);
      const bool is_nan = magnitude > std::uint64_t{0x7ff} << 52;
      return static_cast<std::uint16_t>(sign | 0x7c00 | (is_nan && kept == 0 ? 1 : kept));
    }
    if (magnitude >= std::uint64_t{0x40effe00} << 32) return static_cast<std::uint16_t>(sign | 0x7c00);  // 65520
    if (magnitude < std::uint64_t{0x3f100000} << 32) {
      // Subnormal, or rounds up to the first normal one: adding 2^28 leaves units of 2^-24, rounded by the addition.
      const double moved = std::bit_cast<double>(magnitude) + 0x1p28;
      return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint64_t>(moved) & 2047));
    }
    const std::uint64_t lost = std::uint64_t{1} << 42;
    const std::uint64_t rounded = magnitude + (lost / 2 - 1) + (magnitude >> 42 & 1);
    return static_cast<std::uint16_t>(sign | ((rounded >> 42) - (std::uint64_t{1008} << 10)));
  }
};

}  // namespace penstock::inline v0
