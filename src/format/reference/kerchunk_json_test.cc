#include "format/reference/kerchunk_json.h"

#include <gtest/gtest.h>

#include <string>

#include "format/reference/kerchunk_folder.h"
#include "format/reference/location_rule.h"

namespace penstock::inline v0 {
namespace {

const std::string kGroup = R"(".zgroup": "{\"zarr_format\": 2}")";

kerchunk_json parsed(const std::string& text) {
  auto out = kerchunk_json::parse(text);
  EXPECT_TRUE(out.ok()) << out.error().to_string();
  return out.ok() ? std::move(*out) : kerchunk_json();
}

errc code_of(const std::string& text) {
  const auto out = kerchunk_json::parse(text);
  EXPECT_FALSE(out.ok());
  return out.ok() ? errc::internal : out.error().code();
}

/// The location of chunk `cell`, with its range, of a one-dimensional array `x` of 9 chunks.
std::string location_of(const kerchunk_json& from, std::uint64_t cell) {
  auto rows = from.rows("x", {{9}, "", '.'});
  EXPECT_TRUE(rows.ok()) << rows.error().to_string();
  if (!rows.ok()) return "";
  const auto table = rows->table(9);
  EXPECT_TRUE(table.ok()) << table.error().to_string();
  std::size_t hint = 0;
  cell_reference found;
  if (!(*table)->find(cell, hint, found)) return "absent";
  std::string out = rows->sources()[found.object].text;
  if (found.length != byte_range::kAll) out += " " + std::to_string(found.offset) + "+" + std::to_string(found.length);
  return out;
}

std::string with_template(const std::string& expression) {
  return R"({"version": 1, "templates": {"u": "data", "f": "{{u}}/{{n}}.bin"}, "refs": {")" + std::string("x/0") +
         R"(": ["{{)" + expression + R"(}}"]}})";
}

TEST(KerchunkJson, ReadsBothVersions) {
  const std::string refs =
      "{" + kGroup + R"(, "x/0": ["a.bin", 4, 24], "x/1": ["b.bin"], "x/2": "base64:AQID", "x/3": "text"})";
  for (const std::string& text : {refs, R"({"version": 1, "refs": )" + refs + "}"}) {
    const kerchunk_json read = parsed(text);
    EXPECT_EQ(read.documents().size(), 1U);
    EXPECT_EQ(location_of(read, 0), "a.bin 4+24");
    EXPECT_EQ(location_of(read, 1), "b.bin");
    EXPECT_EQ(location_of(read, 2), "\x01\x02\x03 0+3");
    EXPECT_EQ(location_of(read, 3), "text 0+4");
    EXPECT_EQ(location_of(read, 4), "absent");
  }
}

TEST(KerchunkJson, EvaluatesExpressions) {
  const std::pair<const char*, const char*> cases[] = {{"u", "data"},
                                                       {" u ", "data"},
                                                       {"f(n=3)", "data/3.bin"},
                                                       {"f(n='a b')", "data/a b.bin"},
                                                       {"1 + 2 * 3", "7"},
                                                       {"(1 + 2) * 3", "9"},
                                                       {"7 // 2", "3"},
                                                       {"(0 - 7) // 2", "-4"},
                                                       {"(0 - 7) % 3", "2"},
                                                       {"7 % (0 - 3)", "-2"},
                                                       {"f(n=f(n=1))", "data/data/1.bin.bin"}};
  for (const auto& [expression, wanted] : cases)
    EXPECT_EQ(location_of(parsed(with_template(expression)), 0), wanted) << expression;
}

TEST(KerchunkJson, RefusesOtherExpressions) {
  for (const char* const expression :
       {"", "1 +", "-1", "2 ** 3", "u.__class__", "f(3)", "f(n=)", "f(", "u + 1", "g(n=1)", "1 // 0", "0x10", "'a",
        "9223372036854775807 + 1", "9223372036854775808", "((1)"}) {
    EXPECT_EQ(code_of(with_template(expression)), errc::unsupported) << expression;
  }
  EXPECT_EQ(code_of(with_template("v")), errc::corrupt_data);  // not defined
  EXPECT_EQ(code_of(with_template("(lambda: 1)()")), errc::corrupt_data);
}

TEST(KerchunkJson, BoundsTemplates) {
  const std::string circle = R"({"version": 1, "templates": {"u": "{{w}}", "w": "{{u}}"}, "refs": {"x/0": ["{{u}}"]}})";
  EXPECT_EQ(code_of(circle), errc::corrupt_data);
  std::string wide;
  for (int i = 0; i < 1001; ++i) wide += "{{u}}";
  EXPECT_EQ(code_of(R"({"version": 1, "templates": {"u": ""}, "refs": {"x/0": [")" + wide + R"("]}})"),
            errc::unsupported);
  EXPECT_EQ(code_of(with_template(std::string(1001, '1'))), errc::unsupported);
  const std::string long_text(70'000, 'y');
  EXPECT_EQ(code_of(R"({"version": 1, "templates": {"u": ")" + long_text + R"("}, "refs": {"x/0": ["{{u}}"]}})"),
            errc::unsupported);
}

TEST(KerchunkJson, GeneratesKeys) {
  const kerchunk_json read = parsed(
      R"({"version": 1, "refs": {"x/0": ["first"]}, "gen": [{"key": "x/{{i + j}}", "url": "{{n}}.bin",
          "offset": "{{i * 10}}", "length": 5,
          "dimensions": {"i": {"start": 6, "stop": -1, "step": -3}, "j": [1, 2], "n": ["a"]}}]})");
  EXPECT_EQ(location_of(read, 0), "first");
  EXPECT_EQ(location_of(read, 1), "a.bin 0+5");
  EXPECT_EQ(location_of(read, 5), "a.bin 30+5");
  EXPECT_EQ(location_of(read, 8), "a.bin 60+5");
  EXPECT_EQ(location_of(read, 6), "absent");
  const auto generated = [](const std::string& dimensions) {
    return R"({"refs": {}, "gen": [{"key": "x/{{i}}", "url": "u", "dimensions": )" + dimensions + "}]}";
  };
  EXPECT_EQ(code_of(generated(R"({"i": {"stop": 100001}})")), errc::unsupported);
  EXPECT_EQ(code_of(generated(R"({"i": {"stop": 9223372036854775807}, "j": {"stop": 9}})")), errc::unsupported);
  EXPECT_EQ(code_of(generated(R"({"i": {"stop": 3, "step": 0}})")), errc::corrupt_data);
  EXPECT_EQ(code_of(generated(R"({"i": {"start": 3}})")), errc::corrupt_data);
  EXPECT_EQ(code_of(generated(R"({"i": [null]})")), errc::corrupt_data);
  EXPECT_EQ(code_of(generated(R"([1])")), errc::corrupt_data);
}

TEST(KerchunkJson, ChecksReferencesWhenTheirArrayIsOpened) {
  for (const char* const value : {R"(["a", 4])", R"(["a", -4, 3])", R"(["a", 0, 0])", R"(["a", true, 3])", "7",
                                  R"([["a"]])", R"("base64:!!")", "[]"}) {
    const kerchunk_json read = parsed("{" + kGroup + R"(, "x/0": )" + value + R"(, "y/0": ["a"]})");
    const auto rows = read.rows("x", {{9}, "", '.'});
    ASSERT_FALSE(rows.ok()) << value;
    EXPECT_EQ(rows.error().code(), errc::corrupt_data);
    EXPECT_TRUE(read.rows("y", {{9}, "", '.'}).ok());
  }
}

TEST(KerchunkJson, RefusesOtherDocuments) {
  EXPECT_EQ(code_of(R"({"a": 1})"), errc::corrupt_data);
  EXPECT_EQ(code_of(R"([1])"), errc::corrupt_data);
  EXPECT_EQ(code_of(R"({"version": 1, "refs": {)"), errc::corrupt_data);
  EXPECT_EQ(code_of(R"({"version": 1, "refs": []})"), errc::corrupt_data);
  EXPECT_EQ(code_of(R"({"version": 2, "refs": {}})"), errc::unsupported);
  EXPECT_EQ(code_of(R"({"refs": {"x/.zarray": ["elsewhere"]}})"), errc::unsupported);
}

TEST(ReferenceKeys, NameChunksOfTheGrid) {
  const reference_keys v2{{3, 4}, "", '.'}, v3{{3, 4}, "c", '/'}, scalar{{}, "", '.'}, scalar3{{}, "c", '/'};
  EXPECT_EQ(v2.cell("2.1"), 9U);
  EXPECT_EQ(v3.cell("c/2/1"), 9U);
  EXPECT_EQ(scalar.cell("0"), 0U);
  EXPECT_EQ(scalar3.cell("c"), 0U);
  for (const char* const bad :
       {"", "2", "2.", ".1", "2.1.0", "3.0", "0.4", "-1.0", "a.b", "2.1.", "2/1", "99999999999999999999.0"})
    EXPECT_FALSE(v2.cell(bad)) << bad;
  for (const char* const bad : {"2/1", "c2/1", "c/2", "c/2/1/0", "c"}) EXPECT_FALSE(v3.cell(bad)) << bad;
}

TEST(ReferenceRows, RefuseAChunkThatIsNamedTwice) {
  const kerchunk_json read = parsed("{" + kGroup + R"(, "x/1": ["a"], "x/01": ["b"]})");
  const auto rows = read.rows("x", {{9}, "", '.'});
  ASSERT_TRUE(rows.ok());
  EXPECT_FALSE(rows->table(9).ok());
}

TEST(KerchunkFolder, NeedsMetadataAndARecordSize) {
  const auto read = kerchunk_folder::parse(R"({"metadata": {"x/.zarray": {"a": 1}}, "record_size": 3})");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->record_size, 3U);
  EXPECT_EQ(read->documents.at("x/.zarray"), R"({"a":1})");
  for (const char* const bad : {R"({"metadata": {}})", R"({"metadata": {}, "record_size": 0})",
                                R"({"metadata": {}, "record_size": "3"})", R"({"record_size": 3})", "[]", "{"})
    EXPECT_FALSE(kerchunk_folder::parse(bad).ok()) << bad;
}

TEST(LocationRule, AllowsLocalDocumentsToNameAnything) {
  for (const char* const document : {"", "/data/refs.json", "file:///data/refs.json", "zip:///data/x.zip"}) {
    for (const char* const name : {"/etc/x", "file:///x", "https://host/x", "memory://x", "unknown://x"})
      EXPECT_TRUE((location_rule{document, {}}.check(name, name).ok())) << document << " " << name;
  }
}

TEST(LocationRule, KeepsRemoteDocumentsFromLocalFiles) {
  const location_rule remote{"https://host/refs.json", {}};
  for (const char* const name : {"https://host/x", "s3://b/x", "simplecache::https://host/x", "GS://b/x"})
    EXPECT_TRUE(remote.check(name, name).ok()) << name;
  for (const char* const name : {"/etc/x", "x", "file:///x", "FILE:///x", "local://x", "simplecache::file:///x",
                                 "simplecache::/x", "memory://x", "unknown://x", "reference://x", "https://h/x::/y"})
    EXPECT_EQ(remote.check(name, name).error().code(), errc::unsupported) << name;
  EXPECT_TRUE((location_rule{"https://host/refs.json", true}.check("/etc/x", "x").ok()));
  EXPECT_FALSE((location_rule{"/data/refs.json", false}.check("/etc/x", "x").ok()));
  EXPECT_TRUE((location_rule{"memory://refs.json", {}}.check("memory://x", "x").ok()));
}

}  // namespace
}  // namespace penstock::inline v0
