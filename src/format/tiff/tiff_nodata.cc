#include "format/tiff/tiff_nodata.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "codec/filters/half.h"
#include "format/tiff/number_text.h"

namespace penstock::inline v0 {
namespace {

bool is_integer(const dtype& type) noexcept {
  return type.kind() == dtype_kind::signed_integer || type.kind() == dtype_kind::unsigned_integer;
}

// Bits of a real number, or of each half of a complex one.
unsigned real_bits(const dtype& type) noexcept {
  return static_cast<unsigned>(type.bits()) / (type.kind() == dtype_kind::complex ? 2 : 1);
}

// Digits that a double would round are parsed exactly; `-9999.0` and `1e3` are integers too.
template <class T>
std::optional<T> integer(std::string_view text) {
  T whole = 0;
  const char* const end = text.data() + text.size();
  const auto [behind, failed] = std::from_chars(text.data(), end, whole);
  if (failed == std::errc()) {
    const std::string_view rest(behind, static_cast<std::size_t>(end - behind));
    const std::size_t zeros = rest.starts_with('.') ? rest.find_first_not_of('0', 1) : 0;
    const bool ends = zeros == std::string_view::npos || rest.empty() ||
                      std::string_view("0123456789.eE").find(rest[zeros]) == std::string_view::npos;
    if (ends) return whole;
  }
  const std::optional<double> value = leading_number(text);
  const bool fits = value && *value == std::floor(*value) &&
                    *value >= static_cast<double>(std::numeric_limits<T>::lowest()) &&
                    *value < std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (!fits) return std::nullopt;
  return static_cast<T>(*value);
}

// As an integer of the type; nothing if it has none.
template <class T>
std::optional<T> held_integer(const nodata_value& value) {
  if (const auto* const real = std::get_if<double>(&value)) {
    const bool fits = *real == std::floor(*real) && *real >= static_cast<double>(std::numeric_limits<T>::lowest()) &&
                      *real < std::ldexp(1.0, std::numeric_limits<T>::digits);
    return fits ? std::optional(static_cast<T>(*real)) : std::nullopt;
  }
  if (const auto* const positive = std::get_if<std::uint64_t>(&value)) {
    const bool fits = *positive <= static_cast<std::uint64_t>(std::numeric_limits<T>::max());
    return fits ? std::optional(static_cast<T>(*positive)) : std::nullopt;
  }
  const std::int64_t number = std::get<std::int64_t>(value);
  const bool fits =
      number < 0 ? std::is_signed_v<T> && number >= static_cast<std::int64_t>(std::numeric_limits<T>::min())
                 : static_cast<std::uint64_t>(number) <= static_cast<std::uint64_t>(std::numeric_limits<T>::max());
  return fits ? std::optional(static_cast<T>(number)) : std::nullopt;
}

// Calls `then` with a zero of the integer type.
template <class F>
auto with_integer(const dtype& type, F then) {
  const bool is_signed = type.kind() == dtype_kind::signed_integer;
  switch (type.bits()) {
    case 8:
      return is_signed ? then(std::int8_t{}) : then(std::uint8_t{});
    case 16:
      return is_signed ? then(std::int16_t{}) : then(std::uint16_t{});
    case 32:
      return is_signed ? then(std::int32_t{}) : then(std::uint32_t{});
    default:
      return is_signed ? then(std::int64_t{}) : then(std::uint64_t{});
  }
}

double as_double(const nodata_value& value) {
  return std::visit([](auto number) { return static_cast<double>(number); }, value);
}

// Rounded to the type's floats.
double in_floats(double value, unsigned bits) {
  if (bits == 16) return static_cast<double>(half(value));
  return bits == 32 ? static_cast<double>(static_cast<float>(value)) : value;
}

template <class T>
void put(T number, std::vector<std::byte>& item) {
  std::memcpy(item.data(), &number, sizeof number);
}

std::string json_of(const nodata_value& value) {
  const auto* const real = std::get_if<double>(&value);
  if (real == nullptr || std::isfinite(*real))
    return std::visit([](auto number) { return fmt::format("{}", number); }, value);
  return std::isnan(*real) ? "\"NaN\"" : *real > 0 ? "\"Infinity\"" : "\"-Infinity\"";
}

}  // namespace

std::optional<nodata_value> parse_nodata(std::string_view text, const dtype& type) {
  if (is_integer(type) && text.find('#') == std::string_view::npos) {  // `1.#INF` begins like an integer
    if (const auto number = integer<std::int64_t>(text)) return nodata_value(*number);
    if (const auto number = integer<std::uint64_t>(text)) return nodata_value(*number);
  }
  const std::optional<double> value = leading_number(text);
  return value ? std::optional<nodata_value>(*value) : std::nullopt;
}

std::optional<nodata_value> held_nodata(const nodata_value& value, const dtype& type) {
  if (is_integer(type)) {
    return with_integer(type, [&](auto zero) -> std::optional<nodata_value> {
      using number = decltype(zero);
      const auto held = held_integer<number>(value);
      if (!held) return std::nullopt;
      if constexpr (std::is_signed_v<number>) return nodata_value(std::int64_t{*held});
      return nodata_value(static_cast<std::uint64_t>(*held));
    });
  }
  const bool is_float = type.kind() == dtype_kind::floating || type.kind() == dtype_kind::complex;
  if (!is_float) return value;
  const double number = as_double(value), rounded = in_floats(number, real_bits(type));
  if (std::isinf(rounded) && !std::isinf(number)) return std::nullopt;
  return nodata_value(rounded);
}

nodata_value rounded_nodata(const nodata_value& value, const dtype& type) {
  if (is_integer(type)) {
    if (const auto number = held_integer<std::int64_t>(value)) return nodata_value(*number);
    const auto number = held_integer<std::uint64_t>(value);
    return number ? nodata_value(*number) : value;
  }
  const bool is_float = type.kind() == dtype_kind::floating || type.kind() == dtype_kind::complex;
  if (!is_float || real_bits(type) != 32) return value;
  const double rounded = in_floats(as_double(value), 32);
  return std::isinf(rounded) ? value : nodata_value(rounded);
}

std::vector<std::byte> item_of_nodata(const nodata_value& value, const dtype& type) {
  std::vector<std::byte> item(type.item_bytes());
  if (is_integer(type)) {
    with_integer(type, [&](auto zero) { put(held_integer<decltype(zero)>(value).value_or(0), item); });
    return item;
  }
  const double number = as_double(value);
  switch (real_bits(type)) {
    case 16:
      put(std::isnan(number) ? std::uint16_t{0x7e00} : half(number).bits, item);
      break;
    case 32:
      put(static_cast<float>(number), item);
      break;
    default:
      put(number, item);
  }
  return item;
}

tiff_fill fill_of_nodata(std::string_view text, const dtype& type) {
  tiff_fill out{std::vector<std::byte>(type.item_bytes()), "0"};
  const auto value = parse_nodata(text, type);
  const auto held = value ? held_nodata(*value, type) : std::nullopt;
  if (!held) return out;
  out.item = item_of_nodata(*held, type);
  out.json = json_of(*held);
  out.is_nodata = true;
  return out;
}

}  // namespace penstock::inline v0
