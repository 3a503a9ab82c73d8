#include <penstock/open.h>
#include <penstock/tiff_writer.h>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

#include <penstock/tiff.h>
#include "store/memory_store.h"

namespace penstock {
namespace {

constexpr std::uint64_t kBands = 2, kRows = 150, kColumns = 90;

tiff_create_options usual() {
  tiff_create_options out;
  out.path = "x.tif";
  out.bands = kBands;
  out.height = kRows;
  out.width = kColumns;
  out.type = dtype(dtype_kind::unsigned_integer, 16);
  out.tile_height = out.tile_width = 16;
  return out;
}

std::vector<std::uint16_t> numbers() {
  std::vector<std::uint16_t> out(kBands * kRows * kColumns);
  std::iota(out.begin(), out.end(), std::uint16_t{0});
  return out;
}

// Rows of all bands.
tensor_view rows_of(std::vector<std::uint16_t>& values, std::uint64_t first, std::uint64_t count) {
  tensor_view out =
      tensor_view::contiguous(values.data(), dtype(dtype_kind::unsigned_integer, 16), extents{kBands, kRows, kColumns});
  out.data += first * kColumns * sizeof(std::uint16_t);
  out.extents[1] = count;
  return out;
}

result<array> open(const std::shared_ptr<store>& from, std::uint64_t level) {
  open_options options;
  options.path = "x.tif";
  tiff_options image;
  image.level = level;
  return open_tiff(from, options, image);
}

std::vector<std::uint16_t> read(const std::shared_ptr<store>& from, std::uint64_t level) {
  auto opened = open(from, level);
  EXPECT_TRUE(opened.ok()) << opened.error().to_string();
  if (!opened.ok()) return {};
  std::uint64_t count = 1;
  for (const std::uint64_t length : opened->shape()) count *= length;
  std::vector<std::uint16_t> out(count);
  const auto done = opened->read(tensor_view::contiguous(out.data(), opened->type(), opened->shape()));
  EXPECT_TRUE(done.ok()) << done.error().to_string();
  return out;
}

TEST(TiffWriter, RowsFromSeveralThreadsMakeTheFileThatOneMakes) {
  auto values = numbers();
  std::array<std::vector<std::vector<std::uint16_t>>, 2> found;
  for (const bool together : {false, true}) {
    const auto to = std::make_shared<memory_store>();
    auto writer = tiff_writer::create(to, usual());
    ASSERT_TRUE(writer.ok()) << writer.error().to_string();
    std::atomic<std::uint64_t> next{0};
    std::atomic<int> failed{0};
    const auto work = [&] {
      for (;;) {
        const std::uint64_t y = next.fetch_add(16);
        if (y >= kRows) return;
        if (!writer->write(0, y, rows_of(values, y, std::min<std::uint64_t>(16, kRows - y))).ok()) ++failed;
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < (together ? 3 : 1); ++i) threads.emplace_back(work);
    for (std::thread& each : threads) each.join();
    EXPECT_EQ(failed, 0);
    ASSERT_TRUE(writer->close().ok());
    EXPECT_TRUE(writer->closed());
    EXPECT_EQ(writer->options().overviews, (std::vector<std::uint64_t>{2, 4, 8, 16}));
    for (std::uint64_t level = 0; level < 5; ++level) found[together].push_back(read(to, level));
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[0][0], values);
}

TEST(TiffWriter, OverviewsOfAPaletteAreOfTheNearestPixels) {
  tiff_create_options options = usual();
  options.bands = 1;
  options.photometric = 3;
  std::vector<std::uint16_t> values(kRows * kColumns);
  std::iota(values.begin(), values.end(), std::uint16_t{0});
  const auto to = std::make_shared<memory_store>();
  auto writer = tiff_writer::create(to, options);
  ASSERT_TRUE(writer.ok()) << writer.error().to_string();
  EXPECT_EQ(writer->options().resampling, overview_resampling::nearest);
  const auto type = dtype(dtype_kind::unsigned_integer, 16);
  const extents shape{1, kRows, kColumns};
  ASSERT_TRUE(writer->write(0, 0, tensor_view::contiguous(values.data(), type, shape)).ok());
  ASSERT_TRUE(writer->close().ok());
  const std::vector<std::uint16_t> half = read(to, 1);
  EXPECT_EQ(half[0], values[0]);
  EXPECT_EQ(half[1], values[2]);
  EXPECT_EQ(half[kColumns / 2], values[2 * kColumns]);
  options.resampling = overview_resampling::average;
  const auto refused = tiff_writer::create(to, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), errc::invalid_argument);
}

TEST(TiffWriter, NothingStandsThereBeforeItIsClosedOrAfterItIsDiscarded) {
  auto values = numbers();
  const auto to = std::make_shared<memory_store>();
  auto writer = tiff_writer::create(to, usual());
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->write(0, 0, rows_of(values, 0, kRows)).ok());
  EXPECT_FALSE(open(to, 0).ok());
  writer->discard();
  EXPECT_EQ(writer->write(0, 0, rows_of(values, 0, kRows)).error().code(), errc::invalid_argument);
  EXPECT_TRUE(writer->close().ok());
  EXPECT_FALSE(open(to, 0).ok());
}

TEST(TiffWriter, ViewsOfAnotherShapeTypeOrPlaceAreRefused) {
  auto values = numbers();
  const auto to = std::make_shared<memory_store>();
  auto writer = tiff_writer::create(to, usual());
  ASSERT_TRUE(writer.ok());
  const auto refused = [&](std::uint64_t band, std::uint64_t row, const tensor_view& view) {
    const auto done = writer->write(band, row, view);
    return done.ok() ? errc::internal : done.error().code();
  };
  tensor_view view = rows_of(values, 0, 16);
  EXPECT_EQ(refused(0, 8, view), errc::invalid_argument);
  EXPECT_EQ(refused(1, 0, view), errc::out_of_range);
  EXPECT_EQ(refused(0, 160, view), errc::out_of_range);
  EXPECT_EQ(refused(~std::uint64_t{0}, ~std::uint64_t{0} - 15, view), errc::out_of_range);
  view.type = dtype(dtype_kind::signed_integer, 16);
  EXPECT_EQ(refused(0, 0, view), errc::invalid_argument);
  view = rows_of(values, 0, 16);
  view.extents[2] = kColumns - 1;
  EXPECT_EQ(refused(0, 0, view), errc::invalid_argument);
  view = rows_of(values, 0, 16);
  view.space = memory_space::cuda;
  EXPECT_EQ(refused(0, 0, view), errc::invalid_argument);
  EXPECT_TRUE(writer->write(0, 0, rows_of(values, 0, kRows)).ok()) << "a refusal changes nothing";
}

TEST(TiffWriter, TagsThatContradictTheOptionsOrThemselvesAreRefused) {
  const auto to = std::make_shared<memory_store>();
  const tiff_tag tags[] = {{256, 4, 1, std::vector<std::byte>(4)},
                           {42113, 2, 5, std::vector<std::byte>(4)},
                           {42113, 99, 4, std::vector<std::byte>(4)},
                           {42113, 12, 1, std::vector<std::byte>(7)}};
  for (const tiff_tag& tag : tags) {
    tiff_create_options options = usual();
    options.tags.push_back(tag);
    const auto writer = tiff_writer::create(to, options);
    ASSERT_FALSE(writer.ok());
    EXPECT_EQ(writer.error().code(), errc::invalid_argument);
  }
  tiff_create_options options = usual();
  options.tags.push_back({42113, 2, 4, std::vector<std::byte>(4)});
  options.shared_tags = options.tags;
  EXPECT_FALSE(tiff_writer::create(to, options).ok());
}

}  // namespace
}  // namespace penstock
