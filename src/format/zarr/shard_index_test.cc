#include "format/zarr/shard_index.h"

#include <gtest/gtest.h>

#include <string>

#include "format/zarr/shard_fixture.h"

namespace penstock {
namespace {

std::vector<codec_config> codecs(std::string_view text) {
  result<json> list = json::parse(text);
  EXPECT_TRUE(list.ok());
  result<zarr_codecs> out = parse_zarr_codecs(*list, "index_codecs");
  EXPECT_TRUE(out.ok());
  return out->chain;
}

zarr_shard shard_with(std::string_view index_codecs, bool at_start = false) {
  zarr_shard out;
  out.index_codecs = codecs(index_codecs);
  out.index_at_start = at_start;
  return out;
}

constexpr std::string_view kLittle = R"([{"name": "bytes", "configuration": {"endian": "little"}}, "crc32c"])";
constexpr std::string_view kBig = R"([{"name": "bytes", "configuration": {"endian": "big"}}])";

shard_index_codec made(std::string_view index_codecs, const extents& counts) {
  result<shard_index_codec> out = shard_index_codec::make(shard_with(index_codecs), {}, counts);
  EXPECT_TRUE(out.ok()) << out.error().to_string();
  return std::move(out).value();
}

std::string refusal(const result<std::shared_ptr<const shard_index>>& out) {
  if (out.ok()) return "accepted";
  return std::string(to_string(out.error().code())) + ": " + out.error().message();
}

TEST(ShardIndex, DecodesPairsOfEitherByteOrder) {
  const index_pairs pairs{{0, 10}, {kNoChunk, kNoChunk}, {10, 5}, {15, 1}};
  const shard_index_codec little = made(kLittle, {2, 2});
  EXPECT_EQ(little.index_bytes(), 68u);
  auto block = little.decode(index_bytes(pairs, 1), 1000);
  ASSERT_TRUE(block.ok()) << block.error().to_string();
  ASSERT_EQ((*block)->entries(), 4u);
  EXPECT_EQ((**block)[0].offset, 0u);
  EXPECT_EQ((**block)[0].length, 10u);
  EXPECT_TRUE((**block)[1].absent());
  EXPECT_EQ((**block)[3].offset, 15u);
  EXPECT_EQ((*block)->shard_bytes(), 1000u);

  const shard_index_codec big = made(kBig, {4});
  EXPECT_EQ(big.index_bytes(), 64u);
  block = big.decode(index_bytes(pairs, 0, true), byte_range::kAll);
  ASSERT_TRUE(block.ok()) << block.error().to_string();
  EXPECT_EQ((**block)[2].offset, 10u);
  EXPECT_EQ((**block)[2].length, 5u);
}

TEST(ShardIndex, ChecksEachOfSeveralChecksums) {
  const shard_index_codec twice =
      made(R"([{"name": "bytes", "configuration": {"endian": "little"}}, "crc32c", "crc32c"])", {1});
  EXPECT_EQ(twice.index_bytes(), 24u);
  std::vector<std::byte> bytes = index_bytes({{3, 4}}, 2);
  EXPECT_EQ(refusal(twice.decode(bytes, 100)), "accepted");
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] ^= std::byte{1};
    EXPECT_EQ(refusal(twice.decode(bytes, 100)).substr(0, 13), "corrupt_data:") << i;
    bytes[i] ^= std::byte{1};
  }
}

TEST(ShardIndex, UndoesATransposeOfTheIndex) {
  // Entries (y, x) of a 2 x 3 shard, written with the pair's dimension first: all offsets, then all lengths.
  const shard_index_codec pair_first = made(
      R"([{"name": "transpose", "configuration": {"order": [2, 0, 1]}}, {"name": "bytes", "configuration": {"endian": "little"}}])",
      {2, 3});
  const index_pairs as_words{{0, 10}, {20, 30}, {40, 50}, {1, 2}, {3, 4}, {5, 6}};
  auto block = pair_first.decode(index_bytes(as_words, 0), 1000);
  ASSERT_TRUE(block.ok()) << block.error().to_string();
  for (std::uint64_t i = 0; i < 6; ++i) {
    EXPECT_EQ((**block)[i].offset, 10 * i);
    EXPECT_EQ((**block)[i].length, i + 1);
  }
}

TEST(ShardIndex, TakesARankOfZeroAndTheHighestRank) {
  EXPECT_EQ(made(kLittle, {}).entries(), 1u);
  EXPECT_EQ(made(kLittle, {}).index_bytes(), 20u);
  extents high(kMaxRank, 1);
  high[31] = 3;
  EXPECT_EQ(made(kLittle, high).entries(), 3u);
}

TEST(ShardIndex, RefusesAWrongLength) {
  const shard_index_codec codec = made(kLittle, {2});
  std::vector<std::byte> bytes = index_bytes({{0, 1}, {1, 1}});
  EXPECT_EQ(refusal(codec.decode(std::span(bytes).first(35), 100)), "corrupt_data: shard index has 35 bytes, needs 36");
  EXPECT_EQ(refusal(codec.decode({}, 100)), "corrupt_data: shard index has 0 bytes, needs 36");
  bytes.push_back(std::byte{0});
  EXPECT_EQ(refusal(codec.decode(bytes, 100)), "corrupt_data: shard index has 37 bytes, needs 36");
}

TEST(ShardIndex, RefusesEntriesThatMakeNoSense) {
  const shard_index_codec codec = made(kLittle, {1});
  const auto entry = [&](std::uint64_t offset, std::uint64_t length, std::uint64_t shard = 100) {
    return refusal(codec.decode(index_bytes({{offset, length}}), shard));
  };
  EXPECT_EQ(entry(90, 10), "accepted");
  EXPECT_EQ(entry(90, 11), "corrupt_data: shard index entry 0 is at bytes [90, 101), the shard has 100");
  EXPECT_EQ(entry(90, 11, byte_range::kAll), "accepted");
  EXPECT_EQ(entry(kNoChunk, 5), "corrupt_data: shard index entry 0 has offset 18446744073709551615 and length 5");
  EXPECT_EQ(entry(5, kNoChunk), "corrupt_data: shard index entry 0 has offset 5 and length 18446744073709551615");
  EXPECT_EQ(entry(kNoChunk - 1, 5, byte_range::kAll),
            "corrupt_data: shard index entry 0 has offset 18446744073709551614 and length 5");
  EXPECT_EQ(entry(5, 0), "corrupt_data: shard index entry 0 has offset 5 and length 0");
}

TEST(ShardIndex, RefusesIndexCodecsOfNoFixedSize) {
  for (const char* last : {R"({"name": "zstd", "configuration": {"level": 0, "checksum": false}})",
                           R"({"name": "gzip", "configuration": {"level": 1}})"}) {
    result<shard_index_codec> out = shard_index_codec::make(
        shard_with("[{\"name\": \"bytes\", \"configuration\": {\"endian\": \"little\"}}, " + std::string(last) + "]"),
        {}, {4});
    ASSERT_FALSE(out.ok());
    EXPECT_EQ(out.error().code(), errc::unsupported);
    EXPECT_NE(out.error().message().find(std::string(last).substr(10, 4)), std::string::npos) << out.error().message();
  }
}

TEST(ShardIndex, RefusesAnIndexOfImplausibleLength) {
  result<shard_index_codec> out = shard_index_codec::make(shard_with(kLittle), {}, {std::uint64_t{1} << 27});
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().code(), errc::unsupported);
  out = shard_index_codec::make(shard_with(kLittle), {}, {std::uint64_t{1} << 40, std::uint64_t{1} << 40});
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().message(),
            "a shard of (1099511627776, 1099511627776) chunks has an index of more than 1073741824 bytes");
  EXPECT_TRUE(shard_index_codec::make(shard_with(kLittle), {}, {std::uint64_t{1} << 26}).ok());
}

TEST(ShardIndex, ChecksAChecksumOverTheWholeShardBeforeItsIndex) {
  for (const bool at_start : {false, true}) {
    result<shard_index_codec> codec =
        shard_index_codec::make(shard_with(kLittle, at_start), codecs(R"(["crc32c"])"), {1});
    ASSERT_TRUE(codec.ok()) << codec.error().to_string();
    EXPECT_TRUE(codec->reads_whole_shard());
    EXPECT_EQ(codec->least_shard_bytes(), 24u);

    std::vector<std::byte> shard(7, std::byte{42});
    const std::vector<std::byte> index = index_bytes({{at_start ? 20u : 0u, 7}});
    shard.insert(at_start ? shard.begin() : shard.end(), index.begin(), index.end());
    append_crc32c(shard);
    auto block = codec->decode(shard, byte_range::kAll);
    ASSERT_TRUE(block.ok()) << block.error().to_string();
    EXPECT_EQ((**block)[0].length, 7u);
    EXPECT_EQ((*block)->shard_bytes(), 27u);

    shard[at_start ? 21 : 3] ^= std::byte{1};  // in the chunk, not in the index
    EXPECT_EQ(refusal(codec->decode(shard, byte_range::kAll)).substr(0, 13), "corrupt_data:");
    EXPECT_EQ(refusal(codec->decode(std::span(shard).first(23), byte_range::kAll)),
              "corrupt_data: shard has 23 bytes, its index needs 24");
  }
}

TEST(ShardIndex, RefusesOtherCodecsBehindTheShardByName) {
  result<shard_index_codec> out = shard_index_codec::make(
      shard_with(kLittle), codecs(R"(["crc32c", {"name": "gzip", "configuration": {"level": 1}}])"), {1});
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().code(), errc::unsupported);
  EXPECT_EQ(out.error().message(), "codec 'gzip' after sharding_indexed is not readable");
}

TEST(ShardIndex, CountsItsMemory) {
  const shard_index_codec codec = made(kLittle, {100});
  auto block = codec.decode(index_bytes(index_pairs(100, {kNoChunk, kNoChunk})), 2000);
  ASSERT_TRUE(block.ok());
  EXPECT_GE((*block)->memory_bytes(), 1600u);
  EXPECT_LT((*block)->memory_bytes(), 1700u);
}

}  // namespace
}  // namespace penstock
