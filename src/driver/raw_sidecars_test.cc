#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/find_shards.h>
#include <penstock/open.h>

namespace penstock::inline v0 {
namespace {

class RawSidecars : public testing::Test {
 protected:
  void put(std::string_view key, std::string_view text) {
    const part whole(reinterpret_cast<const std::byte*>(text.data()), text.size());
    ASSERT_TRUE(memory_->put(key, {&whole, 1}, {}).ok());
  }
  result<raw_options> describe(std::vector<std::string> keys, const raw_description& given = {},
                               std::int64_t axis = 0) {
    return describe_raw_shards({memory_, std::move(keys), "memory:", ""}, axis, given);
  }
  result<array> open(std::vector<std::string> keys) {
    shard_options how;
    PENSTOCK_ASSIGN(how.raw, describe(keys));
    return open_shards(memory_, std::move(keys), how);
  }
  // Returns the error for a document that is refused.
  std::string refusal(std::string_view document) {
    put("a.json", document);
    const auto made = describe({"a.raw"});
    if (made.ok()) return "none";
    EXPECT_EQ(made.error().code(), errc::invalid_argument) << document;
    return made.error().message();
  }

  std::shared_ptr<store> memory_ = make_memory_store();
};

TEST_F(RawSidecars, TheSidecarOfTheFileHasPrecedence) {
  put("run/_meta.json", R"({"dtype": "<i4", "row_shape": [3], "offset": 8})");
  const auto common = describe({"run/a.raw", "run/b.raw"});
  ASSERT_TRUE(common.ok()) << common.error().to_string();
  EXPECT_EQ(common->dtype, "<i4");
  EXPECT_EQ(common->row_shape, (extents{3}));
  EXPECT_EQ(common->offset, 8U);
  EXPECT_TRUE(common->rows.empty());
  put("run/a.json", R"({"dtype": "int16", "trailing_shape": 5, "rows": 2, "order": "F"})");
  EXPECT_EQ(describe({"run/a.raw"})->dtype, "<i2");
  put("run/a.raw.json", R"({"dtype": ">f8", "shape": [2, 7, 5]})");
  const auto own = describe({"run/a.raw"}, {}, -2);
  ASSERT_TRUE(own.ok()) << own.error().to_string();
  EXPECT_EQ(own->dtype, ">f8");
  EXPECT_EQ(own->row_shape, (extents{2, 5}));
  EXPECT_EQ(own->rows, (std::vector<std::optional<std::uint64_t>>{7}));
}

TEST_F(RawSidecars, OptionsOfTheCallerHavePrecedence) {
  put("a.json", R"({"dtype": "<i4", "shape": [7, 6], "offset": 4, "order": "F"})");
  raw_description given;
  given.row_shape = extents{2};
  given.offset = 0;
  given.fortran_order = false;
  const auto made = describe({"a.raw"}, given);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  EXPECT_EQ(made->row_shape, (extents{2}));
  EXPECT_EQ(made->offset, 0U);
  EXPECT_FALSE(made->fortran_order);
  EXPECT_TRUE(made->rows.empty());
  given.dtype = "<f4";
  EXPECT_EQ(describe({"b.raw"}, given)->dtype, "<f4") << "no document is needed";
}

TEST_F(RawSidecars, ListRowsByFileName) {
  put("_meta.json", R"({"dtype": "<i4", "rows": {"a.raw": 3, "c.raw": null, "d.raw": 0}})");
  const auto made = describe({"a.raw", "b.raw", "c.raw", "d.raw"});
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  EXPECT_EQ(made->rows, (std::vector<std::optional<std::uint64_t>>{3, {}, {}, 0}));
}

TEST_F(RawSidecars, MustAgreeExceptForTheRows) {
  put("a.json", R"({"dtype": "<i4", "shape": [7, 6]})");
  put("b.json", R"({"dtype": "<i4", "shape": [2, 6]})");
  EXPECT_TRUE(describe({"a.raw", "b.raw"}).ok());
  for (const char* other :
       {R"({"dtype": ">i4", "shape": [2, 6]})", R"({"dtype": "<i4", "shape": [2, 5]})",
        R"({"dtype": "<i4", "shape": [2, 6], "offset": 1})", R"({"dtype": "<i4", "shape": [2, 6], "order": "F"})"}) {
    put("b.json", other);
    const auto made = describe({"a.raw", "b.raw"});
    ASSERT_FALSE(made.ok()) << other;
    EXPECT_NE(made.error().message().find("1 of 2 files do not match 'a.raw', ('<i4', 0, 'C', (6"), std::string::npos)
        << made.error().message();
  }
}

TEST_F(RawSidecars, TheErrorNamesMissingSidecars) {
  put("a.json", R"({"dtype": "<i4"})");
  const auto made = describe({"a.raw", "run/b.raw"});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message(),
            "'run/b.raw' is raw bytes: give dtype=, or write it into 'run/b.raw.json' or '_meta.json' next to it");
}

TEST_F(RawSidecars, RefusesDocumentsThatAreNotDescriptions) {
  for (const char* document : {"", "{", "nothing", "{\"dtype\": \"<i4\"} x", "\xff\xfe{}"})
    EXPECT_NE(refusal(document).find("'a.json' is not JSON: "), std::string::npos) << document;
  for (const char* document :
       {R"({})", R"({"dtype": 4})", R"({"dtype": "<i4", "offset": -1})", R"({"dtype": "<i4", "offset": 0.5})",
        R"({"dtype": "<i4", "order": "K"})", R"({"dtype": "<i4", "order": null})",
        R"({"dtype": "<i4", "offset": 1e30})", R"({"dtype": "<i4", "offset": 36893488147419103232})"})
    EXPECT_NE(refusal(document).find("has no valid dtype, order and offset"), std::string::npos) << document;
  const std::string ones = "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1";
  EXPECT_EQ(refusal(R"({"dtype": "<i4", "shape": )" + ones + "]}"), "none");
  EXPECT_NE(refusal(R"({"dtype": "<i4", "shape": )" + ones + ",1]}").find("shape of 'a.json' is "), std::string::npos);
  EXPECT_NE(refusal(R"({"dtype": "<i4", "row_shape": )" + ones + "]}").find("row_shape of "), std::string::npos);
  for (const char* shape : {"-1", "[-1]", "[[3]]", "\"x\"", "null", "[1.5]", "{\"a\": 1}", "[18446744073709551616]"}) {
    const std::string document = std::string(R"({"dtype": "<i4", "shape": )") + shape + "}";
    EXPECT_NE(refusal(document).find("shape of 'a.json' is "), std::string::npos) << document;
  }
  for (const char* rows : {"-1", "\"x\"", "[3]", "1.5", "9223372036854775808", "{\"a.raw\": -1}", "true"}) {
    const std::string document = std::string(R"({"dtype": "<i4", "rows": )") + rows + "}";
    EXPECT_NE(refusal(document).find("gives the number of rows of 'a.raw' as "), std::string::npos) << document;
  }
  EXPECT_EQ(refusal(R"({"dtype": "float31"})"), "dtype: data type 'float31' not understood");
  EXPECT_NE(refusal(R"({"dtype": "<i4", "shape": []})").find("axis 0 is out of range for 'a.raw'"), std::string::npos);
  put("a.json", "[1, 2]");  // written by another program
  EXPECT_NE(describe({"a.raw"}).error().message().find("is raw bytes: give dtype="), std::string::npos);
  put("a.json", R"({"dtype": "|S0"})");
  EXPECT_EQ(describe({"a.raw"}).error().code(), errc::unsupported);
}

TEST_F(RawSidecars, RefusesImpossibleCounts) {
  put("a.raw", std::string(24, '\1'));
  put("b.raw", std::string(24, '\1'));
  for (const char* document :
       {R"({"dtype": "<i4", "rows": 9223372036854775807})", R"({"dtype": "<i4", "shape": [18446744073709551615]})",
        R"({"dtype": "<i4", "shape": [4611686018427387904, 4611686018427387904]})",
        R"({"dtype": "<i4", "row_shape": [18446744073709551615, 18446744073709551615]})",
        R"({"dtype": "<i4", "offset": 18446744073709551615})", R"({"dtype": "<i4", "shape": [7]})",
        R"({"dtype": "<i4", "row_shape": [4]})", R"({"dtype": "<i4", "row_shape": [0], "rows": 3})"}) {
    put("_meta.json", document);
    EXPECT_FALSE(open({"a.raw", "b.raw"}).ok()) << document;
  }
  put("c.raw", "");
  put("d.raw", "");
  put("_meta.json", R"({"dtype": "<i4", "row_shape": [0], "rows": 9223372036854775807})");
  EXPECT_FALSE(open({"c.raw"}).ok());
  EXPECT_FALSE(open({"c.raw", "d.raw"}).ok());
  const std::string deep(100'000, '[');
  put("_meta.json", R"({"dtype": )" + deep);
  EXPECT_FALSE(open({"a.raw"}).ok());
}

TEST_F(RawSidecars, OpenTheArray) {
  put("a_0.raw", std::string("head") + std::string(12, '\2'));
  put("a_1.raw", std::string("head") + std::string(24, '\3'));
  put("_meta.json", R"({"dtype": "|u1", "trailing_shape": [6], "offset": 4})");
  const auto made = open({"a_0.raw", "a_1.raw"});
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  EXPECT_EQ(made->shape(), (extents{6, 6}));
}

}  // namespace
}  // namespace penstock::inline v0
