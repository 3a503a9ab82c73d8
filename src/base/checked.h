#pragma once

#include <cstdint>

namespace penstock::inline v0 {

/// Arithmetic on sizes that come from files: false where the result leaves 64 bits.
[[nodiscard]] inline bool checked_add(std::uint64_t a, std::uint64_t b, std::uint64_t& out) noexcept {
  return !__builtin_add_overflow(a, b, &out);
}
[[nodiscard]] inline bool checked_mul(std::uint64_t a, std::uint64_t b, std::uint64_t& out) noexcept {
  return !__builtin_mul_overflow(a, b, &out);
}
/// The same for bounds: the largest number where the result leaves 64 bits.
inline constexpr std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t out = 0;
  return __builtin_add_overflow(a, b, &out) ? ~std::uint64_t{0} : out;
}
inline constexpr std::uint64_t saturating_mul(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t out = 0;
  return __builtin_mul_overflow(a, b, &out) ? ~std::uint64_t{0} : out;
}
/// a / b rounded up; b > 0.
inline constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) noexcept { return a / b + (a % b != 0); }
/// |value|, which has one more value than fits below the sign.
inline constexpr std::uint64_t magnitude(std::int64_t value) noexcept {
  return value < 0 ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value);
}
/// The next multiple of `unit` that is not less; one that 64 bits hold.
inline constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}

}  // namespace penstock::inline v0
