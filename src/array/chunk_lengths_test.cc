#include <penstock/chunk_lengths.h>

#include <gtest/gtest.h>

namespace penstock::inline v0 {
namespace {

using names_t = std::vector<std::optional<std::string>>;

std::string resolved(std::string_view text, const extents& shape, const names_t& names = {}, std::uint64_t item = 8) {
  const auto rule = chunk_lengths::parse(text, "--chunks");
  if (!rule.ok()) return rule.error().message();
  const auto lengths = rule->resolve(shape, names, item);
  if (!lengths.ok()) return lengths.error().message();
  // Text that is written parses to the same value.
  EXPECT_EQ(to_string(*chunk_lengths::parse(rule->to_string(), "--chunks")->resolve(shape, names, item)),
            to_string(*lengths));
  return to_string(*lengths);
}

TEST(ChunkLengths, AreLengthsNamesOrSizes) {
  const extents shape{30, 20};
  const names_t names{"y", "x"};
  EXPECT_EQ(resolved("4,5", shape), "(4, 5)");
  EXPECT_EQ(resolved("(4, 5)", shape), "(4, 5)");
  EXPECT_EQ(resolved("[4,-1]", shape), "(4, 20)");
  EXPECT_EQ(resolved("4x5", shape), "(4, 5)");
  EXPECT_EQ(resolved("-1", shape), "(30, 20)");
  EXPECT_EQ(resolved("(7,)", {9}), "(7,)");
  EXPECT_EQ(resolved("()", {}), "()");
  EXPECT_EQ(resolved("y=4", shape, names), "(4, 20)");
  EXPECT_EQ(resolved("x=4, y=-1", shape, names), "(30, 4)");
  EXPECT_EQ(resolved("1=4", shape), "(30, 4)");
  EXPECT_EQ(resolved(R"({"y": 4, "a,b": 3})", shape, {"y", "a,b"}), "(4, 3)");
  EXPECT_EQ(resolved("time=1", shape, names), "(30, 20)") << "of other arrays of the group";
  EXPECT_EQ(resolved("1KiB", shape), "(8, 10)");
  EXPECT_EQ(resolved("1 B", {0, 3}), "(1, 1)");
}

TEST(ChunkLengths, RefuseInvalidLengths) {
  for (const char* text : {"",
                           "0",
                           "0,1",
                           "4,",
                           ",",
                           "4;5",
                           "(4",
                           "4,-2",
                           "y",
                           "y=",
                           "y=0",
                           "y=1,y=2",
                           "y=1,4",
                           "many",
                           "4GiB,1",
                           "{",
                           "{\"y\": 1.5}",
                           "{\"y\": 0}",
                           "99999999999999999999",
                           "0B",
                           "-1GiB"}) {
    EXPECT_FALSE(chunk_lengths::parse(text, "--chunks").ok()) << text;
  }
  EXPECT_EQ(resolved("4,5", {3}), "--chunks (4, 5) are for 2 dimensions, the array has 1");
  EXPECT_EQ(resolved("1MB", {3}, {}, 0), "--chunks: a size in bytes needs elements of one size; give lengths");
}

TEST(ChunkLengths, OfShardsAreMultiplesOfChunks) {
  const auto shards = [](const char* text) {
    const auto rule = chunk_lengths::parse(text, "--shards");
    return to_string(*rule->resolve_shards({30, 20}, names_t{"y", "x"}, 8, {7, 6}));
  };
  EXPECT_EQ(shards("-1"), "(35, 24)");
  EXPECT_EQ(shards("y=14"), "(14, 24)");
  EXPECT_EQ(shards("2KiB"), "(7, 24)");
  EXPECT_EQ(shards("1B"), "(7, 6)");
  EXPECT_EQ(shards("1GiB"), "(35, 24)");
}

TEST(Bytes, AreParsedWithUnits) {
  EXPECT_EQ(*parse_bytes("100"), 100U);
  EXPECT_EQ(*parse_bytes(" 2 gib "), std::uint64_t{2} << 30);
  EXPECT_EQ(*parse_bytes("1.5GB"), 1'500'000'000U);
  EXPECT_EQ(*parse_bytes("2.3GB"), 2'300'000'000U);  // the number is not exact in binary
  EXPECT_EQ(*parse_bytes("64k"), 64'000U);
  EXPECT_EQ(*parse_bytes("1.99999999999999999999GB"), 2'000'000'000U);  // as a double, 2
  EXPECT_EQ(*parse_bytes("9007199254740993.6"), 9'007'199'254'740'994U);
  EXPECT_EQ(*parse_bytes("1."), 1U);
  for (const char* text : {"", "GB", "-1", "1 parsec", "1.2.3", "1e3", "99999999TB", "1GiBs", ".5GB", "inf", "0x10"})
    EXPECT_FALSE(parse_bytes(text).ok()) << text;
}

}  // namespace
}  // namespace penstock::inline v0
