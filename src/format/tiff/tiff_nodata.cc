#include "format/tiff/tiff_nodata.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "codec/half.h"

namespace penstock::inline v0 {
namespace {

std::optional<double> real_number(std::string_view text) {
  double value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc()) return value;
  return std::nullopt;
}

// Microsoft's C runtime wrote these until 2015, with zeros behind them where more digits were asked for.
std::string_view without_dialect(std::string_view text) {
  const bool negative = text.starts_with('-');
  const std::string_view number = text.substr(negative ? 1 : 0);
  if (number.starts_with("1.#INF")) return negative ? "-inf" : "inf";
  const bool is_nan = number.starts_with("1.#QNAN") || number.starts_with("1.#SNAN") || number.starts_with("1.#IND");
  return is_nan ? "nan" : text;
}

// Digits that a double would round are read as they stand; `-9999.0` and `1e3` are integers too.
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
  const std::optional<double> value = real_number(text);
  const bool fits = value && *value == std::floor(*value) &&
                    *value >= static_cast<double>(std::numeric_limits<T>::lowest()) &&
                    *value < std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (!fits) return std::nullopt;
  return static_cast<T>(*value);
}

template <class T>
void put_integer(std::string_view text, tiff_fill& out) {
  const std::optional<T> value = integer<T>(text);
  if (!value) return;
  std::memcpy(out.item.data(), &*value, sizeof(T));
  out.json = fmt::format("{}", *value);
  out.is_nodata = true;
}

template <class T>
void put_real(std::string_view text, tiff_fill& out) {
  const std::optional<double> value = real_number(text);
  if (!value) return;
  T item{};
  double rounded = 0;
  if constexpr (std::is_same_v<T, half>) {
    item = half(*value);
    if (std::isnan(*value)) item.bits = 0x7e00;
    rounded = static_cast<double>(item);
  } else {
    item = static_cast<T>(*value);
    rounded = static_cast<double>(item);
  }
  if (std::isinf(rounded) && !std::isinf(*value)) return;
  std::memcpy(out.item.data(), &item, sizeof(T));
  out.json = std::isnan(rounded)   ? "\"NaN\""
             : std::isinf(rounded) ? rounded > 0 ? "\"Infinity\"" : "\"-Infinity\""
                                   : fmt::format("{}", rounded);
  out.is_nodata = true;
}

template <class Signed, class Unsigned>
void put(std::string_view text, bool is_signed, tiff_fill& out) {
  is_signed ? put_integer<Signed>(text, out) : put_integer<Unsigned>(text, out);
}

}  // namespace

tiff_fill fill_of_nodata(std::string_view text, const dtype& type) {
  text = without_dialect(text);
  tiff_fill out{std::vector<std::byte>(type.item_bytes()), "0"};
  const bool is_complex = type.kind() == dtype_kind::complex;
  if (is_complex || type.kind() == dtype_kind::floating) {
    const std::uint32_t bits = static_cast<std::uint32_t>(type.bits()) / (is_complex ? 2 : 1);
    if (bits == 16) put_real<half>(text, out);
    if (bits == 32) put_real<float>(text, out);
    if (bits == 64) put_real<double>(text, out);
    return out;
  }
  const bool is_signed = type.kind() == dtype_kind::signed_integer;
  switch (type.bits()) {
    case 8:
      put<std::int8_t, std::uint8_t>(text, is_signed, out);
      break;
    case 16:
      put<std::int16_t, std::uint16_t>(text, is_signed, out);
      break;
    case 32:
      put<std::int32_t, std::uint32_t>(text, is_signed, out);
      break;
    default:
      put<std::int64_t, std::uint64_t>(text, is_signed, out);
  }
  return out;
}

}  // namespace penstock::inline v0
