#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/dtype.h>
#include <penstock/result.h>

namespace penstock::inline v0 {

/// A unit of time since a date, as in CF: "days since 2000-01-01 12:00".
struct time_units {
  std::int64_t unit_ms = 0;   ///< milliseconds of one unit
  std::int64_t epoch_ms = 0;  ///< milliseconds from 1970-01-01 of the calendar to the date
};

/// Parses units of time in a calendar: days, hours, minutes, seconds or milliseconds since a date, with a time and a
/// zone in numbers (`+01:00`, `Z`, `UTC`) if they are given.
/// \returns nullopt if it is not such a text, or if days cannot be counted: an unknown calendar, a date of the standard
/// calendar before 1582-10-15, months and years. Source: CF conventions 1.11, section 4.4.
std::optional<time_units> parse_time_units(std::string_view text, std::string_view calendar);

/// Writes the values of a coordinate in units `to` instead of `from`: `values` are numbers of `type` in native order.
/// \error invalid_argument  The type cannot hold a value in those units: integers must stay whole, floats may lose less
/// than half a millisecond. `values` may be partly changed.
result<> convert_times(const dtype& type, const time_units& from, const time_units& to, std::vector<std::byte>& values);

}  // namespace penstock::inline v0
