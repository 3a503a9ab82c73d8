#include "api/joined/time_units.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace penstock::inline v0 {
namespace {

template <class Number>
std::vector<std::byte> bytes_of(const std::vector<Number>& values) {
  std::vector<std::byte> out(values.size() * sizeof(Number));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

template <class Number>
std::vector<Number> numbers_of(const std::vector<std::byte>& bytes) {
  std::vector<Number> out(bytes.size() / sizeof(Number));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

std::int64_t epoch_ms(std::string_view text, std::string_view calendar = "") {
  const auto made = parse_time_units(text, calendar);
  EXPECT_TRUE(made) << text;
  return made ? made->epoch_ms : -1;
}

TEST(TimeUnits, CountsFrom1970) {
  EXPECT_EQ(epoch_ms("days since 1970-01-01"), 0);
  EXPECT_EQ(epoch_ms("seconds since 1970-01-01T00:00:01Z"), 1000);
  EXPECT_EQ(epoch_ms("hours since 2000-02-29 12:30:15.25"), 951827415250);
  EXPECT_EQ(epoch_ms("Days since 2000-3-1 00:00:00 UTC"), 951868800000);
  EXPECT_EQ(epoch_ms("minutes since 1969-12-31 23:00 -01:00"), 0);
  EXPECT_EQ(epoch_ms("hours since 1970-01-01 05:30:00 +0530"), 0);
  EXPECT_EQ(epoch_ms("hours since 1970-01-01 00:15:00 +0015"), 0);
  EXPECT_EQ(epoch_ms("hours since 1970-01-01 18:00:00 -6"), 86400000);
  EXPECT_EQ(epoch_ms("hours since 1970-01-01 00"), 0);
  EXPECT_EQ(epoch_ms("days since 1850-01-01", "proleptic_gregorian"), -3786825600000);
  EXPECT_EQ(epoch_ms("days since 1971-01-01", "360_day"), 360LL * 86400000);
  EXPECT_EQ(epoch_ms("days since 1973-01-01", "noleap"), 3LL * 365 * 86400000);
  EXPECT_EQ(epoch_ms("days since 1970-03-01", "all_leap"), 60LL * 86400000);
}

TEST(TimeUnits, RefusesUnitsThatDoNotCountDays) {
  for (const char* const text :
       {"", "days", "K", "months since 2000-01-01", "years since 2000-01-01", "days since", "days since 2000",
        "days since 2000-13-01", "days since 2001-02-29", "days since 0000-01-01", "days since 2000-01-01 25:00",
        "days since 2000-01-01 00:00:00.0001", "days since 2000-01-01 EST", "days since 1582-10-14",
        "days since 99999999999999999999-01-01", "days since 2000-01-01 00:00:00 +00:00 x",
        "days since 2000-01-01+01:00", "days since 2000-01-01 6", "days since 2000-01-01 00:00:00 +100"})
    EXPECT_FALSE(parse_time_units(text, "")) << text;
  EXPECT_FALSE(parse_time_units("days since 2000-01-01", "martian"));
  EXPECT_TRUE(parse_time_units("days since 1582-10-14", "proleptic_gregorian"));
  EXPECT_TRUE(parse_time_units("days since 2001-02-30", "360_day"));
  EXPECT_TRUE(parse_time_units("days since 2000-01-01 00:00 -05:30", "noleap"));
  EXPECT_FALSE(parse_time_units("days since 2000-01-01 00:00 -5:30", "noleap"));  // cftime ignores the zone
}

TEST(TimeUnits, WholeNumbersStayWhole) {
  const dtype type(dtype_kind::signed_integer, 32);
  const auto january = *parse_time_units("days since 2000-01-01", ""),
             march = *parse_time_units("days since 2000-03-01", "");
  auto values = bytes_of<std::int32_t>({0, 1, 31});
  ASSERT_TRUE(convert_times(type, march, january, values).ok());
  EXPECT_EQ(numbers_of<std::int32_t>(values), (std::vector<std::int32_t>{60, 61, 91}));
  const auto hours = *parse_time_units("hours since 2000-03-01", "");
  auto in_hours = bytes_of<std::int32_t>({24, 25});
  EXPECT_FALSE(convert_times(type, hours, january, in_hours).ok());
  auto small = bytes_of<std::int8_t>({100});
  EXPECT_FALSE(convert_times(dtype(dtype_kind::signed_integer, 8), march, january, small).ok());
  auto largest = bytes_of<std::uint64_t>({std::numeric_limits<std::uint64_t>::max()});
  EXPECT_FALSE(convert_times(dtype(dtype_kind::unsigned_integer, 64), march, january, largest).ok());
}

TEST(TimeUnits, FloatsKeepTheirMillisecond) {
  const auto january = *parse_time_units("days since 2000-01-01", ""),
             march = *parse_time_units("hours since 2000-03-01", "");
  auto values = bytes_of<double>({0.0, 1.0, 0.5, std::numeric_limits<double>::quiet_NaN()});
  ASSERT_TRUE(convert_times(dtype(dtype_kind::floating, 64), march, january, values).ok());
  const auto made = numbers_of<double>(values);
  EXPECT_EQ(made[0], 60.0);
  EXPECT_NEAR(made[1], 60.0 + 1.0 / 24, 1e-12);
  EXPECT_NEAR(made[2], 60.0 + 0.5 / 24, 1e-12);
  EXPECT_TRUE(made[3] != made[3]);
  auto single = bytes_of<float>({1.0F});
  EXPECT_FALSE(convert_times(dtype(dtype_kind::floating, 32), march, january, single).ok());
}

}  // namespace
}  // namespace penstock::inline v0
