#include "codec/filters/real_number.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "array/small_float.h"

namespace penstock::inline v0 {
namespace {

std::optional<std::uint64_t> round_to_integer(const real_number& type, long double value, rounding rule,
                                              beyond out_of_range) noexcept {
  if (!std::isfinite(value)) return std::nullopt;
  const int width = static_cast<int>(type.type().bits());
  const long double whole = round_whole(value, rule);
  const long double end = std::ldexp(1.0L, type.is_signed() ? width - 1 : width);
  const long double begin = type.is_signed() ? -end : 0;
  if (whole >= begin && whole < end) return type.bits_of_integer(whole);
  if (out_of_range == beyond::error) return std::nullopt;
  if (out_of_range == beyond::clamp) return type.bits_of_integer(whole < begin ? begin : end - 1);
  const auto rest = static_cast<std::uint64_t>(std::fmod(std::abs(whole), std::ldexp(1.0L, width)));
  return (whole < 0 ? 0 - rest : rest) & (~std::uint64_t{0} >> (64 - width));
}

// Whether a magnitude between two numbers is rounded to the one further from zero.
bool rounds_away(long double wanted, const float_neighbours& at, bool negative, rounding rule) noexcept {
  const long double down = wanted - at.below, up = at.above - wanted;
  switch (rule) {
    case rounding::nearest_even:
      return down > up || (down == up && (at.code & 1) != 0);
    case rounding::nearest_away:
      return down >= up;
    case rounding::towards_zero:
      return false;
    case rounding::towards_positive:
      return !negative;
    case rounding::towards_negative:
      break;
  }
  return negative;
}

std::optional<std::uint64_t> round_to_float(const dtype& type, long double value, rounding rule,
                                            beyond out_of_range) noexcept {
  const float_format format = type.format();
  const unsigned bits = type.bits();
  if (std::isnan(value)) return has_nan(format) ? std::optional(usual_nan(format, bits)) : std::nullopt;
  const bool negative = std::signbit(value);
  const std::uint64_t sign = negative ? sign_bit(format, bits) : 0;
  const bool has_sign = sign_bit(format, bits) != 0;
  if (!std::isfinite(value)) {
    if (!has_infinity(format)) return std::nullopt;
    return infinity_bits(format, bits) | sign;
  }
  if (bits >= 32) {
    // Most values of the shorter types are values of these types.
    const long double same =
        bits == 32 ? static_cast<long double>(static_cast<float>(value)) : static_cast<double>(value);
    if (same == value)
      return bits == 32 ? std::bit_cast<std::uint32_t>(static_cast<float>(value))
                        : std::bit_cast<std::uint64_t>(static_cast<double>(value));
  }
  const long double wanted = std::abs(value);
  const float_neighbours at = neighbours_of(wanted, format, bits);
  if (!has_sign && (negative || wanted < at.below)) {
    // Only positive numbers, from the smallest on.
    return out_of_range == beyond::clamp ? std::optional<std::uint64_t>(0) : std::nullopt;
  }
  const bool away = wanted > at.below && (wanted >= at.above || rounds_away(wanted, at, negative, rule));
  if (away && at.is_largest) {
    if (out_of_range != beyond::clamp) return std::nullopt;
    return (has_infinity(format) ? infinity_bits(format, bits) : at.code) | sign;
  }
  const std::uint64_t code = away ? at.code + 1 : at.code;
  // Some formats have no -0: those bits are their NaN.
  return code == 0 && std::isnan(double_from_bits(sign, format, bits)) ? 0 : code | sign;
}

}  // namespace

std::optional<std::uint64_t> bits_of_text(std::string_view text, unsigned width) noexcept {
  std::uint64_t bits = 0;
  const bool hexadecimal = text.size() > 2 && text.starts_with("0x");
  const auto [end, code] = std::from_chars(text.data() + (hexadecimal ? 2 : 0), text.data() + text.size(), bits, 16);
  if (!hexadecimal || code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return width < 64 && bits >> width != 0 ? std::nullopt : std::optional(bits);
}

std::optional<real_number> real_number::of(const numpy_type& type) noexcept {
  switch (type.type.kind()) {
    case dtype_kind::signed_integer:
    case dtype_kind::unsigned_integer:
    case dtype_kind::floating:
    case dtype_kind::brain_float:
    case dtype_kind::small_float:
      return real_number(type.type,
                         type.type.item_bytes() > 1 && type.big_endian != (std::endian::native == std::endian::big));
    default:
      return std::nullopt;
  }
}

bool real_number::is_integer() const noexcept {
  return type_.kind() == dtype_kind::signed_integer || type_.kind() == dtype_kind::unsigned_integer;
}

std::uint64_t real_number::load_bits(const std::byte* item) const noexcept {
  const std::uint32_t bytes = item_bytes();
  std::uint64_t value = 0;
  for (std::uint32_t i = 0; i < bytes; ++i) {
    const bool reversed = swapped_ == (std::endian::native == std::endian::little);
    value |= static_cast<std::uint64_t>(item[reversed ? bytes - 1 - i : i]) << (8 * i);
  }
  return value & (~std::uint64_t{0} >> (64 - type_.bits()));
}

void real_number::store_bits(std::byte* item, std::uint64_t bits) const noexcept {
  const std::uint32_t bytes = item_bytes();
  for (std::uint32_t i = 0; i < bytes; ++i) {
    const bool reversed = swapped_ == (std::endian::native == std::endian::little);
    item[reversed ? bytes - 1 - i : i] = static_cast<std::byte>(bits >> (8 * i));
  }
}

long double real_number::value_of(std::uint64_t bits) const noexcept {
  if (!is_integer()) {
    if (type_.bits() == 64) return std::bit_cast<double>(bits);
    if (type_.bits() == 32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    return double_from_bits(bits, type_.format(), type_.bits());
  }
  const bool negative = is_signed() && (bits >> (type_.bits() - 1) & 1) != 0;
  if (!negative) return static_cast<long double>(bits);
  return static_cast<long double>(static_cast<std::int64_t>(bits | ~(~std::uint64_t{0} >> (64 - type_.bits()))));
}

std::uint64_t real_number::bits_of_integer(long double value) const noexcept {
  const auto bits =
      value < 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(value)) : static_cast<std::uint64_t>(value);
  return bits & (~std::uint64_t{0} >> (64 - type_.bits()));
}

std::uint64_t real_number::bits_of_float(double value) const noexcept {
  if (type_.bits() == 64) return std::bit_cast<std::uint64_t>(value);
  if (type_.bits() == 32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return bits_from_double(value, type_.format(), type_.bits());
}

std::optional<std::uint64_t> round_to(const real_number& type, long double value, rounding rule,
                                      beyond out_of_range) noexcept {
  if (type.is_integer()) return round_to_integer(type, value, rule, out_of_range);
  return round_to_float(type.type(), value, rule, out_of_range);
}

}  // namespace penstock::inline v0
