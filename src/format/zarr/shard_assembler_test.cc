#include "format/zarr/shard_assembler.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "format/zarr/shard_fixture.h"
#include "format/zarr/zarr_layout.h"
#include "format/zarr/zarr_metadata.h"

namespace penstock {
namespace {

using bytes = std::vector<std::byte>;

std::shared_ptr<const zarr_layout> make(const std::string& shape, const std::string& codecs) {
  const std::string text = R"({"zarr_format":3,"node_type":"array","data_type":"uint8","fill_value":0,"shape":[)" +
                           shape + R"(],"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[)" + shape +
                           R"(]}},"chunk_key_encoding":{"name":"default"},"codecs":[)" + codecs + "]}";
  const auto metadata = parse_zarr_metadata(as_bytes(text));
  EXPECT_TRUE(metadata.ok()) << metadata.error().to_string();
  return zarr_layout::make(*metadata).value();
}

std::string shard(
    const std::string& chunk, const std::string& codecs, const std::string& location = "end",
    const std::string& index = R"({"name":"bytes","configuration":{"endian":"little"}},{"name":"crc32c"})") {
  return R"({"name":"sharding_indexed","configuration":{"chunk_shape":[)" + chunk + R"(],"codecs":[)" + codecs +
         R"(],"index_codecs":[)" + index + R"(],"index_location":")" + location + "\"}}";
}
const std::string kBytes = R"({"name":"bytes"})";

bytes text(std::string_view of) {
  const auto span = as_bytes(of);
  return {span.begin(), span.end()};
}
bytes joined(const assembled_object& made) {
  bytes out;
  for (const part& each : made.parts) out.insert(out.end(), each.begin(), each.end());
  EXPECT_EQ(out.size(), made.bytes);
  return out;
}
bytes operator+(bytes a, const bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct changes {
  changes& set(cell_id cell, std::string_view to) {
    list.push_back({cell, as_bytes(to), false});
    return *this;
  }
  changes& drop(cell_id cell) {
    list.push_back({cell, {}, true});
    return *this;
  }
  std::vector<new_cell> list;
};

bytes assemble(const zarr_layout& layout, const bytes* old, const changes& what, std::size_t* parts = nullptr) {
  assembled_object made;
  const part view = old == nullptr ? part() : part(*old);
  const auto done = layout.assembler()->assemble(0, old == nullptr ? nullptr : &view, what.list, made);
  EXPECT_TRUE(done.ok()) << done.error().to_string();
  if (parts != nullptr) *parts = made.parts.size();
  return joined(made);
}

TEST(ShardAssembler, WritesANewShardInTheOrderOfItsEntries) {
  const auto layout = make("8", shard("2", kBytes));
  EXPECT_EQ(assemble(*layout, nullptr, changes().set(2, "cc").set(0, "aa")),
            text("aacc") + index_bytes({{0, 2}, {kNoChunk, kNoChunk}, {2, 2}, {kNoChunk, kNoChunk}}));
}

TEST(ShardAssembler, CountsFromBehindAnIndexAtTheStart) {
  const auto layout = make("4", shard("2", kBytes, "start"));
  EXPECT_EQ(assemble(*layout, nullptr, changes().set(1, "bb")),
            index_bytes({{kNoChunk, kNoChunk}, {36, 2}}) + text("bb"));
}

TEST(ShardAssembler, KeepsNeighboursInOnePartAndPutsAChunkWhereTheOldOneWas) {
  const auto layout = make("8", shard("2", kBytes));
  const bytes old = text("AABBCCDD") + index_bytes({{0, 2}, {2, 2}, {4, 2}, {6, 2}});
  std::size_t parts = 0;
  EXPECT_EQ(assemble(*layout, &old, changes().set(2, "xyz"), &parts),
            text("AABBxyzDD") + index_bytes({{0, 2}, {2, 2}, {4, 3}, {7, 2}}));
  EXPECT_EQ(parts, 4u);  // AABB, xyz, DD, index
}

TEST(ShardAssembler, KeepsTheOrderOfTheOldBytesAndLeavesHolesBehind) {
  const auto layout = make("8", shard("2", kBytes));
  const bytes old = text("DD..AA.CC") + index_bytes({{4, 2}, {kNoChunk, kNoChunk}, {7, 2}, {0, 2}});
  EXPECT_EQ(assemble(*layout, &old, changes().set(1, "bb")),
            text("DDAACCbb") + index_bytes({{2, 2}, {6, 2}, {4, 2}, {0, 2}}));
}

TEST(ShardAssembler, KeepsSharedBytesShared) {
  const auto layout = make("8", shard("2", kBytes));
  const bytes old = text("AABB") + index_bytes({{0, 2}, {1, 3}, {0, 4}, {0, 2}});
  EXPECT_EQ(assemble(*layout, &old, changes().set(3, "zz")),
            text("AABBzz") + index_bytes({{0, 2}, {1, 3}, {0, 4}, {4, 2}}));
}

TEST(ShardAssembler, IsEmptyWhenItsLastChunkIsErased) {
  const auto layout = make("4", shard("2", kBytes));
  const bytes old = text("AA") + index_bytes({{0, 2}, {kNoChunk, kNoChunk}});
  std::size_t parts = 7;
  EXPECT_TRUE(assemble(*layout, &old, changes().drop(0), &parts).empty());
  EXPECT_EQ(parts, 0u);
  EXPECT_TRUE(assemble(*layout, nullptr, changes().drop(0).drop(1), &parts).empty());
}

TEST(ShardAssembler, KeepsAnUntouchedInnerShardUnchanged) {
  const auto layout = make("8", shard("4", shard("2", kBytes)));
  // The first inner shard is damaged, which does not matter here; the second one gets a chunk.
  const bytes first = text("not a shard, but kept unchanged");
  const bytes second = text("CC") + index_bytes({{0, 2}, {kNoChunk, kNoChunk}});
  const bytes old = first + second + index_bytes({{0, first.size()}, {first.size(), second.size()}});
  const bytes changed = text("CCdd") + index_bytes({{0, 2}, {2, 2}});
  std::size_t parts = 0;
  EXPECT_EQ(assemble(*layout, &old, changes().set(3, "dd"), &parts),
            first + changed + index_bytes({{0, first.size()}, {first.size(), changed.size()}}));
  EXPECT_EQ(parts, 5u);  // first, CC, dd, inner index, index
  // And an inner shard without chunks is removed.
  EXPECT_EQ(assemble(*layout, &old, changes().drop(2)), first + index_bytes({{0, first.size()}, {kNoChunk, kNoChunk}}));
}

TEST(ShardAssembler, WritesTheChecksumsBehindAShard) {
  const auto layout = make("4", shard("2", kBytes) + R"(,{"name":"crc32c"},{"name":"crc32c"})");
  bytes expected = text("aabb") + index_bytes({{0, 2}, {2, 2}});
  append_crc32c(expected);
  append_crc32c(expected);
  EXPECT_EQ(assemble(*layout, nullptr, changes().set(0, "aa").set(1, "bb")), expected);
  bytes damaged = expected;
  damaged[0] = std::byte{0};
  const part view(damaged);
  assembled_object made;
  const changes what = changes().set(0, "xx");
  const auto done = layout->assembler()->assemble(0, &view, what.list, made);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), errc::corrupt_data);
  EXPECT_NE(done.error().to_string().find("taking the shard 'c/0' apart"), std::string::npos);
}

TEST(ShardAssembler, CountsDimensionsInTheOrderOfATransposeBeforeTheShard) {
  const auto layout = make("4,6", R"({"name":"transpose","configuration":{"order":[1,0]}},)" + shard("3,2", kBytes));
  // Cells (0, 0) (0, 1) (1, 0) (1, 1); the shard counts the second dimension first.
  EXPECT_EQ(assemble(*layout, nullptr, changes().set(0, "a").set(1, "b").set(2, "c").set(3, "d")),
            text("acbd") + index_bytes({{0, 1}, {1, 1}, {2, 1}, {3, 1}}));
}

TEST(ShardAssembler, AChunkWithoutAShardIsWrittenUnchanged) {
  const auto layout = make("4", kBytes);
  EXPECT_EQ(assemble(*layout, nullptr, changes().set(0, "abcd")), text("abcd"));
  EXPECT_TRUE(assemble(*layout, nullptr, changes().drop(0)).empty());
}

}  // namespace
}  // namespace penstock
