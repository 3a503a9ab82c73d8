// Tiles that are read ahead into reused device memory equal the model, whatever the schedule.

#include <penstock/device_tiles.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include <penstock/penstock.h>
#include "engine/blocking_read.h"
#include "small_arrays.h"

namespace penstock::test {
namespace {

std::vector<std::byte> expected_of(const model_array& model, const box& where) {
  basic_selection which;
  for (std::size_t d = 0; d < where.size.size(); ++d) {
    const auto start = static_cast<std::int64_t>(where.origin[d]);
    which.items.emplace_back(slice{start, start + static_cast<std::int64_t>(where.size[d]), 1});
  }
  return model.select(selection(which));
}

// A consumer's kernel: copies a tile's values when its stream reaches it.
struct snapshot {
  const std::byte* from;
  std::vector<std::byte> seen, expected;
};

void take_snapshot(void* argument) {
  auto* const wanted = static_cast<snapshot*>(argument);
  wanted->seen.assign(wanted->from, wanted->from + wanted->expected.size());
}

// Queues a consumer of each tile and never waits. Deques and pointers, because the consumers run later.
result<std::vector<std::unique_ptr<snapshot>>> consume(device_tiles& tiles, const model_array& model) {
  std::vector<std::unique_ptr<snapshot>> out;
  while (true) {
    PENSTOCK_ASSIGN(const auto tile, tiles.next());
    if (!tile) return out;
    auto made = std::make_unique<snapshot>();
    made->from = tile->values.view().data;
    made->expected = expected_of(model, tile->where);
    EXPECT_EQ(penstock_fake_cuda_enqueue(reinterpret_cast<void*>(tile->stream), take_snapshot, made.get()),
              cuda::kSuccess);
    out.push_back(std::move(made));
  }
}

class DeviceTilesOnSchedules : public FakeDevice, public testing::WithParamInterface<std::uint64_t> {};

TEST_P(DeviceTilesOnSchedules, EqualTheModelWhenTheConsumerReadsThem) {
  std::mt19937_64 random(GetParam());
  const auto [seeded, ctx] = make_seeded(GetParam(), random());
  const opened_array all = make_array(make_memory_store(), ctx, "a", small_model(GetParam()));
  for (int round = 0; round < 4; ++round) {
    device_tiles_options how;
    how.device = 0;
    how.depth = random() % 4;
    how.check = random() % 2 == 0;
    if (random() % 4 != 0) how.tile = {1 + random() % 15, 1 + random() % 18, 1 + random() % 9};
    if (random() % 4 == 0) how.edges = {0, 3, 4, 13};
    auto tiles = device_tiles::make(all.from, how).value();
    auto consumers = consume(tiles, all.model);
    ASSERT_TRUE(consumers.ok()) << consumers.error().to_string();
    ASSERT_EQ(consumers->size(), tiles.tiles());
    while (penstock_fake_cuda_pending()) penstock_fake_cuda_pump(1);
    for (std::size_t i = 0; i < consumers->size(); ++i)
      ASSERT_EQ((*consumers)[i]->seen, (*consumers)[i]->expected) << "tile " << i << " of round " << round;
    ASSERT_FALSE(seeded->stuck());
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, DeviceTilesOnSchedules, testing::Range<std::uint64_t>(1, 9));

class DeviceTiles : public FakeDevice {};

TEST_F(DeviceTiles, AreNotOverwrittenWhileASlowConsumerUsesThem) {
  const auto ctx = context::make({}).value();
  const opened_array all = make_array(make_memory_store(), ctx, "a", small_model(2));
  device_tiles_options how;
  how.device = 0;
  how.depth = 1;
  how.tile = {4, 5, 9};
  penstock_fake_cuda_configure(7, 0, 300);
  auto tiles = device_tiles::make(all.from, how).value();
  auto consumers = consume(tiles, all.model);
  ASSERT_TRUE(consumers.ok()) << consumers.error().to_string();
  ASSERT_EQ(consumers->size(), 4U * 4U);
  ASSERT_EQ(driver.mem_free(allocate(1)), cuda::kSuccess);  // waits for all streams
  for (const auto& each : *consumers) EXPECT_EQ(each->seen, each->expected);
}

TEST_F(DeviceTiles, ReuseDepthPlusOneBuffers) {
  const auto ctx = context::make({}).value();
  const opened_array all = make_array(make_memory_store(), ctx, "a", small_model(1));
  device_tiles_options how;
  how.device = 0;
  how.depth = 2;
  how.tile = {1, 5, 9};
  auto tiles = device_tiles::make(all.from, how).value();
  EXPECT_EQ(tiles.grid(), (extents{13, 4, 1}));
  std::vector<const std::byte*> places;
  for (std::uint64_t i = 0; i < tiles.tiles(); ++i) {
    const auto tile = tiles.next();
    ASSERT_TRUE(tile.ok() && *tile) << tile.error().to_string();
    if (std::find(places.begin(), places.end(), (*tile)->values.view().data) == places.end())
      places.push_back((*tile)->values.view().data);
  }
  EXPECT_EQ(places.size(), 3U);
  EXPECT_FALSE(tiles.next().value());
  EXPECT_FALSE(tiles.next().value());
}

TEST_F(DeviceTiles, HaveNoMoreBuffersThanTilesWhateverTheDepth) {
  const auto ctx = context::make({}).value();
  const opened_array all = make_array(make_memory_store(), ctx, "a", small_model(1));
  device_tiles_options how;
  how.device = 0;
  how.tile = {4, 5, 9};
  for (const std::size_t depth : {std::size_t{1000}, std::numeric_limits<std::size_t>::max()}) {
    how.depth = depth;
    penstock_fake_cuda_reset_counts();
    auto tiles = device_tiles::make(all.from, how).value();
    ASSERT_EQ(penstock_fake_cuda_count("cuStreamCreate"), 1U) << "the other buffers are created when they are needed";
    auto consumers = consume(tiles, all.model);
    ASSERT_TRUE(consumers.ok()) << consumers.error().to_string();
    ASSERT_EQ(consumers->size(), 4U * 4U);
    EXPECT_LE(penstock_fake_cuda_count("cuStreamCreate"), 16U + 10U) << "a tile each, and the engine's";
    ASSERT_EQ(driver.mem_free(allocate(1)), cuda::kSuccess);  // waits for all streams
    for (const auto& each : *consumers) EXPECT_EQ(each->seen, each->expected);
  }
}

TEST_F(DeviceTiles, AChunkThatFailsOnTheDeviceEndsTheStreamAndIsNamed) {
  for (const bool check : {false, true}) {
    const auto ctx = context::make({}).value();
    model_options options;
    options.shape = {8 * 2048};
    options.chunks = {2048};
    options.dtype = "float32";
    options.codecs = kZstd;
    const auto where = make_memory_store();
    const opened_array all = make_array(where, ctx, "a", options);
    const auto old = read_and_wait(*where, "a/c/1", byte_range{}, 1 << 20).value();
    std::vector<std::byte> bytes(old.bytes.begin(), old.bytes.end());
    for (std::size_t i = bytes.size() / 2; i < bytes.size() / 2 + 30; ++i) bytes[i] ^= std::byte{0x5A};
    const part whole(bytes);
    ASSERT_TRUE(where->put("a/c/1", {&whole, 1}, {}).ok());
    device_tiles_options how;
    how.device = 0;
    how.depth = 1;
    how.check = check;
    auto tiles = device_tiles::make(all.from, how).value();
    std::uint64_t returned = 0;
    auto next = tiles.next();
    for (; next.ok() && *next; next = tiles.next()) ++returned;
    ASSERT_FALSE(next.ok());
    EXPECT_EQ(next.error().code(), errc::corrupt_data);
    EXPECT_NE(next.error().to_string().find("tile (1"), std::string::npos) << next.error().to_string();
    EXPECT_NE(next.error().to_string().find("a/c/1"), std::string::npos) << next.error().to_string();
    // With `check` the damaged tile is not returned; otherwise the caller is at most two rounds of two buffers ahead.
    EXPECT_GE(returned, 1U);
    EXPECT_LE(returned, check ? 1U : 2U + 4U);
    EXPECT_FALSE(tiles.next().value()) << "the stream has ended";
  }
}

TEST_F(DeviceTiles, ReturnTheirMemoryWhenCancelledOrDestroyed) {
  {
    const auto ctx = context::make({}).value();
    const opened_array all = make_array(make_memory_store(), ctx, "a", small_model(3));
    device_tiles_options how;
    how.device = 0;
    how.tile = {1, 1, 9};
    auto tiles = device_tiles::make(all.from, how).value();
    ASSERT_TRUE(tiles.next().value());
    tiles.cancel();
    EXPECT_FALSE(tiles.next().value());
    auto dropped = device_tiles::make(all.from, how).value();
    ASSERT_TRUE(dropped.next().value());
  }
  for (int i = 0; i < 10000 && penstock_fake_cuda_retained() != 1; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(penstock_fake_cuda_retained(), 1) << "this test's own";
  EXPECT_EQ(penstock_fake_cuda_live_bytes(), 0U);
}

TEST_F(DeviceTiles, ThatDoNotFitAreRefused) {
  const auto ctx = context::make({}).value();
  const opened_array all = make_array(make_memory_store(), ctx, "a", small_model(1));
  device_tiles_options how;
  how.device = 0;
  for (const extents& tile : {extents{4, 5}, extents{4, 0, 9}}) {
    how.tile = tile;
    EXPECT_EQ(device_tiles::make(all.from, how).error().code(), errc::invalid_argument);
  }
  how.tile = {};
  how.edges = {0, 4, 12};
  EXPECT_EQ(device_tiles::make(all.from, how).error().code(), errc::invalid_argument);
  how.edges = {};
  how.device = 99;
  EXPECT_FALSE(device_tiles::make(all.from, how).ok());
}

}  // namespace
}  // namespace penstock::test
