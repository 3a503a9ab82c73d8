#include "format/zarr/zarr_fill_value.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "format/zarr/zarr_data_type.h"

namespace penstock {
namespace {

dtype type_of(std::string_view name) { return std::move(dtype::from_name(name)).value(); }

result<std::vector<std::byte>> parsed(std::string_view type, std::string_view text) {
  result<json> value = json::parse(text);
  EXPECT_TRUE(value.ok()) << text;
  PENSTOCK_ASSIGN(zarr_fill fill, parse_fill_value(*value, type_of(type)));
  return std::move(fill.item);
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
  EXPECT_EQ(hex("int32", "\"5.5\""), "corrupt_data");
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
  for (const char* text : {"\"nan\"", "\"1.5x\"", "\"\"", "\"0x\"", "\"0x7fc0000\"", "\"0x7fc000011\"",
                           "\"0x-7fc0000\"", "\"0x7fc0000g\"", "null", "true", "[1]", "{}"}) {
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
  EXPECT_EQ(half_from_double(1 + std::ldexp(1, -11)), 0x3c00);  // a tie, to even
  EXPECT_EQ(half_from_double(1 + std::ldexp(1, -11) + std::ldexp(1, -40)),
            0x3c01);  // rounding to float first would make it a tie
  EXPECT_EQ(half_from_double(1 + std::ldexp(3, -11)), 0x3c02);
  EXPECT_EQ(half_from_double(std::ldexp(2047, -25)), 0x0400);  // the carry leaves the subnormals
  EXPECT_EQ(half_from_double(-std::numeric_limits<double>::infinity()), 0xfc00);
}

TEST(FillValue, EveryHalfIsRestoredFromItsDouble) {
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

dtype typed(std::string_view text) {
  result<json> value = json::parse(text);
  EXPECT_TRUE(value.ok()) << text;
  result<dtype> type = parse_data_type(*value);
  EXPECT_TRUE(type.ok()) << type.error().to_string();
  return *type;
}

/// The written form of the parsed value.
std::string rewritten(const dtype& type, std::string_view text) {
  result<json> value = json::parse(text);
  EXPECT_TRUE(value.ok()) << text;
  result<zarr_fill> fill = parse_fill_value(*value, type);
  if (!fill.ok()) return std::string(to_string(fill.error().code()));
  EXPECT_EQ(fill->item.size(), type.item_bytes());
  result<json> written = write_fill_value(fill->item, type);
  return written.ok() ? written->dump() : std::string(to_string(written.error().code()));
}

TEST(FillValue, IsWrittenExactly) {
  for (const auto& [type, text] : std::vector<std::pair<const char*, const char*>>{
           {"bool", "true"},
           {"int8", "-128"},
           {"int64", "-9223372036854775808"},
           {"int64", "9007199254740993"},
           {"uint64", "18446744073709551615"},
           {"int4", "-8"},
           {"uint2", "3"},
           {"float32", "\"NaN\""},
           {"float32", "\"0x7fc00001\""},
           {"float32", "\"0xffc00000\""},
           {"float64", "\"0x7ff8000000000123\""},
           {"float64", "0.1"},
           {"float64", "-0.0"},
           {"float16", "\"-Infinity\""},
           {"float16", "65504.0"},
           {"bfloat16", "1.5"},
           {"bfloat16", "\"NaN\""},
           {"float8_e4m3fn", "\"0x7f\""},
           {"float8_e5m2", "\"0x3c\""},
           {"float4_e2m1fn", "\"0x0f\""},
           {"float6_e3m2fn", "\"0x3f\""},
           {"complex64", "[1.5,\"NaN\"]"},
           {"complex128", "[\"-Infinity\",\"0x7ff8000000000001\"]"},
           {"string", "\"h\u00e9 \xe4\xb8\x96\""},
           {"string", "\"\""},
           {"bytes", "\"AQID\""},
       }) {
    result<json> same = json::parse(text);
    ASSERT_TRUE(same.ok());
    EXPECT_EQ(rewritten(type_of(type), text), same->dump()) << type;
  }
}

TEST(FillValue, TakesTimesStringsBytesAndStructures) {
  const dtype time = typed(R"({"name": "numpy.datetime64", "configuration": {"unit": "ns", "scale_factor": 10}})");
  EXPECT_EQ(rewritten(time, "\"NaT\""), "-9223372036854775808");
  EXPECT_EQ(rewritten(time, "12345"), "12345");
  EXPECT_EQ(rewritten(time, "1.5"), "corrupt_data");
  const dtype text = typed(R"({"name": "fixed_length_utf32", "configuration": {"length_bytes": 12}})");
  EXPECT_EQ(rewritten(text, "\"a\xf0\x9f\x9a\x80\""), "\"a\xf0\x9f\x9a\x80\"");
  EXPECT_EQ(rewritten(text, "\"abcd\""), "corrupt_data");
  const dtype bytes = typed(R"({"name": "null_terminated_bytes", "configuration": {"length_bytes": 4}})");
  EXPECT_EQ(rewritten(bytes, "\"YWI=\""), "\"YWI=\"");
  EXPECT_EQ(rewritten(bytes, "\"YWJjZGU=\""), "corrupt_data");
  const dtype raw = typed("\"r24\"");
  EXPECT_EQ(rewritten(raw, "[1, 2, 3]"), "\"AQID\"");
  EXPECT_EQ(rewritten(raw, "[1, 2]"), "corrupt_data");
  EXPECT_EQ(rewritten(raw, "[1, 2, 256]"), "corrupt_data");
  const dtype structure = typed(R"({"name": "struct", "configuration": {"fields": [
      {"name": "x", "data_type": "float32"}, {"name": "n", "data_type": "int16"}]}})");
  EXPECT_EQ(rewritten(structure, R"({"n": -2, "x": "NaN"})"), R"({"x":"NaN","n":-2})");
  EXPECT_EQ(rewritten(structure, "\"AADAPwEA\""), R"({"x":1.5,"n":1})");
  EXPECT_EQ(rewritten(structure, R"({"x": 0})"), "corrupt_data");
  EXPECT_EQ(rewritten(structure, R"({"x": 0, "n": 0, "z": 1})"), "corrupt_data");
}

TEST(FillValue, SmallFloatsRoundToNearestAndKnowTheirLimits) {
  EXPECT_EQ(hex("bfloat16", "1.00390625"), "3f80");  // a tie, to even
  EXPECT_EQ(hex("bfloat16", "1.01171875"), "3f82");  // a tie, to even
  EXPECT_EQ(hex("bfloat16", "1e39"), "7f80");
  EXPECT_EQ(hex("float8_e4m3fn", "448"), "7e");
  EXPECT_EQ(hex("float8_e4m3fn", "1e9"), "7f");  // it has no infinity
  EXPECT_EQ(hex("float8_e4m3fn", "\"Infinity\""), "corrupt_data");
  EXPECT_EQ(hex("float8_e5m2", "1e9"), "7c");
  EXPECT_EQ(hex("float8_e4m3fnuz", "\"NaN\""), "80");
  EXPECT_EQ(hex("float8_e8m0fnu", "4"), "81");
  EXPECT_EQ(hex("float4_e2m1fn", "-6"), "0f");
  EXPECT_EQ(hex("float4_e2m1fn", "\"NaN\""), "corrupt_data");
  EXPECT_EQ(hex("float4_e2m1fn", "\"0xf\""), "0f");
  EXPECT_EQ(hex("float4_e2m1fn", "\"0x1f\""), "corrupt_data");
  for (unsigned bits = 0; bits < 256; ++bits) {
    for (const float_format format : {float_format::float8_e3m4, float_format::float8_e4m3, float_format::float8_e5m2,
                                      float_format::float8_e4m3fn, float_format::float8_e8m0fnu}) {
      const double value = double_from_bits(bits, format, 8);
      if (std::isnan(value)) continue;
      ASSERT_EQ(bits_from_double(value, format, 8), bits);
    }
  }
}

TEST(FillValue, OfVersion2IsBase64InStoredOrderOrNull) {
  result<json> described = json::parse(R"([["a", "<u2"], ["b", ">i4"], ["c", "|S3"]])");
  result<zarr_v2_type> type = parse_v2_dtype(*described);
  ASSERT_TRUE(type.ok()) << type.error().to_string();
  result<zarr_fill> fill = parse_v2_fill_value(json("AQAAAAACeHkA"), type->type, type->endian);
  ASSERT_TRUE(fill.ok()) << fill.error().to_string();
  EXPECT_EQ(write_fill_value(fill->item, type->type)->dump(), R"({"a":1,"b":2,"c":"eHk="})");
  EXPECT_EQ(write_v2_fill_value(fill->item, type->type, type->endian)->dump(), "\"AQAAAAACeHkA\"");
  EXPECT_EQ(write_v2_dtype(type->type, type->endian)->dump(), R"([["a","<u2"],["b",">i4"],["c","|S3"]])");
  for (const json& zero : {json(), json(std::int64_t{0})}) {
    fill = parse_v2_fill_value(zero, type->type, type->endian);
    ASSERT_TRUE(fill.ok());
    EXPECT_EQ(fill->item, std::vector<std::byte>(9));
  }
  EXPECT_EQ(parse_v2_fill_value(json("AQAAAAAC"), type->type, type->endian).error().code(), errc::corrupt_data);
}

TEST(FillValue, TextOfANumberIsTheNumber) {
  const auto same = [](std::string_view type, std::string_view text, std::string_view number) {
    const auto a = parsed(type, text), b = parsed(type, number);
    ASSERT_TRUE(a.ok()) << type << text << a.error().to_string();
    ASSERT_TRUE(b.ok());
    EXPECT_EQ(*a, *b) << type << text;
  };
  for (const char* type : {"uint8", "int8", "uint16", "int64", "uint64", "float16", "float32", "float64"}) {
    same(type, R"("0")", "0");
    same(type, R"("7")", "7");
    if (type[0] != 'u') same(type, R"("-1")", "-1");
  }
  same("float32", R"("1.5")", "1.5");
  same("float64", R"("1e3")", "1000");
  for (const char* text : {R"("")", R"(" 7")", R"("7x")", R"("1_000")", R"("[1]")", R"("true")", R"("1.5")", R"("300")",
                           R"("-1")", R"("\"1\"")", R"("null")"})
    EXPECT_FALSE(parsed("uint8", text).ok()) << text;
  for (const char* text : {R"("0")", R"("1")"}) EXPECT_FALSE(parsed("bool", text).ok()) << text;
  EXPECT_FALSE(parsed("complex64", R"("0")").ok());
  EXPECT_FALSE(parsed("uint8", '"' + std::string(1000, '0') + '"').ok());
}

TEST(FillValue, ErrorsNameTheValueAndTheType) {
  result<std::vector<std::byte>> out = parsed("int8", "300");
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().message(), "zarr.json: member 'fill_value' is 300, data type int8 needs an integer that fits");
}

}  // namespace
}  // namespace penstock
