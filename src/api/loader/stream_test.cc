#include <penstock/stream.h>

#include <gtest/gtest.h>

#include <penstock/array_source.h>
#include <penstock/create.h>
#include <penstock/open.h>
#include <penstock/variable.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "support/without_threads.h"

namespace penstock {
namespace {

dtype int32() { return *dtype::from_name("int32"); }

// (rows, 7), element (i, j) = 7 i + j, in chunks of (4, 3). `reads` counts boxes; a box of row `fails` fails.
array numbered(std::uint64_t rows, std::atomic<int>* reads = nullptr, std::uint64_t fails = ~std::uint64_t{0}) {
  array_source out;
  out.name = "numbers";
  out.type = int32();
  out.shape = {rows, 7};
  out.chunks = {4, 7};
  out.read = [=](const box& which, std::span<std::byte> to) -> result<> {
    if (reads != nullptr) ++*reads;
    if (which.origin[0] <= fails && fails < which.origin[0] + which.size[0])
      return error(errc::io_error, "no such row");
    std::size_t at = 0;
    for (std::uint64_t i = 0; i < which.size[0]; ++i) {
      for (std::uint64_t j = 0; j < which.size[1]; ++j, at += 4) {
        const auto value = static_cast<std::int32_t>(7 * (which.origin[0] + i) + which.origin[1] + j);
        std::memcpy(to.data() + at, &value, 4);
      }
    }
    return {};
  };
  auto made = open_sources({out}, 0);
  EXPECT_TRUE(made.ok()) << made.error().to_string();
  return *made;
}

std::int32_t first_of(const stream_tile& tile) {
  std::int32_t out = 0;
  std::memcpy(&out, tile.values.view.data, 4);
  return out;
}

TEST(ArrayStream, TilesCoverTheArrayInOrder) {
  const array a = numbered(10);
  for (const std::size_t depth : {0U, 1U, 5U, 99U}) {
    stream_options options;
    options.tile = {4, 5};
    options.depth = depth;
    auto tiles = array_stream::make(a, options);
    ASSERT_TRUE(tiles.ok()) << tiles.error().to_string();
    EXPECT_EQ(tiles->tiles(), 6U);
    EXPECT_EQ(tiles->grid(), (extents{3, 2}));
    std::vector<stream_tile> seen;
    while (true) {
      auto tile = tiles->next();
      ASSERT_TRUE(tile.ok()) << tile.error().to_string();
      if (!*tile) break;
      seen.push_back(std::move(**tile));
    }
    ASSERT_EQ(seen.size(), 6U);
    EXPECT_EQ(seen[3].index, (extents{1, 1}));
    EXPECT_EQ(seen[3].where, (box{{4, 5}, {4, 2}}));
    EXPECT_EQ(seen[5].where, (box{{8, 5}, {2, 2}}));
    for (const stream_tile& each : seen)  // also of tiles that were read long ago
      EXPECT_EQ(first_of(each), static_cast<std::int32_t>(7 * each.where.origin[0] + each.where.origin[1]));
  }
}

TEST(ArrayStream, ReadsTheGivenNumberOfTilesAhead) {
  std::atomic<int> reads{0};
  const array a = numbered(400, &reads);
  stream_options options;
  options.tile = {4, 7};
  options.depth = 2;
  auto tiles = array_stream::make(a, options);
  ASSERT_TRUE(tiles.ok());
  ASSERT_TRUE(tiles->next().ok());
  for (int i = 0; i < 1000 && reads < 3; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(reads, 3);  // one returned, two ahead
}

TEST(ArrayStream, EndsWhenItIsCancelled) {
  std::atomic<int> reads{0};
  const array a = numbered(400, &reads);
  stream_options options;
  options.tile = {4, 7};
  {
    auto tiles = array_stream::make(a, options);
    ASSERT_TRUE(tiles.ok());
    ASSERT_TRUE(tiles->next().ok());
    tiles->cancel();
    const auto after = tiles->next();
    ASSERT_TRUE(after.ok());
    EXPECT_FALSE(after->has_value());
  }
  EXPECT_LE(reads, 5);
}

TEST(ArrayStream, AFailedTileEndsIt) {
  const array a = numbered(40, nullptr, 9);
  stream_options options;
  options.tile = {4, 7};
  auto tiles = array_stream::make(a, options);
  ASSERT_TRUE(tiles.ok());
  EXPECT_TRUE(tiles->next().ok());
  EXPECT_TRUE(tiles->next().ok());
  const auto failed = tiles->next();
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code(), errc::io_error);
  EXPECT_NE(failed.error().to_string().find("numbers/[0:40, 0:7]"), std::string::npos) << failed.error().to_string();
  const auto after = tiles->next();
  ASSERT_TRUE(after.ok());
  EXPECT_FALSE(after->has_value());
}

TEST(ArrayStream, TilesMayHaveListedEnds) {
  const array a = numbered(10);
  stream_options options;
  options.tile = {4, 7};
  options.edges = {0, 3, 9, 10};
  auto tiles = array_stream::make(a, options);
  ASSERT_TRUE(tiles.ok());
  EXPECT_EQ(tiles->tile(), (extents{6, 7})) << "the longest";
  std::vector<std::uint64_t> rows;
  while (true) {
    auto tile = tiles->next();
    ASSERT_TRUE(tile.ok());
    if (!*tile) break;
    EXPECT_EQ(first_of(**tile), static_cast<std::int32_t>(7 * (*tile)->where.origin[0]));
    rows.push_back((*tile)->where.size[0]);
  }
  EXPECT_EQ(rows, (std::vector<std::uint64_t>{3, 6, 1}));
}

TEST(ArrayStream, CastsAndReadsScalarsAndEmptyArrays) {
  stream_options options;
  options.type = *dtype::from_name("float64");
  auto tiles = array_stream::make(numbered(4), options);
  ASSERT_TRUE(tiles.ok());
  auto tile = tiles->next();
  ASSERT_TRUE(tile.ok() && *tile);
  double second = 0;
  std::memcpy(&second, (*tile)->values.view.data + 8, 8);
  EXPECT_EQ(second, 1.0);

  create_options how;
  how.type = int32();
  auto scalar = create_array(std::shared_ptr<store>(make_memory_store()), how);
  ASSERT_TRUE(scalar.ok()) << scalar.error().to_string();
  auto one = array_stream::make(*scalar);
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->tiles(), 1U);
  EXPECT_TRUE((*one->next()).has_value());
  EXPECT_FALSE((*one->next()).has_value());
  auto none = array_stream::make(numbered(0));
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->tiles(), 0U);
  EXPECT_FALSE((*none->next()).has_value());
}

TEST(ArrayStream, TilesOfTextOwnTheirBytes) {
  create_options how;
  how.type = dtype::variable_utf8();
  how.shape = {5};
  how.chunks = {2};
  const auto made = create_array(std::shared_ptr<store>(make_memory_store()), how);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  std::vector<std::string> words = {"", "a", "word that is longer than others", "b", "last"};
  std::vector<variable_item> items;
  for (const std::string& each : words) items.push_back({reinterpret_cast<const std::byte*>(each.data()), each.size()});
  const auto written =
      made->write(basic_selection(),
                  tensor_view::contiguous(reinterpret_cast<std::byte*>(items.data()), dtype::variable_utf8(), {5}));
  ASSERT_TRUE(written.ok()) << written.error().to_string();
  auto tiles = array_stream::make(*made);
  ASSERT_TRUE(tiles.ok()) << tiles.error().to_string();
  std::vector<stream_tile> seen;
  for (auto tile = tiles->next(); tile.ok() && *tile; tile = tiles->next()) seen.push_back(std::move(**tile));
  tiles->cancel();
  ASSERT_EQ(seen.size(), 3U);
  std::vector<std::string> read;
  for (const stream_tile& tile : seen) {
    const auto* const each = reinterpret_cast<const variable_item*>(tile.values.view.data);
    for (std::uint64_t i = 0; i < tile.where.size[0]; ++i) read.emplace_back(each[i].text());
  }
  EXPECT_EQ(read, words);
}

TEST(ArrayStream, WrongTilesAreRefused) {
  const array a = numbered(10);
  const auto code = [&](stream_options options) { return array_stream::make(a, std::move(options)).error().code(); };
  stream_options rank, zero, edges;
  rank.tile = {4};
  zero.tile = {0, 7};
  edges.tile = {4, 7};
  edges.edges = {0, 4, 9};
  EXPECT_EQ(code(rank), errc::invalid_argument);
  EXPECT_EQ(code(zero), errc::invalid_argument);
  EXPECT_EQ(code(edges), errc::invalid_argument);
}

#ifdef __GLIBC__
TEST(ArrayStream, AReadWithoutAThreadIsAnError) {
  const array a = numbered(10);
  stream_options options;
  options.tile = {4, 5};
  auto tiles = array_stream::make(a, options);
  ASSERT_TRUE(tiles.ok()) << tiles.error().to_string();
  const auto refused = test::without_threads([&] { return tiles->next(); });
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), errc::resource_exhausted);
  EXPECT_NE(refused.error().to_string().find("array '"), std::string::npos) << refused.error().to_string();
}
#endif

}  // namespace
}  // namespace penstock
