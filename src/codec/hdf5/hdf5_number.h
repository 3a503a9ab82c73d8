#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::inline v0 {

/// How an HDF5 file stores a number: an integer of some bits of an item, or a floating-point number of any fields.
/// Source: HDF5 File Format Specification 4.0, IV.A.2.d, classes 0 and 1.
struct hdf5_number_form {
  std::uint32_t bytes = 0;
  bool big_endian = false;
  bool vax = false;  ///< floating: little-endian words of 16 bits, the highest one first; `bytes` is even
  bool floating = false;

  // Of integers.
  std::uint32_t offset = 0, precision = 0;  ///< at most 64 bits from bit `offset`
  bool is_signed = false;

  // Of floating-point numbers: places in bits, from the lowest one.
  std::uint32_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0, bias = 0;
  bool implied = true;  ///< the highest bit of the mantissa is not stored

  /// Bits [first, first + count) of an item; count <= 64.
  std::uint64_t bits(std::span<const std::byte> item, std::uint32_t first, std::uint32_t count) const noexcept {
    std::uint64_t out = 0;
    for (std::uint32_t i = count; i-- > 0;) {
      const std::uint32_t bit = first + i, byte = bit / 8;
      const std::size_t at = big_endian ? item.size() - 1 - byte : vax ? (item.size() - 1 - byte) ^ 1U : byte;
      out = out << 1 | (static_cast<unsigned>(item[at]) >> (bit % 8) & 1U);
    }
    return out;
  }

  /// An integer in two's complement of 64 bits.
  std::uint64_t integer(std::span<const std::byte> item) const noexcept {
    std::uint64_t value = bits(item, offset, precision);
    if (is_signed && precision < 64 && (value >> (precision - 1) & 1) != 0) value |= ~std::uint64_t{0} << precision;
    return value;
  }

  /// Whether the fields are those of x87's 80 bits, which a long double of x86-64 has in 16 bytes. Other machines and
  /// compilers store them in 10 or 12 bytes, or in the other byte order.
  bool is_extended() const noexcept {
    return floating && !implied && exponent_bits == 15 && mantissa_bits == 64 && bias == 16383;
  }
  /// The number as such a long double, in the byte order of x86-64.
  /// \pre is_extended(). \param to  16 bytes.
  void extended(std::span<const std::byte> item, std::byte* to) const noexcept {
    const std::uint64_t low = bits(item, mantissa, 64), high = bits(item, exponent, 15) | bits(item, sign, 1) << 15;
    for (unsigned i = 0; i < 8; ++i) to[i] = static_cast<std::byte>(low >> (8 * i));
    for (unsigned i = 0; i < 8; ++i) to[8 + i] = static_cast<std::byte>(high >> (8 * i));
  }

  /// VAX has no infinities and no subnormal numbers: a number with an exponent of 0 is 0, or a reserved operand (here
  /// NaN) if it is negative. Source: VAX Architecture Reference Manual, "Data types".
  /// \pre exponent_bits is 1 to 31, mantissa_bits at most 64.
  double real(std::span<const std::byte> item) const noexcept {
    const std::uint64_t stored = bits(item, exponent, exponent_bits), low = bits(item, mantissa, mantissa_bits);
    const bool negative = bits(item, sign, 1) != 0;
    const std::uint64_t fraction =
        implied || mantissa_bits == 0 ? low : low & ~(std::uint64_t{1} << (mantissa_bits - 1));
    double value = 0;
    if (vax && stored == 0) return negative ? std::nan("") : 0;
    if (!vax && stored == (std::uint64_t{1} << exponent_bits) - 1) {
      value = fraction == 0 ? HUGE_VAL : std::nan("");
    } else {
      const double whole = std::ldexp(static_cast<double>(low), -static_cast<int>(mantissa_bits));
      const std::int64_t power = static_cast<std::int64_t>(stored) - static_cast<std::int64_t>(bias);
      constexpr std::int64_t kMost = 100000;  // far beyond what a double has
      const auto scale = static_cast<int>(power < -kMost ? -kMost : power > kMost ? kMost : power);
      if (implied)
        value = stored == 0 ? std::ldexp(whole, scale + 1) : std::ldexp(1 + whole, scale);
      else
        value = std::ldexp(whole * 2, scale);
    }
    return negative ? -value : value;
  }
};

}  // namespace penstock::inline v0
