#include "api/joined/time_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/checked.h"

namespace penstock::inline v0 {
namespace {

constexpr std::int64_t kSecond = 1000, kMinute = 60 * kSecond, kHour = 60 * kMinute, kDay = 24 * kHour;
constexpr std::int64_t kMostYears = 100'000;

enum class calendar { gregorian, no_leap, all_leap, days_360 };

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

template <std::size_t N>
bool is_one_of(std::string_view text, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

std::optional<std::int64_t> unit_of(const std::string& name) {
  if (is_one_of(name, std::to_array<std::string_view>({"days", "day", "d"}))) return kDay;
  if (is_one_of(name, std::to_array<std::string_view>({"hours", "hour", "hrs", "hr", "h"}))) return kHour;
  if (is_one_of(name, std::to_array<std::string_view>({"minutes", "minute", "mins", "min"}))) return kMinute;
  if (is_one_of(name, std::to_array<std::string_view>({"seconds", "second", "secs", "sec", "s"}))) return kSecond;
  if (is_one_of(name, std::to_array<std::string_view>({"milliseconds", "millisecond", "millisec", "msec", "ms"})))
    return 1;
  return std::nullopt;
}

std::optional<calendar> calendar_of(const std::string& name) {
  if (is_one_of(name, std::to_array<std::string_view>({"", "standard", "gregorian", "proleptic_gregorian"})))
    return calendar::gregorian;
  if (name == "noleap" || name == "365_day") return calendar::no_leap;
  if (name == "all_leap" || name == "366_day") return calendar::all_leap;
  if (name == "360_day") return calendar::days_360;
  return std::nullopt;
}

bool is_leap(std::int64_t year, calendar in) {
  if (in != calendar::gregorian) return in == calendar::all_leap;
  return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

std::int64_t days_of_month(std::int64_t year, std::int64_t month, calendar in) {
  constexpr std::array<std::int64_t, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (in == calendar::days_360) return 30;
  return kDays[static_cast<std::size_t>(month - 1)] + (month == 2 && is_leap(year, in) ? 1 : 0);
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

std::int64_t days_before_year(std::int64_t year, calendar in) {
  const std::int64_t before = year - 1;
  switch (in) {
    case calendar::days_360:
      return before * 360;
    case calendar::no_leap:
      return before * 365;
    case calendar::all_leap:
      return before * 366;
    default:
      return before * 365 + floor_div(before, 4) - floor_div(before, 100) + floor_div(before, 400);
  }
}

std::int64_t days_from_epoch(std::int64_t year, std::int64_t month, std::int64_t day, calendar in) {
  std::int64_t out = days_before_year(year, in) - days_before_year(1970, in) + day - 1;
  for (std::int64_t each = 1; each < month; ++each) out += days_of_month(year, each, in);
  return out;
}

/// Removes the parsed part from the front of a text.
class scanner {
 public:
  explicit scanner(std::string_view text) : left_(text) {}

  bool at_end() const { return left_.empty(); }
  bool skip(char c) {
    if (!left_.starts_with(c)) return false;
    left_.remove_prefix(1);
    return true;
  }
  bool skip_spaces() {
    const std::size_t before = left_.size();
    while (skip(' ')) {
    }
    return left_.size() != before;
  }
  std::string word() {
    std::size_t end = 0;
    while (end < left_.size() && ((left_[end] >= 'a' && left_[end] <= 'z') || left_[end] == '_')) ++end;
    std::string out(left_.substr(0, end));
    left_.remove_prefix(end);
    return out;
  }
  /// The number of digits at the front.
  std::size_t digits() const {
    std::size_t out = 0;
    while (out < left_.size() && left_[out] >= '0' && left_[out] <= '9') ++out;
    return out;
  }
  std::optional<std::int64_t> number() {
    std::int64_t out = 0;
    if (left_.empty() || left_[0] < '0' || left_[0] > '9') return std::nullopt;
    const auto [end, failed] = std::from_chars(left_.data(), left_.data() + left_.size(), out);
    if (failed != std::errc()) return std::nullopt;
    left_.remove_prefix(static_cast<std::size_t>(end - left_.data()));
    return out;
  }
  /// Digits after a decimal point as milliseconds; more digits than three must be zeros.
  std::optional<std::int64_t> fraction() {
    std::int64_t out = 0, scale = 100;
    bool any = false;
    for (; !left_.empty() && left_[0] >= '0' && left_[0] <= '9'; left_.remove_prefix(1), any = true) {
      const std::int64_t digit = left_[0] - '0';
      if (scale == 0 && digit != 0) return std::nullopt;
      out += digit * scale;
      scale /= 10;
    }
    return any ? std::optional(out) : std::nullopt;
  }

 private:
  std::string_view left_;
};

/// "12:30:00.5" in milliseconds. Decoders differ on an hour without minutes, except 0.
std::optional<std::int64_t> time_of_day(scanner& from) {
  const auto hour = from.number();
  if (!hour || *hour > 24) return std::nullopt;
  std::int64_t out = *hour * kHour;
  if (!from.skip(':')) return out == 0 ? std::optional(out) : std::nullopt;
  const auto minute = from.number();
  if (!minute || *minute > 59) return std::nullopt;
  out += *minute * kMinute;
  if (!from.skip(':')) return out;
  const auto second = from.number();
  if (!second || *second > 59) return std::nullopt;
  out += *second * kSecond;
  if (!from.skip('.')) return out;
  const auto fraction = from.fraction();
  return fraction ? std::optional(out + *fraction) : std::nullopt;
}

/// "+01:00", "-5", "+0100", "z", "utc"; an empty text is 0. cftime, which decodes other calendars than the Gregorian,
/// ignores zones whose hour has one digit.
std::optional<std::int64_t> zone(scanner& from, calendar in) {
  if (from.at_end()) return 0;
  const bool west = from.skip('-');
  if (!west && !from.skip('+')) {
    const std::string name = from.word();
    if (name == "z" || name == "utc" || name == "gmt") return 0;
    return std::nullopt;
  }
  const std::size_t digits = from.digits();
  if (digits == 0 || digits == 3 || digits > 4) return std::nullopt;
  if (digits == 1 && in != calendar::gregorian) return std::nullopt;
  const auto hours = from.number();
  if (!hours) return std::nullopt;
  std::int64_t out = digits == 4 ? *hours / 100 * kHour + *hours % 100 * kMinute : *hours * kHour;
  if (digits < 3 && from.skip(':')) {
    const auto minutes = from.number();
    if (!minutes || *minutes > 59) return std::nullopt;
    out += *minutes * kMinute;
  }
  if (out > kDay) return std::nullopt;
  return west ? -out : out;
}

template <class Integer>
result<> convert_integers(const time_units& from, std::int64_t unit, std::int64_t offset,
                          std::vector<std::byte>& values) {
  using limits = std::numeric_limits<Integer>;
  for (std::size_t at = 0; at + sizeof(Integer) <= values.size(); at += sizeof(Integer)) {
    Integer value;
    std::memcpy(&value, values.data() + at, sizeof value);
    __extension__ using wide = __int128;
    const wide ms = static_cast<wide>(value) * from.unit_ms + offset;
    const wide made = ms / unit;
    if (made * unit != ms || made < static_cast<wide>(limits::min()) || made > static_cast<wide>(limits::max()))
      return error(errc::invalid_argument, fmt::format("{} is not a number of the dtype in those units", value));
    value = static_cast<Integer>(made);
    std::memcpy(values.data() + at, &value, sizeof value);
  }
  return {};
}

template <class Float>
result<> convert_floats(const time_units& from, std::int64_t unit, std::int64_t offset,
                        std::vector<std::byte>& values) {
  constexpr long double kMostLoss = 0.5L;  // milliseconds
  const auto scale = static_cast<long double>(from.unit_ms), to_scale = static_cast<long double>(unit),
             shift = static_cast<long double>(offset);
  for (std::size_t at = 0; at + sizeof(Float) <= values.size(); at += sizeof(Float)) {
    Float value;
    std::memcpy(&value, values.data() + at, sizeof value);
    if (std::isnan(value)) continue;
    const auto made = static_cast<Float>((static_cast<long double>(value) * scale + shift) / to_scale);
    const long double loss =
        static_cast<long double>(made) * to_scale - shift - static_cast<long double>(value) * scale;
    if (!std::isfinite(made) || !(std::abs(loss) < kMostLoss))
      return error(errc::invalid_argument, fmt::format("{} loses more than half a millisecond in those units", value));
    std::memcpy(values.data() + at, &made, sizeof made);
  }
  return {};
}

}  // namespace

std::optional<time_units> parse_time_units(std::string_view text, std::string_view calendar_name) {
  const auto in = calendar_of(lower(calendar_name));
  if (!in) return std::nullopt;
  const std::string folded = lower(text);
  scanner from(folded);
  from.skip_spaces();
  const auto unit = unit_of(from.word());
  if (!unit || !from.skip_spaces() || from.word() != "since" || !from.skip_spaces()) return std::nullopt;
  const auto year = from.number();
  if (!year || *year == 0 || *year > kMostYears || !from.skip('-')) return std::nullopt;
  const auto month = from.number();
  if (!month || *month < 1 || *month > 12 || !from.skip('-')) return std::nullopt;
  const auto day = from.number();
  if (!day || *day < 1 || *day > days_of_month(*year, *month, *in)) return std::nullopt;
  const std::string name = lower(calendar_name);
  const bool mixed = *in == calendar::gregorian && name != "proleptic_gregorian";
  if (mixed && std::array{*year, *month, *day} < std::array<std::int64_t, 3>{1582, 10, 15}) return std::nullopt;
  std::int64_t time = 0;
  if (from.skip('t') || from.skip_spaces()) {
    if (!from.at_end()) {
      const auto found = time_of_day(from);
      if (!found) return std::nullopt;
      time = *found;
    }
  } else if (!from.at_end()) {
    return std::nullopt;  // "2000-01-01+01:00": a zone for some decoders, a time for others
  }
  from.skip_spaces();
  const auto east = zone(from, *in);
  from.skip_spaces();
  if (!east || !from.at_end()) return std::nullopt;
  return time_units{*unit, days_from_epoch(*year, *month, *day, *in) * kDay + time - *east};
}

result<> convert_times(const dtype& type, const time_units& from, const time_units& to,
                       std::vector<std::byte>& values) {
  const std::int64_t offset = from.epoch_ms - to.epoch_ms, unit = to.unit_ms;
  const bool has_sign = type.kind() == dtype_kind::signed_integer;
  if (type.kind() == dtype_kind::floating) {
    return type.bits() == 32 ? convert_floats<float>(from, unit, offset, values)
                             : convert_floats<double>(from, unit, offset, values);
  }
  switch (type.bits()) {
    case 8:
      return has_sign ? convert_integers<std::int8_t>(from, unit, offset, values)
                      : convert_integers<std::uint8_t>(from, unit, offset, values);
    case 16:
      return has_sign ? convert_integers<std::int16_t>(from, unit, offset, values)
                      : convert_integers<std::uint16_t>(from, unit, offset, values);
    case 32:
      return has_sign ? convert_integers<std::int32_t>(from, unit, offset, values)
                      : convert_integers<std::uint32_t>(from, unit, offset, values);
    default:
      return has_sign ? convert_integers<std::int64_t>(from, unit, offset, values)
                      : convert_integers<std::uint64_t>(from, unit, offset, values);
  }
}

}  // namespace penstock::inline v0
