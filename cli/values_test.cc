#include "values.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include <penstock/variable.h>

namespace penstock::inline v0::cli {
namespace {

const dtype kFloat16(dtype_kind::floating, 16), kFloat32(dtype_kind::floating, 32);
const dtype kFloat64(dtype_kind::floating, 64), kBrainFloat(dtype_kind::brain_float, 16);
const dtype kInt32(dtype_kind::signed_integer, 32), kComplex64(dtype_kind::complex, 64);

template <class T>
std::string text_of(dtype type, T value) {
  std::byte item[sizeof(T)];
  std::memcpy(item, &value, sizeof value);
  return item_text(type, item);
}

template <class T>
std::string json_of(dtype type, T value) {
  std::byte item[sizeof(T)];
  std::memcpy(item, &value, sizeof value);
  return item_json(type, item).dump();
}

TEST(ItemText, HasTheFewestDigitsThatRestoreTheFloat) {
  EXPECT_EQ(text_of(kFloat32, 0.1F), "0.1");
  EXPECT_EQ(text_of(kFloat64, 0.1), "0.1");
  EXPECT_EQ(text_of(kFloat64, static_cast<double>(0.1F)), "0.10000000149011612");
  EXPECT_EQ(text_of(kFloat32, 3.0F), "3.0");
  EXPECT_EQ(text_of(kFloat32, -0.0F), "-0.0");
  EXPECT_EQ(text_of(kFloat64, 1e300), "1e+300");
}

TEST(ItemText, DecodesEverySixteenBitFloat) {
  EXPECT_EQ(text_of(kFloat16, std::uint16_t{0x3c00}), "1.0");
  EXPECT_EQ(text_of(kFloat16, std::uint16_t{0x2e66}), "0.1");
  EXPECT_EQ(text_of(kFloat16, std::uint16_t{0x7bff}), "65500.0");
  EXPECT_EQ(text_of(kFloat16, std::uint16_t{0x0001}), "6e-08");
  EXPECT_EQ(text_of(kFloat16, std::uint16_t{0x8000}), "-0.0");
  EXPECT_EQ(text_of(kFloat16, std::uint16_t{0xfc00}), "-inf");
  EXPECT_EQ(text_of(kFloat16, std::uint16_t{0xfe01}), "nan");
  EXPECT_EQ(text_of(kBrainFloat, std::uint16_t{0x3f80}), "1.0");
  EXPECT_EQ(text_of(kBrainFloat, std::uint16_t{0xc049}), "-3.14");
  EXPECT_EQ(text_of(kBrainFloat, std::uint16_t{0x7f80}), "inf");
}

TEST(ItemText, ShortTextOfEveryHalfIsNearestToThatHalf) {
  const auto value = [](std::uint16_t bits) {
    const int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
    const double size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    return (bits & 0x8000) != 0 ? -size : size;
  };
  for (unsigned bits = 1; bits < 0x7bff; ++bits) {
    const double text = std::stod(text_of(kFloat16, static_cast<std::uint16_t>(bits)));
    const double miss = std::abs(text - value(static_cast<std::uint16_t>(bits)));
    ASSERT_LT(miss, std::abs(text - value(static_cast<std::uint16_t>(bits - 1)))) << bits;
    ASSERT_LT(miss, std::abs(text - value(static_cast<std::uint16_t>(bits + 1)))) << bits;
  }
}

TEST(ItemText, WritesIntegersBooleansComplexAndRaw) {
  EXPECT_EQ(text_of(dtype(dtype_kind::signed_integer, 8), std::int8_t{-128}), "-128");
  EXPECT_EQ(text_of(dtype(dtype_kind::unsigned_integer, 64), std::uint64_t{18446744073709551615U}),
            "18446744073709551615");
  EXPECT_EQ(text_of(dtype(dtype_kind::boolean, 8), std::uint8_t{1}), "True");
  EXPECT_EQ(text_of(kComplex64, std::pair{1.0F, -2.5F}), "(1.0-2.5j)");
  EXPECT_EQ(text_of(dtype(dtype_kind::raw, 16), std::uint16_t{0xff0a}), "0x0aff");
}

TEST(ItemText, WritesComplexNumbersOfEveryFormat) {
  const dtype brain = *dtype::from_name("complex_bfloat16"), half = *dtype::from_name("complex_float16");
  const std::pair<std::uint16_t, std::uint16_t> of_brain{0x3f80, 0xc049}, of_half{0x3c00, 0xc000};
  EXPECT_EQ(text_of(brain, of_brain), "(1.0-3.14j)");
  EXPECT_EQ(json_of(brain, of_brain), "[1.0,-3.14]");
  EXPECT_EQ(text_of(half, of_half), "(1.0-2.0j)");
  for (const char* name :
       {"complex_float8_e4m3fn", "complex_float8_e8m0fnu", "complex_float6_e2m3fn", "complex_float4_e2m1fn"}) {
    // The sanitizer checks that no byte after the two of the item is read.
    const std::vector<std::byte> item{std::byte{0x38}, std::byte{0x40}};
    const dtype small = *dtype::from_name(name);
    ASSERT_EQ(small.item_bytes(), 2U) << name;
    EXPECT_EQ(item_text(small, item.data()), "0x3840") << name;
    EXPECT_EQ(item_json(small, item.data()).dump(), "\"0x3840\"") << name;
  }
}

TEST(ItemText, WritesDatesAsNumPyDoes) {
  const auto text = [](time_unit unit, std::int64_t count, std::uint32_t scale = 1) {
    return text_of(dtype::datetime(unit, scale), count);
  };
  EXPECT_EQ(text(time_unit::year, 50), "2020");
  EXPECT_EQ(text(time_unit::month, -1), "1969-12");
  EXPECT_EQ(text(time_unit::month, 601), "2020-02");
  EXPECT_EQ(text(time_unit::week, 1), "1970-01-08");
  EXPECT_EQ(text(time_unit::day, 18321), "2020-02-29");
  EXPECT_EQ(text(time_unit::day, -719528), "0000-01-01");
  EXPECT_EQ(text(time_unit::day, 2932896), "9999-12-31");
  EXPECT_EQ(text(time_unit::hour, 1), "1970-01-01T01");
  EXPECT_EQ(text(time_unit::minute, -1), "1969-12-31T23:59");
  EXPECT_EQ(text(time_unit::second, 1582934399), "2020-02-28T23:59:59");
  EXPECT_EQ(text(time_unit::millisecond, -1), "1969-12-31T23:59:59.999");
  EXPECT_EQ(text(time_unit::millisecond, 25, 10), "1970-01-01T00:00:00.250");
  EXPECT_EQ(text(time_unit::nanosecond, 1), "1970-01-01T00:00:00.000000001");
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(text(time_unit::attosecond, kLeast + 1), "1969-12-31T23:59:50.776627963145224193");
  EXPECT_EQ(text(time_unit::day, kLeast), "NaT");
  for (const time_unit unit : {time_unit::year, time_unit::month, time_unit::week, time_unit::day, time_unit::second,
                               time_unit::millisecond, time_unit::generic}) {
    for (const std::int64_t count : {kLeast + 1, std::numeric_limits<std::int64_t>::max()})
      EXPECT_EQ(text(unit, count), std::to_string(count)) << to_string(unit);
    EXPECT_EQ(text(unit, kLeast + 1, 10), std::to_string(kLeast + 1)) << to_string(unit);
  }
  EXPECT_EQ(text(time_unit::day, 2932897), "2932897");
  EXPECT_EQ(json_of(dtype::datetime(time_unit::day), std::int64_t{0}), "\"1970-01-01\"");
  EXPECT_EQ(json_of(dtype::datetime(time_unit::generic), std::int64_t{7}), "7");
  EXPECT_EQ(text_of(dtype::timedelta(time_unit::day), std::int64_t{-3}), "-3");
  EXPECT_EQ(json_of(dtype::timedelta(time_unit::day), std::int64_t{-3}), "-3");
  EXPECT_EQ(json_of(dtype::timedelta(time_unit::day), kLeast), "\"NaT\"");
  EXPECT_EQ(type_text(dtype::datetime(time_unit::millisecond, 10)), "numpy.datetime64[10ms]");
  EXPECT_EQ(type_text(dtype::timedelta(time_unit::day)), "numpy.timedelta64[D]");
  EXPECT_EQ(short_type_text(dtype::timedelta(time_unit::day)), "numpy.timedelta64[D]");
}

TEST(ItemText, StructuresShowTheirFields) {
  const dtype byte(dtype_kind::unsigned_integer, 8);
  const dtype inner = dtype::structured({{"n", byte, 0, {}}}).value();
  const dtype whole = dtype::structured({{"a", byte, 0, {}}, {"b", byte, 2, {2, 2}}, {"c", inner, 6, {}}}, 8).value();
  const std::vector<std::byte> item{std::byte{1}, std::byte{9}, std::byte{2}, std::byte{3},
                                    std::byte{4}, std::byte{5}, std::byte{6}, std::byte{9}};
  EXPECT_EQ(item_text(whole, item.data()), "(1, [[2 3] [4 5]], (6))");
  EXPECT_EQ(item_json(whole, item.data()).dump(), R"({"a":1,"b":[[2,3],[4,5]],"c":{"n":6}})");
  EXPECT_EQ(csv_text(whole, item.data()), "\"(1, [[2 3] [4 5]], (6))\"");
  EXPECT_EQ(type_text(whole), "struct (a: uint8, b: uint8 (2, 2), c: struct (n: uint8))");
  EXPECT_EQ(short_type_text(whole), "struct");
}

TEST(ItemJson, WritesNumbersThatJsonLacksAsZarrDoes) {
  EXPECT_EQ(json_of(kFloat32, std::nanf("")), "\"NaN\"");
  EXPECT_EQ(json_of(kFloat64, -std::numeric_limits<double>::infinity()), "\"-Infinity\"");
  EXPECT_EQ(json_of(kFloat32, 0.1F), "0.1");
  EXPECT_EQ(json_of(kInt32, -7), "-7");
  EXPECT_EQ(json_of(dtype(dtype_kind::boolean, 8), std::uint8_t{0}), "false");
  EXPECT_EQ(json_of(kComplex64, std::pair{0.5F, INFINITY}), "[0.5,\"Infinity\"]");
}

std::vector<std::int32_t> count_to(int n) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

const std::byte* bytes_of(const std::vector<std::int32_t>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

TEST(BlockText, NestsBracketsAndAlignsColumnsAsNumPyDoes) {
  const auto values = count_to(12);
  EXPECT_EQ(block_text(kInt32, {12}, bytes_of(values)), "[ 0  1  2  3  4  5  6  7  8  9 10 11]");
  EXPECT_EQ(block_text(kInt32, {2, 3}, bytes_of(values)), "[[0 1 2]\n [3 4 5]]");
  EXPECT_EQ(block_text(kInt32, {2, 1, 2}, bytes_of(values)), "[[[0 1]]\n\n [[2 3]]]");
  EXPECT_EQ(block_text(kInt32, {}, bytes_of(values)), "0");
}

TEST(BlockText, BreaksLongRows) {
  const auto values = count_to(40);
  const std::string text = block_text(kInt32, {1, 40}, bytes_of(values));
  std::size_t begin = 0;
  for (std::size_t end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find('\n', begin);
    EXPECT_LE((end == std::string::npos ? text.size() : end) - begin, 75U);
  }
  EXPECT_NE(text.find("\n  "), std::string::npos);
}

TEST(ItemText, ListsShowTheirItems) {
  using namespace std::string_view_literals;
  const auto shown = [](const dtype& type, std::string_view bytes) {
    const variable_item item{reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
    return text_of(type, item) + " " + json_of(type, item);
  };
  const dtype numbers = dtype::variable_list(dtype(dtype_kind::unsigned_integer, 8)).value();
  EXPECT_EQ(shown(numbers, "\1\2\3"sv), "[1 2 3] [1,2,3]");
  EXPECT_EQ(shown(numbers, ""sv), "[] []");
  const dtype pairs = dtype::variable_list(dtype(dtype_kind::unsigned_integer, 8), {2}).value();
  EXPECT_EQ(shown(pairs, "\1\2\3\4"sv), "[[1 2] [3 4]] [[1,2],[3,4]]");
  const std::string_view nested = "\2\0\0\0\1\2\0\0\0\0"sv;
  EXPECT_EQ(shown(dtype::variable_list(numbers).value(), nested), "[[1 2] []] [[1,2],[]]");
  EXPECT_EQ(shown(dtype::variable_list(dtype::variable_utf8()).value(), "\1\0\0\0a\0\0\0\0"sv), R"(['a' ''] ["a",""])");
}

TEST(BlockText, ShowsTheShapeOfAnEmptyBlock) {
  EXPECT_EQ(block_text(kInt32, {0}, nullptr), "[] of shape (0,)");
  EXPECT_EQ(block_text(kInt32, {1000000000000, 0}, nullptr), "[] of shape (1000000000000, 0)");
}

TEST(BlockJson, NestsListsButNotScalars) {
  const auto values = count_to(6);
  EXPECT_EQ(block_json(kInt32, {2, 3}, bytes_of(values)).dump(), "[[0,1,2],[3,4,5]]");
  EXPECT_EQ(block_json(kInt32, {}, bytes_of(values)).dump(), "0");
  EXPECT_EQ(block_json(kInt32, {1000000000000, 0}, nullptr).dump(), "[]");
}

}  // namespace
}  // namespace penstock::inline v0::cli
