#include "format/zarr/zarr_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "format/zarr/shard_fixture.h"

namespace penstock {
namespace {

constexpr std::string_view kLittle = R"({"name": "bytes", "configuration": {"endian": "little"}})";

/// A zarr.json of int16; the rest as text.
std::string document(std::string_view shape, std::string_view chunk, std::string_view codecs,
                     std::string_view keys = R"("default")") {
  const auto text = [](std::string_view part) { return std::string(part); };
  return R"({"zarr_format": 3, "node_type": "array", "data_type": "int16", "fill_value": 7, "shape": )" + text(shape) +
         R"(, "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": )" + text(chunk) +
         R"(}}, "chunk_key_encoding": )" + text(keys) + R"(, "codecs": )" + text(codecs) + "}";
}

std::string shard(std::string_view chunk, std::string_view codecs, std::string_view index_codecs,
                  std::string_view location = "end") {
  const auto text = [](std::string_view part) { return std::string(part); };
  return R"({"name": "sharding_indexed", "configuration": {"chunk_shape": )" + text(chunk) + R"(, "codecs": )" +
         text(codecs) + R"(, "index_codecs": )" + text(index_codecs) + R"(, "index_location": ")" + text(location) +
         "\"}}";
}

std::string list(std::string_view only) { return "[" + std::string(only) + "]"; }
const std::string kBytes = list(kLittle);

using layout_ptr = std::shared_ptr<const zarr_layout>;

result<layout_ptr> try_make(const std::string& text) {
  result<zarr_metadata> metadata = parse_zarr_metadata(as_bytes(text));
  if (!metadata.ok()) return std::move(metadata).error();
  return zarr_layout::make(*metadata);
}

layout_ptr make(const std::string& text) {
  result<layout_ptr> out = try_make(text);
  EXPECT_TRUE(out.ok()) << out.error().to_string();
  return out.ok() ? *out : nullptr;
}

std::string refusal(const std::string& text) {
  result<layout_ptr> out = try_make(text);
  if (out.ok()) return "accepted";
  return std::string(to_string(out.error().code())) + ": " + out.error().message();
}

std::vector<cell_id> all_cells(const zarr_layout& layout) {
  std::vector<cell_id> cells(layout.grid().cells());
  std::iota(cells.begin(), cells.end(), cell_id{0});
  return cells;
}

std::string key_of(const zarr_layout& layout, object_id object) {
  std::string out = "left over";
  layout.key(object, out);
  return out;
}

TEST(ZarrLayout, EachUnshardedChunkIsAnObject) {
  const layout_ptr layout = make(document("[10, 20]", "[4, 5]", kBytes));
  EXPECT_EQ(layout->grid().cells(), 12u);
  EXPECT_EQ(layout->write_grid().cells(), 12u);
  EXPECT_EQ(layout->depth(), 0u);
  EXPECT_EQ(layout->chunks(), (extents{4, 5}));
  EXPECT_EQ(layout->shards(), std::nullopt);
  ASSERT_EQ(layout->chains().size(), 1u);
  EXPECT_EQ(layout->chains()[0].decoded_bytes(), 40u);

  const std::vector<cell_id> cells{11, 0, 5};
  std::vector<chunk_extent> out(3);
  std::vector<index_request> missing;
  const index_map known;
  ASSERT_TRUE(layout->locate(cells, known, out, missing).ok());
  EXPECT_TRUE(missing.empty());
  EXPECT_EQ(known.finds, 0u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(out[i].state, presence::unknown);
    EXPECT_EQ(out[i].object, cells[i]);
    EXPECT_TRUE(out[i].range.whole());
  }
  EXPECT_EQ(layout->describe(11), "chunk (2, 3)");
  EXPECT_EQ(layout->describe_codecs(), "bytes(little)");
}

TEST(ZarrLayout, WritesKeysInEveryEncoding) {
  const auto key = [](std::string_view keys) {
    return key_of(*make(document("[200, 20]", "[4, 5]", kBytes, keys)), 4 * 12 + 3);
  };
  EXPECT_EQ(key(R"("default")"), "c/12/3");
  EXPECT_EQ(key(R"({"name": "default", "configuration": {"separator": "."}})"), "c.12.3");
  EXPECT_EQ(key(R"("v2")"), "12.3");
  EXPECT_EQ(key(R"({"name": "v2", "configuration": {"separator": "/"}})"), "12/3");
  EXPECT_EQ(key(R"({"name": "suffix", "configuration": {"suffix": ".tiff", "base_encoding": "default"}})"),
            "c/12/3.tiff");
  EXPECT_EQ(key(R"({"name": "suffix", "configuration": {"suffix": ".zip", "base-encoding": {"name": "suffix",
            "configuration": {"suffix": ".shard", "base_encoding": {"name": "v2"}}}}})"),
            "12.3.shard.zip");
  EXPECT_EQ(key_of(*make(document("[]", "[]", kBytes)), 0), "c");
  EXPECT_EQ(key_of(*make(document("[]", "[]", kBytes, R"("v2")")), 0), "0");
}

TEST(ZarrLayout, WritesKeysIntoExistingMemory) {
  const layout_ptr layout = make(document("[200, 20]", "[4, 5]", kBytes));
  std::string out(64, 'x');
  const char* before = out.data();
  layout->key(199, out);
  EXPECT_EQ(out, "c/49/3");
  EXPECT_EQ(out.data(), before);
}

TEST(ZarrLayout, RequestsTheIndexOnceAndThenFindsEveryChunk) {
  // A shard of 2 x 3 chunks; the array's edge cuts the second shard of each row.
  const layout_ptr layout = make(document("[7, 20]", "[4, 15]", list(shard("[2, 5]", kBytes, kBytes))));
  EXPECT_EQ(layout->depth(), 1u);
  EXPECT_EQ(layout->chunks(), (extents{2, 5}));
  EXPECT_EQ(layout->shards(), (extents{4, 15}));
  EXPECT_EQ(layout->write_grid().cells(), 4u);
  ASSERT_EQ(layout->grid().cells(), 16u);
  EXPECT_EQ(layout->describe_codecs(), "sharding_indexed((2, 5), index: bytes(little) at end) > bytes(little)");

  index_map known;
  const std::vector<cell_id> cells = all_cells(*layout);
  chunk_extent untouched;
  untouched.range = {12345, 1, false};
  std::vector<chunk_extent> out(cells.size(), untouched);
  std::vector<index_request> missing;
  ASSERT_TRUE(layout->locate(cells, known, out, missing).ok());
  ASSERT_EQ(missing.size(), 4u);  // although each shard is in two rows
  for (object_id object = 0; object < 4; ++object) {
    EXPECT_EQ(missing[object].key, (index_key{object, 0}));
    EXPECT_EQ(missing[object].range, (byte_range{0, 96, true}));
    EXPECT_EQ(missing[object].max_bytes, 96u);
    EXPECT_EQ(missing[object].object_cells, (std::vector<std::uint64_t>{6, 2, 6, 2})[object]);
    EXPECT_GE(missing[object].max_object_bytes, 60u + 96u);
  }
  for (const chunk_extent& extent : out) EXPECT_EQ(extent.range, untouched.range);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(out[i].object, i < 3 ? 0u : 1u);  // the first row of chunks

  // Object 1 holds the columns from 15: only its first column of chunks is within the array. Object 3 is absent.
  for (object_id object = 0; object < 3; ++object) {
    index_pairs pairs;
    for (std::uint64_t i = 0; i < 6; ++i) pairs.emplace_back(1000 * object + 20 * i, 20);
    pairs[2] = {kNoChunk, kNoChunk};
    auto block = layout->parse(missing[object], index_bytes(pairs, 0), 5000);
    ASSERT_TRUE(block.ok()) << block.error().to_string();
    known.put(missing[object].key, *block);
  }
  known.put(missing[3].key, nullptr);
  missing.clear();
  known.finds = 0;
  ASSERT_TRUE(layout->locate(cells, known, out, missing).ok());
  EXPECT_TRUE(missing.empty());
  EXPECT_EQ(known.finds, 8u);  // once for each row of each shard

  const auto found = [&](cell_id cell) {
    const chunk_extent& extent = out[cell];
    if (extent.state == presence::absent) return "absent in " + std::to_string(extent.object);
    EXPECT_EQ(extent.state, presence::present);
    return std::to_string(extent.object) + " " + to_string(extent.range);
  };
  EXPECT_EQ(found(0), "0 [0, 20)");
  EXPECT_EQ(found(1), "0 [20, 40)");
  EXPECT_EQ(found(2), "absent in 0");
  EXPECT_EQ(found(3), "1 [1000, 1020)");
  EXPECT_EQ(found(4), "0 [60, 80)");
  EXPECT_EQ(found(7), "1 [1060, 1080)");
  EXPECT_EQ(found(10), "absent in 2");
  EXPECT_EQ(found(12), "2 [2060, 2080)");
  EXPECT_EQ(found(11), "absent in 3");
  EXPECT_EQ(found(15), "absent in 3");
}

TEST(ZarrLayout, KeepsRequestsThatStandInTheListAlready) {
  const layout_ptr layout = make(document("[40]", "[10]", list(shard("[5]", kBytes, kBytes))));
  std::vector<index_request> missing;
  std::vector<chunk_extent> out(8);
  const index_map known;
  ASSERT_TRUE(layout->locate(std::vector<cell_id>{4}, known, out, missing).ok());
  ASSERT_TRUE(layout->locate(std::vector<cell_id>{0, 4, 5, 0, 7, 4}, known, out, missing).ok());
  ASSERT_EQ(missing.size(), 3u);
  EXPECT_EQ(missing[0].key.object, 2u);
  EXPECT_EQ(missing[1].key.object, 0u);
  EXPECT_EQ(missing[2].key.object, 3u);
}

TEST(ZarrLayout, AnyOrderOfCellsGivesTheSameExtents) {
  const layout_ptr layout = make(document("[6, 6, 6]", "[4, 4, 4]", list(shard("[2, 2, 1]", kBytes, kBytes))));
  index_map known;
  index_pairs pairs;
  for (std::uint64_t i = 0; i < 16; ++i) pairs.emplace_back(8 * i, 8);
  for (object_id object = 0; object < 8; ++object) {
    known.put({object, 0}, *layout->parse({{object, 0}, {}, 0}, index_bytes(pairs, 0), 1000));
  }
  const std::vector<cell_id> cells = all_cells(*layout);
  std::vector<chunk_extent> in_order(cells.size());
  std::vector<index_request> missing;
  ASSERT_TRUE(layout->locate(cells, known, in_order, missing).ok());
  for (const cell_id cell : cells) {
    chunk_extent alone;
    ASSERT_TRUE(layout->locate({&cell, 1}, known, {&alone, 1}, missing).ok());
    EXPECT_EQ(alone.object, in_order[cell].object);
    EXPECT_EQ(alone.range, in_order[cell].range);
  }
  std::vector<cell_id> shuffled(cells.rbegin(), cells.rend());
  std::rotate(shuffled.begin(), shuffled.begin() + 17, shuffled.end());
  std::vector<chunk_extent> out(cells.size());
  ASSERT_TRUE(layout->locate(shuffled, known, out, missing).ok());
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i].range, in_order[shuffled[i]].range);
}

TEST(ZarrLayout, PutsTheIndexRequestWhereTheIndexIs) {
  const std::string checked = "[" + std::string(kLittle) + R"(, "crc32c"])";
  const auto request = [&](std::string_view location) {
    const layout_ptr layout = make(document("[10]", "[10]", list(shard("[5]", kBytes, checked, location))));
    std::vector<chunk_extent> out(1);
    std::vector<index_request> missing;
    EXPECT_TRUE(layout->locate(std::vector<cell_id>{1}, index_map(), out, missing).ok());
    EXPECT_EQ(missing.size(), 1u);
    return missing.at(0);
  };
  EXPECT_EQ(request("end").range, (byte_range{0, 36, true}));
  EXPECT_EQ(request("start").range, (byte_range{0, 36, false}));
  EXPECT_EQ(request("start").max_bytes, 36u);
}

TEST(ZarrLayout, FindsChunksOfNestedShards) {
  // Objects of 8, shards of 4, chunks of 2: two inner shards of two chunks.
  const std::string inner = shard("[2]", kBytes, kBytes, "start");
  const layout_ptr layout = make(document("[16]", "[8]", list(shard("[4]", list(inner), kBytes))));
  EXPECT_EQ(layout->depth(), 2u);
  EXPECT_EQ(layout->chunks(), (extents{2}));
  EXPECT_EQ(layout->shards(), (extents{8}));

  index_map known;
  const std::vector<cell_id> cells = all_cells(*layout);
  std::vector<chunk_extent> out(cells.size());
  std::vector<index_request> missing;
  ASSERT_TRUE(layout->locate(cells, known, out, missing).ok());
  ASSERT_EQ(missing.size(), 2u);
  known.put({0, 0}, *layout->parse(missing[0], index_bytes({{100, 60}, {300, 50}}, 0), 1000));
  known.put({1, 0}, *layout->parse(missing[1], index_bytes({{kNoChunk, kNoChunk}, {0, 36}}, 0), 100));

  missing.clear();
  ASSERT_TRUE(layout->locate(cells, known, out, missing).ok());
  ASSERT_EQ(missing.size(), 3u);
  EXPECT_EQ(missing[0].key, (index_key{0, 1}));
  EXPECT_EQ(missing[0].range, (byte_range{100, 32, false}));
  EXPECT_EQ(missing[1].key, (index_key{0, 2}));
  EXPECT_EQ(missing[1].range, (byte_range{300, 32, false}));
  EXPECT_EQ(missing[2].key, (index_key{1, 2}));
  EXPECT_EQ(missing[2].range, (byte_range{0, 32, false}));
  known.put({0, 1}, *layout->parse(missing[0], index_bytes({{32, 4}, {36, 4}}, 0), 1000));
  known.put({0, 2}, *layout->parse(missing[1], index_bytes({{kNoChunk, kNoChunk}, {40, 4}}, 0), 1000));
  known.put({1, 2}, *layout->parse(missing[2], index_bytes({{32, 4}, {kNoChunk, kNoChunk}}, 0), 100));

  missing.clear();
  ASSERT_TRUE(layout->locate(cells, known, out, missing).ok());
  EXPECT_TRUE(missing.empty());
  EXPECT_EQ(out[0].range, (byte_range{132, 4, false}));  // offsets count from the inner shard's first byte
  EXPECT_EQ(out[1].range, (byte_range{136, 4, false}));
  EXPECT_EQ(out[2].state, presence::absent);
  EXPECT_EQ(out[3].range, (byte_range{340, 4, false}));
  EXPECT_EQ(out[4].state, presence::absent);
  EXPECT_EQ(out[5].state, presence::absent);
  EXPECT_EQ(out[6].range, (byte_range{32, 4, false}));
  EXPECT_EQ(out[7].state, presence::absent);
}

TEST(ZarrLayout, NumbersTheShardsOfEachLevel) {
  // 2 shards of 3 shards of 2 chunks: nodes 0 | 1 2 | 3 .. 8.
  const std::string third = shard("[1]", kBytes, kBytes);
  const std::string second = shard("[2]", list(third), kBytes);
  const layout_ptr layout = make(document("[12]", "[12]", list(shard("[6]", list(second), kBytes))));
  ASSERT_EQ(layout->depth(), 3u);
  index_map known;
  const std::vector<cell_id> cells = all_cells(*layout);
  std::vector<chunk_extent> out(cells.size());
  std::vector<std::uint64_t> nodes;
  for (int round = 0; round < 3; ++round) {
    std::vector<index_request> missing;
    ASSERT_TRUE(layout->locate(cells, known, out, missing).ok());
    for (const index_request& request : missing) {
      nodes.push_back(request.key.node);
      const std::uint64_t length = round == 0 ? 200 : round == 1 ? 40 : 2;
      index_pairs pairs;
      for (std::uint64_t i = 0; i < (round == 1 ? 3u : 2u); ++i) pairs.emplace_back(i * length, length);
      auto block = layout->parse(request, index_bytes(pairs, 0), 10000);
      ASSERT_TRUE(block.ok()) << block.error().to_string();
      known.put(request.key, *block);
    }
  }
  EXPECT_EQ(nodes, (std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  std::vector<index_request> missing;
  ASSERT_TRUE(layout->locate(cells, known, out, missing).ok());
  EXPECT_TRUE(missing.empty());
  EXPECT_EQ(out[9].range, (byte_range{200 + 40 + 2, 2, false}));  // shard 1, its shard 1, its chunk 1
}

TEST(ZarrLayout, FoldsATransposeBeforeTheShardIntoTheNumbering) {
  // The array is 4 x 6; the shard sees 6 x 4 and cuts it into 3 x 2 chunks of (2, 2): entry = 2 * x + y.
  const std::string turned =
      R"([{"name": "transpose", "configuration": {"order": [1, 0]}}, )" + shard("[2, 2]", kBytes, kBytes) + "]";
  const layout_ptr layout = make(document("[4, 6]", "[4, 6]", turned));
  EXPECT_EQ(layout->chunks(), (extents{2, 2}));
  index_map known;
  index_pairs pairs;
  for (std::uint64_t i = 0; i < 6; ++i) pairs.emplace_back(8 * i, 8);
  known.put({0, 0}, *layout->parse({{0, 0}, {}, 0}, index_bytes(pairs, 0), 1000));
  const std::vector<cell_id> cells = all_cells(*layout);
  std::vector<chunk_extent> out(cells.size());
  std::vector<index_request> missing;
  ASSERT_TRUE(layout->locate(cells, known, out, missing).ok());
  for (std::uint64_t y = 0; y < 2; ++y) {
    for (std::uint64_t x = 0; x < 3; ++x) EXPECT_EQ(out[3 * y + x].range.offset, 8 * (2 * x + y));
  }
  // An inner chunk is stored in transposed order too.
  EXPECT_EQ(layout->chains()[0].describe(), "transpose(1, 0) | bytes(little)");

  const layout_ptr named = make(
      document("[4, 6]", "[4, 6]",
               R"([{"name": "transpose", "configuration": {"order": "F"}}, )" + shard("[3, 2]", kBytes, kBytes) + "]"));
  EXPECT_EQ(named->chunks(), (extents{2, 3}));
  EXPECT_EQ(named->chains()[0].cell(), (extents{2, 3}));
}

TEST(ZarrLayout, ReadsAllOfAShardThatHasAChecksumOverIt) {
  const layout_ptr layout = make(document("[10]", "[10]", "[" + shard("[5]", kBytes, kBytes) + R"(, "crc32c"])"));
  std::vector<chunk_extent> out(2);
  std::vector<index_request> missing;
  const std::vector<cell_id> cells{0, 1};
  ASSERT_TRUE(layout->locate(cells, index_map(), out, missing).ok());
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_TRUE(missing[0].range.whole());
  EXPECT_EQ(missing[0].max_bytes, 2 * 10 + 32 + 4u);

  std::vector<std::byte> object(20, std::byte{1});
  const std::vector<std::byte> index = index_bytes({{0, 10}, {10, 10}}, 0);
  object.insert(object.end(), index.begin(), index.end());
  append_crc32c(object);
  index_map known;
  auto block = layout->parse(missing[0], object, object.size());
  ASSERT_TRUE(block.ok()) << block.error().to_string();
  known.put({0, 0}, *block);
  ASSERT_TRUE(layout->locate(cells, known, out, missing).ok());
  EXPECT_EQ(out[1].range, (byte_range{10, 10, false}));

  object[15] = std::byte{2};
  auto damaged = layout->parse(missing[0], object, object.size());
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(damaged.error().code(), errc::corrupt_data);
}

TEST(ZarrLayout, RefusesAnIndexThatPointsOutsideItsShard) {
  const std::string inner = shard("[2]", kBytes, kBytes);
  const layout_ptr layout = make(document("[8]", "[8]", list(shard("[4]", list(inner), kBytes))));
  const cell_id cell = 1;
  chunk_extent out;
  std::vector<index_request> missing;
  const auto locate_with = [&](const index_pairs& outer, const index_pairs& inner_pairs) {
    index_map known;
    result<index_ptr> block = layout->parse({{0, 0}, {}, 0}, index_bytes(outer, 0), 1000);
    if (!block.ok()) return block.error().to_string();
    known.put({0, 0}, *block);
    block = layout->parse({{0, 1}, {}, 0}, index_bytes(inner_pairs, 0), 1000);
    if (!block.ok()) return block.error().to_string();
    known.put({0, 1}, *block);
    result<> done = layout->locate({&cell, 1}, known, {&out, 1}, missing);
    return done.ok() ? std::string("accepted") : done.error().to_string();
  };
  EXPECT_EQ(locate_with({{900, 100}, {0, 50}}, {{0, 4}, {64, 4}}), "accepted");
  EXPECT_EQ(locate_with({{900, 101}, {0, 50}}, {{0, 4}, {64, 4}}),
            "corrupt_data: shard index entry 0 is at bytes [900, 1001), the shard has 1000");
  EXPECT_EQ(locate_with({{900, 100}, {0, 50}}, {{0, 4}, {97, 4}}),
            "corrupt_data: shard index has offset 97 and length 4 in a shard of 100 bytes\n  locating chunk (1,)");
  EXPECT_EQ(locate_with({{900, 31}, {0, 50}}, {{0, 4}, {0, 4}}),
            "corrupt_data: inner shard at bytes [900, 931) has 31 bytes, its index needs 32\n  locating chunk (1,)");
  EXPECT_EQ(locate_with({{900, 100}, {0, 50}}, {{0, 4}, {0, 5}}),
            "corrupt_data: shard index has 5 bytes for a chunk whose codecs make at most 4\n  locating chunk (1,)");
}

TEST(ZarrLayout, ChecksChunkLengthsAlsoWhereTheObjectsSizeIsNotKnown) {
  const layout_ptr layout = make(document("[8]", "[8]", list(shard("[4]", kBytes, kBytes))));
  index_map known;
  auto block = layout->parse({{0, 0}, {}, 0}, index_bytes({{0, 8}, {0, std::uint64_t{1} << 60}}, 0), byte_range::kAll);
  ASSERT_TRUE(block.ok());
  known.put({0, 0}, *block);
  const cell_id cell = 1;
  chunk_extent out;
  std::vector<index_request> missing;
  result<> done = layout->locate({&cell, 1}, known, {&out, 1}, missing);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), errc::corrupt_data);
}

TEST(ZarrLayout, AShardWhoseBytesAreMovedIsOneCell) {
  const std::string gzip = R"(, {"name": "gzip", "configuration": {"level": 1}})";
  const layout_ptr whole = make(document("[20]", "[8]", "[" + shard("[4]", kBytes, kBytes) + gzip + "]"));
  EXPECT_EQ(whole->depth(), 0u);
  EXPECT_EQ(whole->shards(), std::nullopt);
  EXPECT_EQ(whole->chunks(), extents{8});
  EXPECT_EQ(whole->describe_codecs(),
            "sharding_indexed((4,), bytes(little); index: bytes(little) at end) | gzip(level=1)");
  // Only the inner shard: the outer one's chunks are still at the offsets in its index.
  const layout_ptr inner =
      make(document("[20]", "[8]", list(shard("[4]", "[" + shard("[2]", kBytes, kBytes) + gzip + "]", kBytes))));
  EXPECT_EQ(inner->depth(), 1u);
  EXPECT_EQ(inner->shards(), (extents{8}));
  EXPECT_EQ(inner->chunks(), extents{4});
}

TEST(ZarrLayout, RefusesUnsupportedMetadata) {
  EXPECT_EQ(refusal(document("[8]", "[8]", "[" + shard("[3]", kBytes, kBytes) + R"(, "numcodecs.zstd"])")),
            "corrupt_data: sharding_indexed has chunk_shape (3,), which does not divide (8,)");
  EXPECT_EQ(refusal(document("[8]", "[8]", "[" + shard("[4, 1]", kBytes, kBytes) + R"(, "numcodecs.zstd"])")),
            "corrupt_data: sharding_indexed has chunk_shape (4, 1), its input has 1 dimension");
  EXPECT_EQ(
      refusal(document("[8]", "[8]", "[" + shard("[4]", kBytes, R"("numcodecs.zstd")") + R"(, "numcodecs.zstd"])"))
          .substr(0, 12),
      "corrupt_data");
  EXPECT_EQ(refusal(document("[8]", "[8]", list(shard("[3]", kBytes, kBytes)))),
            "corrupt_data: sharding_indexed has chunk_shape (3,), which does not divide (8,)");
  EXPECT_EQ(refusal(document("[8]", "[8]", list(shard("[16]", kBytes, kBytes)))),
            "corrupt_data: sharding_indexed has chunk_shape (16,), which does not divide (8,)");
  EXPECT_EQ(refusal(document("[8]", "[8]", list(shard("[4, 1]", kBytes, kBytes)))),
            "corrupt_data: sharding_indexed has chunk_shape (4, 1), the array has 1 dimension");
  EXPECT_EQ(refusal(document("[8]", "[8]", "[\"numcodecs.delta\", " + shard("[4]", kBytes, kBytes) + "]")),
            "unsupported: codec 'numcodecs.delta' before sharding_indexed is not readable");
  EXPECT_EQ(refusal(document("[8]", "[8]", R"(["bytes", "zfp"])")).substr(0, 12), "corrupt_data");  // no endian
  const std::string unknown = refusal(document("[8]", "[8]", "[" + std::string(kLittle) + R"(, "pcodec"])"));
  EXPECT_EQ(unknown.substr(0, 12), "unsupported:");
  EXPECT_NE(unknown.find("pcodec"), std::string::npos) << unknown;

  zarr_metadata group;
  EXPECT_EQ(zarr_layout::make(group).error().code(), errc::invalid_argument);
}

TEST(ZarrLayout, HasNoCellsWhereADimensionIsEmpty) {
  const layout_ptr layout = make(document("[0, 5]", "[1, 5]", list(shard("[1, 5]", kBytes, kBytes))));
  EXPECT_EQ(layout->grid().cells(), 0u);
  EXPECT_EQ(layout->write_grid().cells(), 0u);
}

TEST(ZarrLayout, FindsTheOneCellOfARankZeroShard) {
  const layout_ptr layout = make(document("[]", "[]", list(shard("[]", kBytes, kBytes))));
  ASSERT_EQ(layout->grid().cells(), 1u);
  index_map known;
  known.put({0, 0}, *layout->parse({{0, 0}, {}, 0}, index_bytes({{0, 2}}, 0), 18));
  const cell_id cell = 0;
  chunk_extent out;
  std::vector<index_request> missing;
  ASSERT_TRUE(layout->locate({&cell, 1}, known, {&out, 1}, missing).ok());
  EXPECT_EQ(out.range, (byte_range{0, 2, false}));
  EXPECT_EQ(layout->describe(0), "chunk ()");
}

}  // namespace
}  // namespace penstock
