#include <penstock/extend/json.h>

#include "base/json_bytes.h"
#include "base/json_numbers.h"

#include <cmath>
#include <limits>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace penstock::inline v0 {
namespace {

json parsed(std::string_view text) {
  auto value = json::parse(text);
  EXPECT_TRUE(value.ok()) << text << ": " << (value.ok() ? "" : value.error().to_string());
  return value.ok() ? std::move(*value) : json();
}

std::string refusal(std::string_view text) {
  const auto value = json::parse(text);
  EXPECT_FALSE(value.ok()) << text;
  if (value.ok()) return "";
  EXPECT_EQ(value.error().code(), errc::corrupt_data);
  return value.error().message();
}

TEST(Json, KeepsTheOrderOfMembers) {
  const json value = parsed(R"({"z": 1, "a": [true, null, "x"], "m": {}})");
  ASSERT_NE(value.as_object(), nullptr);
  EXPECT_EQ(value.as_object()->at(0).first, "z");
  EXPECT_EQ(value.as_object()->at(1).first, "a");
  EXPECT_EQ(value.as_object()->at(2).first, "m");
  EXPECT_EQ(value.find("a")->as_array()->size(), 3U);
  EXPECT_EQ(*value.find("a")->as_array()->at(2).as_string(), "x");
  EXPECT_EQ(value.find("b"), nullptr);
  EXPECT_EQ(parsed("[]").find("b"), nullptr);
}

TEST(Json, KeepsIntegersOf64BitsExactly) {
  std::int64_t whole = 0;
  std::uint64_t large = 0;
  double any = 0;
  EXPECT_TRUE(parsed("-9223372036854775808").get(whole));
  EXPECT_EQ(whole, std::numeric_limits<std::int64_t>::min());
  EXPECT_FALSE(parsed("-1").get(large));
  EXPECT_TRUE(parsed("18446744073709551615").get(large));
  EXPECT_EQ(large, std::numeric_limits<std::uint64_t>::max());
  EXPECT_FALSE(parsed("18446744073709551615").get(whole));
  EXPECT_TRUE(parsed("9223372036854775807").get(whole));
  EXPECT_TRUE(parsed("9223372036854775807").get(large));
  EXPECT_EQ(large, static_cast<std::uint64_t>(whole));
  EXPECT_FALSE(parsed("18446744073709551616").get(large));
  EXPECT_TRUE(parsed("18446744073709551616").get(any));
  EXPECT_EQ(any, 18446744073709551616.0);
  EXPECT_TRUE(parsed("-9223372036854775809").get(any));
  EXPECT_EQ(any, -9223372036854775808.0);
  EXPECT_EQ(json(std::uint64_t{5}), parsed("5"));
}

TEST(Json, KeepsTheDigitsOfLongerIntegers) {
  const std::string text = R"([18446744073709551616,-9223372036854775809,{"a":123456789012345678901234567890}])";
  const json value = parsed(text);
  EXPECT_EQ(value.dump(), text);
  EXPECT_EQ(dump_like(value, "[1.8446744073709552e19]", -1), text);
  ASSERT_NE(value.as_array()->at(1).as_long_integer(), nullptr);
  EXPECT_EQ(*value.as_array()->at(1).as_long_integer(), "-9223372036854775809");
  EXPECT_EQ(value.as_array()->at(1).as_string(), nullptr);
  EXPECT_EQ(value.as_array()->at(1).kind_name(), "number");
  EXPECT_EQ(value, parsed(text));
  EXPECT_FALSE(parsed("18446744073709551616") == parsed("18446744073709551617")) << "one double";
  for (const char* shorter : {"18446744073709551615", "-9223372036854775808", "1e30", "0", "null"})
    EXPECT_EQ(parsed(shorter).as_long_integer(), nullptr) << shorter;
}

TEST(Json, KeepsTheDifferenceBetweenWholeNumbersAndOthers) {
  std::int64_t whole = 0;
  double any = 0;
  for (const char* text : {"1.0", "1e3", "-0.0"}) {
    EXPECT_FALSE(parsed(text).get(whole)) << text;
    EXPECT_TRUE(parsed(text).get(any)) << text;
  }
  EXPECT_TRUE(std::signbit(any));
  EXPECT_EQ(parsed("1.0").dump(), "1.0");
  EXPECT_EQ(parsed("1").dump(), "1");
}

TEST(Json, ReadsAndWritesPythonsLiterals) {
  const json value = parsed(R"({"a": NaN, "b": [Infinity,-Infinity , 1], "c": "NaN", "d": "\"NaN", "e": ""})");
  double any = 0;
  ASSERT_TRUE(value.find("a")->get(any));
  EXPECT_TRUE(std::isnan(any));
  ASSERT_TRUE(value.find("b")->as_array()->at(1).get(any));
  EXPECT_EQ(any, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(*value.find("c")->as_string(), "NaN");
  EXPECT_EQ(*value.find("d")->as_string(), "\"NaN");
  EXPECT_EQ(*value.find("e")->as_string(), "");
  EXPECT_EQ(value.dump(), R"({"a":NaN,"b":[Infinity,-Infinity,1],"c":"NaN","d":"\"NaN","e":""})");
  EXPECT_TRUE(parsed("NaN").get(any));
  for (const char* text :
       {"NaNNaN", "1NaN", "NaN1", "-NaN", "Inf", "{NaN: 1}", "{NaN", "[\"\" NaN]", "+Infinity", "NaN\""})
    refusal(text);
}

TEST(Json, RefusesDuplicateMembersAtAnyDepth) {
  EXPECT_NE(refusal(R"({"a": 1, "b": 2, "a": 3})").find("duplicate member 'a'"), std::string::npos);
  refusal(R"([{"x": {"a": 1, "\u0061": 3}}])");
  parsed(R"({"a": {"a": {"a": 1}}})");
}

TEST(Json, RefusesNestingBeyond128Levels) {
  const auto nested = [](std::size_t depth, char open, char close) {
    return std::string(depth, open) + std::string(depth, close);
  };
  parsed(nested(128, '[', ']'));
  EXPECT_NE(refusal(nested(129, '[', ']')).find("128 levels"), std::string::npos);
  refusal(std::string(1000000, '['));
  std::string objects;
  for (int i = 0; i < 200; ++i) objects += "{\"a\":";
  EXPECT_NE(refusal(objects).find("128 levels"), std::string::npos);
}

TEST(Json, ReportsWhereADocumentIsMalformed) {
  EXPECT_NE(refusal(R"({"abc": tru})").find("byte 12"), std::string::npos) << refusal(R"({"abc": tru})");
  for (const char* text : {"", " ", "{", "[1,]", "{\"a\":}", "nul", "\"abc", "[1] 2", "01", "1.", "'a'", "\"\\x\"",
                           "\"\x01\"", "\"\xff\"", "\"\\ud80\"", "{\"a\" 1}", "-", "1e999"})
    refusal(text);
  refusal(std::string_view("[1\0]", 4));
}

TEST(Json, ReadsEscapesAndUtf8) {
  EXPECT_EQ(*parsed(R"("\u00e9\n\ud83d\ude00\/")").as_string(), "é\n😀/");
  EXPECT_EQ(*parsed("\"é\"").as_string(), "é");
}

TEST(Json, WritesTheDocumentsThatItReads) {
  const std::string text = R"({"a":[1,-2,3.5,1e+300,true,false,null],"b":{},"c":[],"d":"q\"\\\n\t\u0001é"})";
  EXPECT_EQ(parsed(text).dump(), text);
  EXPECT_EQ(parsed(parsed(text).dump(2)), parsed(text));
  EXPECT_EQ(parsed(R"({"a":[1,2],"b":{},"c":[]})").dump(2),
            "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {},\n  \"c\": []\n}");
}

TEST(Json, WritesValidUtf8ForAnyString) {
  EXPECT_EQ(json(std::string("a\xff\xc3")).dump(), "\"a\xef\xbf\xbd\xef\xbf\xbd\"");
  EXPECT_EQ(json(std::string("\xed\xa0\x80")).dump(), "\"\\ud800\"") << "half of a pair";
  EXPECT_EQ(json(std::string("\xed\xa0")).dump(), "\"\xef\xbf\xbd\xef\xbf\xbd\"");
  parsed(json(std::string("\xf4\x90\x80\x80 \xc0\x80 \xe0\x80\x80")).dump());
}

TEST(Json, NamesKinds) {
  EXPECT_EQ(parsed("null").kind_name(), "null");
  EXPECT_EQ(parsed("true").kind_name(), "boolean");
  EXPECT_EQ(parsed("1.5").kind_name(), "number");
  EXPECT_EQ(parsed("\"\"").kind_name(), "string");
  EXPECT_EQ(parsed("[]").kind_name(), "array");
  EXPECT_EQ(parsed("{}").kind_name(), "object");
}

TEST(Json, KeepsBytesThatAreNotUtf8IfRequested) {
  std::string all;
  for (int i = 0x80; i < 0x100; ++i) all += static_cast<char>(i);
  for (const std::string& text :
       {all, std::string("x\xff.nc"), std::string("\xc3\xa4\xff\xc3"), std::string("\xff\xff"), std::string("\\udcff"),
        std::string("\\\xff"), std::string("\xf0\x9f\x98\x80\x80")}) {
    const json value = json::object_t{{text, json(text)}};
    const std::string written = dump_json_with_bytes(value);
    const auto back = parse_json_with_bytes(written);
    ASSERT_TRUE(back.ok()) << written << back.error().to_string();
    EXPECT_EQ(*back, value) << written;
  }
  EXPECT_EQ(dump_json_with_bytes(json("a\xff")), R"("a\udcff")");
}

TEST(Json, NumbersThatDidNotChangeKeepTheirText) {
  const std::string before = R"({"a":123456789012345678901234567890,"b":[1.50,-1E+2,0.1],"c":{"d":-0.0,"e":1e3}})";
  EXPECT_EQ(dump_like(parsed(before), before, -1), before);
  json::object_t members = *parsed(before).as_object();
  members.erase(members.begin() + 1);
  members.emplace_back("f", 1e30);
  EXPECT_EQ(dump_like(json(members), before, -1),
            R"({"a":123456789012345678901234567890,"c":{"d":-0.0,"e":1e3},"f":1e+30})");
  EXPECT_EQ(dump_like(json(members), "{", -1), json(members).dump());
  EXPECT_EQ(dump_like(parsed("[2.5, NaN, 2.0]"), "[2.50, NaN, 1]", -1), "[2.50,NaN,2.0]");
}

// A string is not written as a number that is not one of JSON.
TEST(Json, NumbersThatWereStringsAreWrittenAsNumbers) {
  for (const char* before : {"01", "1.", ".5", "+1", "0x1", "inf", "1e", "", "-"})
    EXPECT_EQ(dump_like(json(json::array_t{json(1.0)}), "[\"" + std::string(before) + "\"]", -1), "[1.0]") << before;
}

// As Python's json module reads and writes them.
TEST(Json, KeepsHalvesOfPairs) {
  for (const char* const half : {"\\ud800", "\\udbff", "\\udc00", "\\udc7f", "\\udcff", "\\udd00", "\\udfff"}) {
    const std::string text = fmt::format(R"({{"a{0}b":"{0}","c":["\u0000","{0}\u0001","\u00000041"]}})", half);
    EXPECT_EQ(parsed(text).dump(), text);
    EXPECT_EQ(parsed(R"("\ud83d\ude00)" + std::string(half) + "\"").dump(), "\"😀" + std::string(half) + "\"");
  }
  EXPECT_EQ(parsed(R"("\ud800\udcff")").dump(), "\"\xf0\x90\x83\xbf\"") << "a pair";
  EXPECT_EQ(parsed(R"("\\ud800")").dump(), R"("\\ud800")");
  EXPECT_EQ(*parsed(R"("\u0000\udc00")").as_string(), std::string("\0\xed\xb0\x80", 4));
  EXPECT_EQ(*parse_json_with_bytes(R"("\udbff\udfff\udcff")"), json("\xf4\x8f\xbf\xbf\xff"));
  EXPECT_FALSE(parse_json_with_bytes(R"("\udc")").ok());
}

}  // namespace
}  // namespace penstock::inline v0
