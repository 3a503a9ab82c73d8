#include "format/tiff/tiff_nodata.h"

#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>

namespace penstock::inline v0 {
namespace {

template <class T>
T item_of(std::string_view text, const char* type) {
  const tiff_fill made = fill_of_nodata(text, *dtype::from_name(type));
  T out;
  EXPECT_EQ(made.item.size(), sizeof(T));
  std::memcpy(&out, made.item.data(), sizeof(T));
  return out;
}

TEST(TiffNodata, IntegersAreExact) {
  EXPECT_EQ(item_of<std::int64_t>("9223372036854775807", "int64"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(item_of<std::int64_t>("-9223372036854775807", "int64"), -std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(item_of<std::uint64_t>("18446744073709551615", "uint64"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(item_of<std::uint64_t>("9007199254740993", "uint64"), 9007199254740993U);
  EXPECT_EQ(item_of<std::uint64_t>("9007199254740993.00", "uint64"), 9007199254740993U);
  EXPECT_EQ(fill_of_nodata("9007199254740993", *dtype::from_name("uint64")).json, "9007199254740993");
  EXPECT_TRUE(fill_of_nodata("0", *dtype::from_name("uint64")).is_nodata);
}

TEST(TiffNodata, IntegersMayBeWrittenAsReals) {
  EXPECT_EQ(item_of<std::int16_t>("-9999.0", "int16"), -9999);
  EXPECT_EQ(item_of<std::int16_t>("1e3", "int16"), 1000);
  EXPECT_EQ(item_of<std::int16_t>("12 ", "int16"), 12);
}

TEST(TiffNodata, ValuesThatTheTypeLacksAreZero) {
  EXPECT_EQ(item_of<std::uint8_t>("-1", "uint8"), 0);
  EXPECT_EQ(item_of<std::uint8_t>("256", "uint8"), 0);
  EXPECT_FALSE(fill_of_nodata("256", *dtype::from_name("uint8")).is_nodata);
  EXPECT_FALSE(fill_of_nodata("", *dtype::from_name("float32")).is_nodata);
  EXPECT_EQ(item_of<std::int16_t>("0.5", "int16"), 0);
  EXPECT_EQ(item_of<std::int16_t>("12.5", "int16"), 0);
  EXPECT_EQ(item_of<std::int16_t>("nan", "int16"), 0);
  EXPECT_EQ(item_of<std::int64_t>("9223372036854775808", "int64"), 0);
  EXPECT_EQ(item_of<std::int32_t>("nothing", "int32"), 0);
  EXPECT_EQ(item_of<std::int32_t>("", "int32"), 0);
  EXPECT_EQ(item_of<float>("1e300", "float32"), 0);
  EXPECT_EQ(item_of<std::uint16_t>("1e5", "float16"), 0);
}

TEST(TiffNodata, FloatsAreTheNearest) {
  EXPECT_EQ(item_of<float>("-3.40282346638529e+38", "float32"), std::numeric_limits<float>::lowest());
  EXPECT_EQ(item_of<float>("0.1", "float32"), 0.1F);
  EXPECT_EQ(item_of<std::uint16_t>("-9999", "float16"), 0xf0e2);  // -10000
  EXPECT_EQ(item_of<std::uint16_t>("nan", "float16"), 0x7e00);
  EXPECT_EQ(item_of<std::uint16_t>("-inf", "float16"), 0xfc00);
  EXPECT_NE(item_of<double>("nan", "float64"), item_of<double>("nan", "float64"));
  EXPECT_EQ(item_of<std::complex<float>>("-5", "complex64"), -5.0F);
  EXPECT_EQ(fill_of_nodata("-inf", *dtype::from_name("float32")).json, "\"-Infinity\"");
}

TEST(TiffNodata, MicrosoftsSpellingsAreUnderstood) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(item_of<float>("1.#INF", "float32"), infinity);
  EXPECT_EQ(item_of<float>("-1.#INF00", "float32"), -infinity);
  for (const char* const nan : {"1.#QNAN", "-1.#QNAN", "1.#SNAN", "-1.#IND", "1.#IND00"})
    EXPECT_EQ(fill_of_nodata(nan, *dtype::from_name("float64")).json, "\"NaN\"") << nan;
  EXPECT_EQ(item_of<std::int16_t>("1.#INF", "int16"), 0);
  EXPECT_EQ(item_of<std::int16_t>("-1.#IND", "int16"), 0);
}

TEST(TiffNodata, ValuesAreThoseOfTheFile) {
  const auto parsed = [](std::string_view text, const char* type) {
    return parse_nodata(text, *dtype::from_name(type));
  };
  EXPECT_EQ(parsed("-9999.0", "int16"), nodata_value(std::int64_t{-9999}));
  EXPECT_EQ(parsed("300", "uint8"), nodata_value(std::int64_t{300}));
  EXPECT_EQ(parsed("18446744073709551615", "uint64"), nodata_value(~std::uint64_t{0}));
  EXPECT_EQ(parsed("7", "float32"), nodata_value(7.0));
  EXPECT_EQ(parsed("x", "float32"), std::nullopt);
  const auto held = [](const nodata_value& value, const char* type) {
    return held_nodata(value, *dtype::from_name(type));
  };
  EXPECT_EQ(held(std::int64_t{300}, "uint8"), std::nullopt);
  EXPECT_EQ(held(7.0, "uint8"), nodata_value(std::uint64_t{7}));
  EXPECT_EQ(held(std::int64_t{-1}, "uint64"), std::nullopt);
  EXPECT_EQ(held(~std::uint64_t{0}, "int64"), std::nullopt);
  EXPECT_EQ(held(1e300, "float32"), std::nullopt);
  EXPECT_EQ(rounded_nodata(0.1, *dtype::from_name("float32")), nodata_value(static_cast<double>(0.1F)));
  EXPECT_EQ(rounded_nodata(1e300, *dtype::from_name("float32")), nodata_value(1e300));
}

}  // namespace
}  // namespace penstock::inline v0
