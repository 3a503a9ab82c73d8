#include "format/zarr/zarr_fill_value.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

namespace penstock {
namespace {

dtype type_of(std::string_view name) { return std::move(dtype::from_name(name)).value(); }

result<std::vector<std::byte>> parsed(std::string_view type, std::string_view text) {
  result<json> value = json::parse(text);
  EXPECT_TRUE(value.ok()) << text;
  return parse_fill_value(*value, type_of(type));
}

/// The item's bits, most significant first.
std::string hex(std::string_view type, std::string_view text) {
  result<std::vector<std::byte>> item = parsed(type, text);
  if (!item.ok()) return std::string(to_string(item.error().code()));
  std::string out;
  for (std::size_t i = item->size(); i-- > 0;) {
    for (const int digit : {static_cast<int>((*item)[i]) >> 4, static_cast<int>((*item)[i]) & 15}) {
      out += "0123456789abcdef"[digit];
    }
  }
  return out;
}

TEST(FillValue, TakesBooleansAndTheNumbersThatZarritaWrote) {
  EXPECT_EQ(hex("bool", "true"), "01");
  EXPECT_EQ(hex("bool", "false"), "00");
  EXPECT_EQ(hex("bool", "1"), "01");
  EXPECT_EQ(hex("bool", "0"), "00");
  EXPECT_EQ(hex("bool", "2"), "corrupt_data");
  EXPECT_EQ(hex("bool", "\"true\""), "corrupt_data");
  EXPECT_EQ(hex("bool", "null"), "corrupt_data");
}

TEST(FillValue, KeepsIntegersExactTo64Bits) {
  EXPECT_EQ(hex("uint64", "18446744073709551615"), "ffffffffffffffff");
  EXPECT_EQ(hex("uint64", "9007199254740993"), "0020000000000001");
  EXPECT_EQ(hex("int64", "-9223372036854775808"), "8000000000000000");
  EXPECT_EQ(hex("int64", "9223372036854775807"), "7fffffffffffffff");
  EXPECT_EQ(hex("int16", "-2"), "fffe");
  EXPECT_EQ(hex("uint32", "305419896"), "12345678");
}

TEST(FillValue, RefusesIntegersOutOfTheirTypesRange) {
  EXPECT_EQ(hex("int8", "-128"), "80");
  EXPECT_EQ(hex("int8", "127"), "7f");
  EXPECT_EQ(hex("int8", "-129"), "corrupt_data");
  EXPECT_EQ(hex("int8", "128"), "corrupt_data");
  EXPECT_EQ(hex("uint8", "255"), "ff");
  EXPECT_EQ(hex("uint8", "256"), "corrupt_data");
  EXPECT_EQ(hex("uint8", "-1"), "corrupt_data");
  EXPECT_EQ(hex("uint64", "-1"), "corrupt_data");
  EXPECT_EQ(hex("int64", "9223372036854775808"), "corrupt_data");
  EXPECT_EQ(hex("uint64", "18446744073709551616"), "corrupt_data");
}

TEST(FillValue, TakesWholeNumbersWrittenAsFloatsOnlyWhereTheyAreExact) {
  EXPECT_EQ(hex("int32", "-3.0"), "fffffffd");
  EXPECT_EQ(hex("uint16", "1e3"), "03e8");
  EXPECT_EQ(hex("int32", "1.5"), "corrupt_data");
  EXPECT_EQ(hex("int64", "1e300"), "corrupt_data");
  EXPECT_EQ(hex("int64", "9007199254740994.0"), "corrupt_data");
  EXPECT_EQ(hex("int32", "\"5\""), "corrupt_data");
  EXPECT_EQ(hex("int32", "true"), "corrupt_data");
}

TEST(FillValue, TakesEverySpellingOfFloats) {
  EXPECT_EQ(hex("float32", "0"), "00000000");
  EXPECT_EQ(hex("float32", "-0.0"), "80000000");
  EXPECT_EQ(hex("float32", "1.5"), "3fc00000");
  EXPECT_EQ(hex("float32", "\"NaN\""), "7fc00000");
  EXPECT_EQ(hex("float32", "\"Infinity\""), "7f800000");
  EXPECT_EQ(hex("float32", "\"-Infinity\""), "ff800000");
  EXPECT_EQ(hex("float32", "\"0x7fc00001\""), "7fc00001");
  EXPECT_EQ(hex("float32", "\"0xFFC00001\""), "ffc00001");
  EXPECT_EQ(hex("float64", "0.1"), "3fb999999999999a");
  EXPECT_EQ(hex("float64", "\"NaN\""), "7ff8000000000000");
  EXPECT_EQ(hex("float64", "\"-Infinity\""), "fff0000000000000");
  EXPECT_EQ(hex("float64", "\"0x7ff8000000000001\""), "7ff8000000000001");
  EXPECT_EQ(hex("float16", "\"NaN\""), "7e00");
  EXPECT_EQ(hex("float16", "\"Infinity\""), "7c00");
  EXPECT_EQ(hex("float16", "\"0x7d00\""), "7d00");
}

TEST(FillValue, RefusesOtherTextsForFloats) {
  for (const char* text : {"\"nan\"", "\"1.5\"", "\"\"", "\"0x\"", "\"0x7fc0000\"", "\"0x7fc000011\"", "\"0x-7fc0000\"",
                           "\"0x7fc0000g\"", "null", "true", "[1]", "{}"}) {
    EXPECT_EQ(hex("float32", text), "corrupt_data") << text;
  }
  EXPECT_EQ(hex("float16", "\"0x7fc00001\""), "corrupt_data");
}

TEST(FillValue, RoundsHalvesOnceToNearestEven) {
  EXPECT_EQ(half_from_double(1.0), 0x3c00);
  EXPECT_EQ(half_from_double(-2.0), 0xc000);
  EXPECT_EQ(half_from_double(65504.0), 0x7bff);
  EXPECT_EQ(half_from_double(65519.99), 0x7bff);
  EXPECT_EQ(half_from_double(65520.0), 0x7c00);
  EXPECT_EQ(half_from_double(1e300), 0x7c00);
  EXPECT_EQ(half_from_double(std::ldexp(1, -14)), 0x0400);
  EXPECT_EQ(half_from_double(std::ldexp(1, -24)), 0x0001);
  EXPECT_EQ(half_from_double(std::ldexp(1, -25)), 0x0000);  // a tie, to even
  EXPECT_EQ(half_from_double(std::nextafter(std::ldexp(1, -25), 1)), 0x0001);
  EXPECT_EQ(half_from_double(std::ldexp(3, -25)), 0x0002);  // a tie, to even
  EXPECT_EQ(half_from_double(std::ldexp(1, -26)), 0x0000);
  EXPECT_EQ(half_from_double(std::numeric_limits<double>::denorm_min()), 0x0000);
  EXPECT_EQ(half_from_double(1 + std::ldexp(1, -11)), 0x3c00);                       // a tie, to even
  EXPECT_EQ(half_from_double(1 + std::ldexp(1, -11) + std::ldexp(1, -40)), 0x3c01);  // float first would make it a tie
  EXPECT_EQ(half_from_double(1 + std::ldexp(3, -11)), 0x3c02);
  EXPECT_EQ(half_from_double(std::ldexp(2047, -25)), 0x0400);  // the carry leaves the subnormals
  EXPECT_EQ(half_from_double(-std::numeric_limits<double>::infinity()), 0xfc00);
}

TEST(FillValue, EveryHalfComesBackFromItsDouble) {
  for (unsigned bits = 0; bits < 0x7c00; ++bits) {
    const int exponent = static_cast<int>(bits >> 10);
    const double fraction = bits & 0x3ff;
    const double value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    ASSERT_EQ(half_from_double(value), bits);
    ASSERT_EQ(half_from_double(-value), bits | 0x8000);
  }
}

TEST(FillValue, MakesFloatsThatAreTooLargeInfinite) {
  EXPECT_EQ(hex("float32", "1e39"), "7f800000");
  EXPECT_EQ(hex("float16", "-70000"), "fc00");
}

TEST(FillValue, TakesComplexAsAPairOfFloats) {
  EXPECT_EQ(hex("complex64", "[1.5, -2]"), "c00000003fc00000");  // real part first in memory
  EXPECT_EQ(hex("complex64", R"(["NaN", "0x7fc00001"])"), "7fc000017fc00000");
  EXPECT_EQ(hex("complex128", R"(["Infinity", 0.0])"), "00000000000000007ff0000000000000");
  for (const char* text : {"[1]", "[1, 2, 3]", "1", "\"NaN\"", "[1, null]", "[[1], 2]"}) {
    EXPECT_EQ(hex("complex64", text), "corrupt_data") << text;
  }
}

TEST(FillValue, ErrorsNameTheValueAndTheType) {
  result<std::vector<std::byte>> out = parsed("int8", "300");
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().message(), "zarr.json: member 'fill_value' is 300, data type int8 needs an integer that fits");
}

}  // namespace
}  // namespace penstock
