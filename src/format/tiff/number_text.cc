#include "format/tiff/number_text.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kSpace = " \t\n\v\f\r";

// A number that is too large or too small for `from_chars`: infinite, or 0.
double beyond_range(std::string_view digits) noexcept {
  const bool negative = digits.starts_with('-');
  const std::size_t exponent = digits.find_first_of("eE");
  bool small = digits.find_first_of("123456789") > digits.find('.');
  if (exponent != std::string_view::npos) small = digits.substr(exponent + 1).starts_with('-');
  const double size = small ? 0.0 : std::numeric_limits<double>::infinity();
  return negative ? -size : size;
}

// The number and its length in characters.
std::optional<std::pair<double, std::size_t>> number_and_length(std::string_view text) noexcept {
  const std::size_t plus = text.starts_with('+') && !text.starts_with("+-") ? 1 : 0;
  const std::string_view digits = text.substr(plus);
  double value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (read.ec == std::errc::invalid_argument) return std::nullopt;
  const auto length = static_cast<std::size_t>(read.ptr - digits.data());
  if (read.ec == std::errc::result_out_of_range) value = beyond_range(digits.substr(0, length));
  return std::pair(value, plus + length);
}

}  // namespace

std::string_view trimmed(std::string_view text) noexcept {
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

std::optional<double> number_of_text(std::string_view text) noexcept {
  text = trimmed(text);
  if (text.find('(') != std::string_view::npos) return std::nullopt;  // nan(...)
  const auto found = number_and_length(text);
  return found && found->second == text.size() ? std::optional(found->first) : std::nullopt;
}

std::optional<double> leading_number(std::string_view text) noexcept {
  const bool negative = text.starts_with('-');
  const std::string_view number = text.substr(negative ? 1 : 0);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // Microsoft's C runtime wrote these until 2015, followed by zeros where more digits were requested.
  if (number.starts_with("1.#INF")) return negative ? -kInfinity : kInfinity;
  if (number.starts_with("1.#QNAN") || number.starts_with("1.#SNAN") || number.starts_with("1.#IND"))
    return std::numeric_limits<double>::quiet_NaN();
  const auto found = number_and_length(text);
  return found ? std::optional(found->first) : std::nullopt;
}

std::string text_of_number(double value) {
  if (std::isnan(value)) return "nan";
  std::string out = fmt::format("{}", value);
  const bool is_whole = std::isfinite(value) && out.find_first_of(".e") == std::string::npos;
  return is_whole ? out + ".0" : out;
}

}  // namespace penstock::inline v0
