#include "plan/planner.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "format/zarr/zarr_layout.h"
#include "format/zarr/zarr_metadata.h"
#include "plan/plan_text.h"

namespace penstock::inline v0 {
namespace {

// A store that only has traits: planning does no I/O.
class no_store final : public store {
 public:
  store_traits traits() const override { return given; }
  void read(std::span<const byte_read>, completion_sink&, std::stop_token) const override { FAIL() << "a plan reads"; }
  std::string uri() const override { return "none:"; }
  store_traits given;
};

class given_indexes final : public plan_indexes {
 public:
  const index_entry* find(std::uint32_t, const index_key& key) override {
    const auto found = entries.find({key.object, key.node});
    return found == entries.end() ? nullptr : &found->second;
  }
  std::map<std::pair<object_id, std::uint64_t>, index_entry> entries;
};

constexpr const char* kBytes = R"({"name":"bytes","configuration":{"endian":"little"}})";

std::shared_ptr<const zarr_layout> layout_of(const std::string& shape, const std::string& chunk,
                                             const std::string& codecs) {
  const std::string text = R"({"zarr_format":3,"node_type":"array","shape":)" + shape +
                           R"(,"data_type":"uint8","chunk_grid":{"name":"regular","configuration":{"chunk_shape":)" +
                           chunk + R"(}},"chunk_key_encoding":{"name":"default"},"fill_value":0,"codecs":)" + codecs +
                           "}";
  const auto metadata = parse_zarr_metadata(std::as_bytes(std::span(text)));
  EXPECT_TRUE(metadata.ok()) << metadata.error().to_string();
  const auto layout = zarr_layout::make(*metadata);
  EXPECT_TRUE(layout.ok()) << layout.error().to_string();
  return *layout;
}

std::string sharded(const std::string& inner, const std::string& codecs) {
  return R"([{"name":"sharding_indexed","configuration":{"chunk_shape":)" + inner + R"(,"codecs":[)" + codecs +
         R"(],"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}],"index_location":"end"}}])";
}

struct planning {
  std::shared_ptr<const zarr_layout> layout;
  no_store store;
  given_indexes known;
  plan_limits limits;
  source from;
  planner plans;
  read_plan piece;
  std::vector<index_request> missing;
  std::uint32_t missing_source = 0;

  void start(const strided_box& box) {
    from.layout = layout.get();
    from.store = &store;
    from.prefix = "a/";
    from.from = box;
    extents shape;
    for (const axis_range& each : box) shape.push_back(each.count);
    from.to_strides = c_order_strides(shape, 1);
    plans.start({&from, 1}, limits);
  }
  planner::outcome next() {
    const auto outcome = plans.next(known, piece, missing, missing_source);
    EXPECT_TRUE(outcome.ok()) << outcome.error().to_string();
    return *outcome;
  }
  std::string text() {
    std::string out;
    std::size_t lines = 1000;
    append_text(out, piece, {&from, 1}, lines);
    return out;
  }
  // Adds the index of a shard: pairs of offset and length; a negative offset is an absent chunk.
  void know(object_id object, const std::vector<std::pair<std::int64_t, std::uint64_t>>& entries, bool cached = false) {
    std::vector<std::uint64_t> words;
    for (const auto& [offset, length] : entries) {
      words.push_back(offset < 0 ? ~std::uint64_t{0} : static_cast<std::uint64_t>(offset));
      words.push_back(offset < 0 ? ~std::uint64_t{0} : length);
    }
    index_request request;
    request.key = {object, 0};
    request.max_bytes = words.size() * 8;
    const auto block = layout->parse(request, std::as_bytes(std::span(words)), 1 << 20);
    ASSERT_TRUE(block.ok()) << block.error().to_string();
    index_entry entry;
    entry.block = *block;
    entry.seen.word[0] = 7;
    entry.cached = cached;
    known.entries[{object, 0}] = entry;
  }
};

TEST(Planner, ReadsEachUnshardedChunkWhole) {
  planning p;
  p.layout = layout_of("[10]", "[4]", std::string("[") + kBytes + "]");
  p.start({{3, 1, 6}});
  ASSERT_EQ(p.next(), planner::outcome::piece);
  EXPECT_EQ(p.text(),
            "fetch 'a/c/0', all: 1 cell\n"
            "  decode chunk (0,) from all, scatter\n"
            "fetch 'a/c/1', all: 1 cell\n"
            "  decode chunk (1,) from all, direct\n"
            "fetch 'a/c/2', all: 1 cell\n"
            "  decode chunk (2,) from all, scatter\n");
  EXPECT_EQ(p.next(), planner::outcome::finished);
  EXPECT_EQ(p.plans.total_cells(), 3u);
  EXPECT_EQ(p.plans.total_bytes(), 12u);
}

TEST(Planner, RequestsTheIndexOnceThenCoalescesNeighbours) {
  planning p;
  p.layout = layout_of("[16]", "[16]", sharded("[4]", kBytes));
  p.start({{0, 1, 16}});
  ASSERT_EQ(p.next(), planner::outcome::needs_indexes);
  ASSERT_EQ(p.missing.size(), 1u);
  EXPECT_EQ(p.missing[0].range, (byte_range{0, 64, true}));
  p.know(0, {{0, 4}, {4, 4}, {-1, 0}, {100, 4}});
  ASSERT_EQ(p.next(), planner::outcome::piece);
  EXPECT_EQ(p.text(),
            "fill chunk (2,)\n"
            "fetch 'a/c/0', bytes [0, 8): 2 cells\n"
            "  decode chunk (0,) from [0, 4), direct\n"
            "  decode chunk (1,) from [4, 8), direct\n"
            "fetch 'a/c/0', bytes [100, 104): 1 cell\n"
            "  decode chunk (3,) from [0, 4), direct\n");
  EXPECT_EQ(p.piece.objects[0].expected.word[0], 7u);
}

TEST(Planner, CoalescesMoreIfTheHostOnlyCopiesButKeepsAllWorkersBusy) {
  const auto requests = [](std::uint64_t most, std::uint64_t least, bool inline_completion) {
    planning p;
    p.layout = layout_of("[16]", "[16]", sharded("[2]", kBytes));
    p.store.given.max_length_bytes = 2;
    p.store.given.inline_completion = inline_completion;
    p.limits.inline_fetch_bytes = most;
    p.limits.inline_fetches = least;
    p.know(0, {{0, 2}, {2, 2}, {4, 2}, {6, 2}, {8, 2}, {10, 2}, {12, 2}, {14, 2}});
    p.start({{0, 1, 16}});
    EXPECT_EQ(p.next(), planner::outcome::piece);
    return p.piece.fetches.size();
  };
  EXPECT_EQ(requests(0, 1, true), 8u);  // the store's own limit
  EXPECT_EQ(requests(8, 1, true), 2u);
  EXPECT_EQ(requests(8, 4, true), 4u);
  EXPECT_EQ(requests(8, 100, true), 8u);
  EXPECT_EQ(requests(1, 1, true), 8u);
  EXPECT_EQ(requests(8, 1, false), 8u);
}

TEST(Planner, ReadsThroughSmallGapsOnlyIfLittleIsWasted) {
  planning p;
  p.layout = layout_of("[48]", "[48]", sharded("[16]", kBytes));
  p.store.given.max_gap_bytes = 8;
  p.know(0, {{0, 16}, {18, 16}, {40, 16}});
  p.start({{0, 1, 48}});
  ASSERT_EQ(p.next(), planner::outcome::piece);
  // 2 bytes of 34 are read through; 6 more would be one byte in seven.
  EXPECT_EQ(p.text(),
            "fetch 'a/c/0', bytes [0, 34): 2 cells\n"
            "  decode chunk (0,) from [0, 16), direct\n"
            "  decode chunk (1,) from [18, 34), direct\n"
            "fetch 'a/c/0', bytes [40, 56): 1 cell\n"
            "  decode chunk (2,) from [0, 16), direct\n");
}

TEST(Planner, ReadsThroughGapsShorterThanTheCostOfARequest) {
  planning p;
  p.layout = layout_of("[64]", "[64]", sharded("[16]", kBytes));
  p.store.given.request_bytes = 30;
  p.know(0, {{0, 16}, {46, 16}, {93, 16}, {109, 16}});
  p.start({{0, 1, 64}});
  ASSERT_EQ(p.next(), planner::outcome::piece);
  // A gap of 30 bytes, then one of 31, for any share of the request.
  EXPECT_EQ(p.text(),
            "fetch 'a/c/0', bytes [0, 62): 2 cells\n"
            "  decode chunk (0,) from [0, 16), direct\n"
            "  decode chunk (1,) from [46, 62), direct\n"
            "fetch 'a/c/0', bytes [93, 125): 2 cells\n"
            "  decode chunk (2,) from [0, 16), direct\n"
            "  decode chunk (3,) from [16, 32), direct\n");
}

TEST(Planner, FillsOnACachedIndexWaitForARequestToTheObject) {
  planning p;
  p.layout = layout_of("[16]", "[8]", sharded("[4]", kBytes));
  p.know(0, {{-1, 0}, {-1, 0}}, /*cached=*/true);
  p.know(1, {{0, 4}, {-1, 0}}, /*cached=*/true);
  p.start({{0, 1, 16}});
  ASSERT_EQ(p.next(), planner::outcome::piece);
  EXPECT_EQ(p.text(),
            "check 'a/c/0' is unchanged: 2 cells\n"
            "  fill chunk (0,)\n"
            "  fill chunk (1,)\n"
            "fetch 'a/c/1', bytes [0, 4): 1 cell\n"
            "  decode chunk (2,) from [0, 4), direct\n"
            "  fill chunk (3,)\n");
}

TEST(Planner, LargeUncompressedChunksAreReadDirectlyIntoTheResult) {
  for (const bool in_shard : {false, true}) {
    planning p;
    std::vector<std::byte> result(3 << 16);
    const std::string codecs = std::string("[") + kBytes + "]";
    p.layout = in_shard ? layout_of("[196608]", "[196608]", sharded("[65536]", kBytes))
                        : layout_of("[196608]", "[65536]", codecs);
    if (in_shard) p.know(0, {{0, 1 << 16}, {1 << 16, 1 << 16}, {2 << 16, 1 << 16}});
    p.from.to = result.data();
    p.start({{0, 1, 3 << 16}});
    ASSERT_EQ(p.next(), planner::outcome::piece);
    ASSERT_EQ(p.piece.fetches.size(), 3u);  // one each: no request may span two destinations
    for (const fetch_op& op : p.piece.fetches) EXPECT_TRUE(op.in_place);
    p.start({{1, 1, (3 << 16) - 1}});
    ASSERT_EQ(p.next(), planner::outcome::piece);
    EXPECT_FALSE(p.piece.fetches[0].in_place);  // only a part of the first chunk is selected
    EXPECT_TRUE(p.piece.fetches[1].in_place);
  }
}

TEST(Planner, UncompressedChunksAreRequestedTogetherWhereARequestCostsMoreThanACopy) {
  planning p;
  std::vector<std::byte> result(3 << 16);
  p.layout = layout_of("[196608]", "[196608]", sharded("[65536]", kBytes));
  p.know(0, {{0, 1 << 16}, {1 << 16, 1 << 16}, {2 << 16, 1 << 16}});
  p.from.to = result.data();
  const auto requests = [&](std::uint64_t request_bytes, std::uint64_t count) {
    p.store.given.request_bytes = request_bytes;
    p.start({{0, 1, count}});
    EXPECT_EQ(p.next(), planner::outcome::piece);
    return p.piece.fetches.size();
  };
  EXPECT_EQ(requests(4096, 3 << 16), 3u);
  EXPECT_TRUE(p.piece.fetches[2].in_place);
  EXPECT_EQ(requests(4097, 3 << 16), 1u);
  EXPECT_FALSE(p.piece.fetches[0].in_place);
  EXPECT_EQ(p.piece.fetches[0].decode_count, 3u);
  EXPECT_EQ(requests(4097, 1 << 16), 1u);  // no other is next to it
  EXPECT_TRUE(p.piece.fetches[0].in_place);
}

TEST(Planner, SplitsABatchWhoseIndexesDoNotFit) {
  planning p;
  p.layout = layout_of("[64]", "[4]", sharded("[1]", kBytes));  // 16 shards, 64 index bytes each
  p.limits.max_index_bytes = 256;
  p.start({{0, 1, 64}});
  ASSERT_EQ(p.next(), planner::outcome::needs_indexes);
  EXPECT_EQ(p.missing.size(), 4u);
}

TEST(Planner, RequestsAWholeShardToSaveTheRoundTripForItsIndex) {
  planning p;
  p.layout = layout_of("[22]", "[8]", sharded("[1]", kBytes));  // two cells of the last shard are not the array's
  p.store.given.request_bytes = 4;                              // a shard is longer
  p.store.given.max_length_bytes = 2;                           // ... and as long as four requests
  p.limits.whole_objects = true;
  p.start({{9, 1, 13}});  // seven of the second shard's eight, and all of the third
  ASSERT_EQ(p.next(), planner::outcome::piece);
  EXPECT_EQ(p.piece.fetches.size(), 2u);
  EXPECT_EQ(p.piece.fetches[1].what, request::object);
  EXPECT_TRUE(p.piece.fetches[1].range.whole());
  EXPECT_TRUE(p.piece.fetches[1].may_be_absent);
  EXPECT_EQ(p.text().substr(0, p.text().find('\n')), "fetch 'a/c/1', all: 7 cells, by the index in it");
  EXPECT_EQ(p.piece.fetches[1].decode_count, 6u);
  const std::uint64_t most = p.piece.fetches[0].max_bytes;  // chunks and the index
  EXPECT_GE(most, 8u + 8 * 16);
  EXPECT_LT(most, 8u * 1024 * 1024);
  // An object that differed from the expectation is looked up by its index.
  EXPECT_EQ(p.next(), planner::outcome::finished);
  p.plans.redo(0, 9);
  ASSERT_EQ(p.next(), planner::outcome::needs_indexes);
  ASSERT_EQ(p.missing.size(), 1u);
  EXPECT_EQ(p.missing[0].key.object, 1u);
}

TEST(Planner, RequestsTheIndexOfLongShardsAndForFewCells) {
  const auto first = [](std::uint64_t request_bytes, std::uint64_t max_length_bytes, std::uint64_t count) {
    planning p;
    p.layout = layout_of("[16]", "[16]", sharded("[1]", kBytes));
    p.store.given.request_bytes = request_bytes;
    p.store.given.max_length_bytes = max_length_bytes;
    p.limits.whole_objects = true;
    p.start({{0, 1, count}});
    return p.next();
  };
  EXPECT_EQ(first(15, 4, 16), planner::outcome::piece);
  EXPECT_EQ(first(0, 4, 16), planner::outcome::needs_indexes);   // a request costs nothing
  EXPECT_EQ(first(15, 3, 16), planner::outcome::needs_indexes);  // longer than four requests
  EXPECT_EQ(first(15, 4, 14), planner::outcome::piece);
  EXPECT_EQ(first(15, 4, 13), planner::outcome::needs_indexes);  // more than an eighth is not needed
  EXPECT_EQ(first(16, 4, 1), planner::outcome::piece);           // all of it is read as soon as one request is made
}

TEST(Planner, RequestsWholeShardsBeforeTheIndexesOfOthers) {
  planning p;
  p.layout = layout_of("[12]", "[4]", sharded("[1]", kBytes));
  p.store.given.request_bytes = 1;
  p.limits.whole_objects = true;
  p.start({{3, 1, 9}});  // one cell of the first shard
  ASSERT_EQ(p.next(), planner::outcome::piece);
  ASSERT_EQ(p.piece.fetches.size(), 2u);
  EXPECT_EQ(p.piece.objects[p.piece.fetches[0].object].key, "a/c/1");
  EXPECT_EQ(p.piece.objects[p.piece.fetches[1].object].key, "a/c/2");
  ASSERT_EQ(p.next(), planner::outcome::needs_indexes);
  ASSERT_EQ(p.missing.size(), 1u);
  EXPECT_EQ(p.missing[0].key.object, 0u);
  p.know(0, {{0, 1}, {1, 1}, {2, 1}, {3, 1}});
  ASSERT_EQ(p.next(), planner::outcome::piece);
  EXPECT_EQ(p.text(), "fetch 'a/c/0', bytes [3, 4): 1 cell\n  decode chunk (3,) from [0, 1), direct\n");
  EXPECT_EQ(p.next(), planner::outcome::finished);
}

TEST(Planner, PlansABillionChunksInBatches) {
  planning p;
  p.layout = layout_of("[1000000000]", "[1]", std::string("[") + kBytes + "]");
  p.start({{0, 1, 1'000'000'000}});
  EXPECT_EQ(p.plans.total_cells(), 1'000'000'000u);
  ASSERT_EQ(p.next(), planner::outcome::piece);
  EXPECT_EQ(p.piece.decodes.size(), p.limits.max_cells);
}

TEST(Planner, PlansSeveralSourcesOneAfterTheOther) {
  const auto first = layout_of("[4]", "[4]", std::string("[") + kBytes + "]");
  const auto second = layout_of("[2]", "[2]", std::string("[") + kBytes + "]");
  no_store store;
  given_indexes known;
  source from[2];
  from[0].layout = first.get();
  from[1].layout = second.get();
  for (int i = 0; i < 2; ++i) {
    from[i].store = &store;
    from[i].to_strides = {1};
  }
  from[0].prefix = "x/";
  from[1].prefix = "y/";
  from[0].from = {{0, 1, 4}};
  from[1].from = {{0, 1, 2}};
  planner plans;
  plans.start(from);
  EXPECT_EQ(plans.total_cells(), 2u);
  read_plan piece;
  std::vector<index_request> missing;
  std::uint32_t missing_source = 0;
  for (std::uint32_t i = 0; i < 2; ++i) {
    ASSERT_EQ(*plans.next(known, piece, missing, missing_source), planner::outcome::piece);
    EXPECT_EQ(piece.source, i);
    EXPECT_EQ(piece.objects[0].key, i == 0 ? "x/c/0" : "y/c/0");
  }
  plans.redo(0, 0);
  ASSERT_EQ(*plans.next(known, piece, missing, missing_source), planner::outcome::piece);
  EXPECT_EQ(piece.source, 0u);
  EXPECT_EQ(*plans.next(known, piece, missing, missing_source), planner::outcome::finished);
}

}  // namespace
}  // namespace penstock::inline v0
