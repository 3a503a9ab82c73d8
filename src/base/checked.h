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
/// a / b rounded up; b > 0.
inline constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) noexcept { return a / b + (a % b != 0); }

}  // namespace penstock::inline v0
