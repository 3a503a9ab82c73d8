#include <penstock/window.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <penstock/create.h>
#include <penstock/open.h>
#include <penstock/tiff.h>
#include <penstock/tiff_writer.h>
#include "store/memory_store.h"

namespace penstock {
namespace {

constexpr std::uint64_t kSide = 64;

// 64 x 64 pixels of 2 m, from (100, 500) to the east and south, with overviews of 32 and 16.
array scene(const dtype& type, std::vector<std::byte> values, std::optional<nodata_value> nodata = std::nullopt) {
  tiff_create_options options;
  options.path = "x.tif";
  options.height = options.width = kSide;
  options.type = type;
  options.tile_height = options.tile_width = 16;
  options.nodata = nodata;
  options.meaning.transform = affine_transform{2, 0, 100, 0, -2, 500};
  const auto to = std::make_shared<memory_store>();
  auto writer = tiff_writer::create(to, options);
  EXPECT_TRUE(writer.ok()) << writer.error().to_string();
  EXPECT_TRUE(writer->write(0, 0, tensor_view::contiguous(values.data(), type, extents{1, kSide, kSide})).ok());
  EXPECT_TRUE(writer->close().ok());
  open_options where;
  where.path = "x.tif";
  return *open_tiff(to, where, {});
}

array numbers(std::optional<nodata_value> nodata = std::nullopt) {
  std::vector<std::uint16_t> values(kSide * kSide);
  std::iota(values.begin(), values.end(), std::uint16_t{0});
  const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
  return scene(dtype(dtype_kind::unsigned_integer, 16), {bytes, bytes + 2 * values.size()}, nodata);
}

std::vector<std::uint16_t> read(const array& from, const window_options& options) {
  const auto window = window_reader::make(from, options);
  EXPECT_TRUE(window.ok()) << window.error().to_string();
  if (!window.ok()) return {};
  std::vector<std::uint16_t> out(*element_count(window->shape()));
  const auto done = window->read(tensor_view::contiguous(out.data(), from.type(), window->shape()));
  EXPECT_TRUE(done.ok()) << done.error().to_string();
  return out;
}

errc refusal(const array& from, const window_options& options) {
  const auto window = window_reader::make(from, options);
  return window.ok() ? errc::internal : window.error().code();
}

TEST(Window, BoundsArePixelsWithoutRounding) {
  const auto window = window_of({2, 0, 100, 0, -2, 500}, {103, 471, 110, 499});
  ASSERT_TRUE(window.ok());
  EXPECT_EQ(window->column, 1.5);
  EXPECT_EQ(window->width, 3.5);
  EXPECT_EQ(window->row, 0.5);
  EXPECT_EQ(window->height, 14);
  EXPECT_EQ(*size_of_window(*window), (image_size{14, 4}));
  EXPECT_EQ(*size_of_window({0, 0, 2.5, 0.1}), (image_size{2, 1})) << "halves to even, at least 1";
  EXPECT_FALSE(size_of_window({0, 0, 1e300, 1}).ok());
}

TEST(Window, BoundsOfBottomUpImagesMayBeginAtTheBottom) {
  const affine_transform up{2, 0, 100, 0, 2, 500};
  EXPECT_EQ(window_of(up, {100, 510, 104, 500})->row, 0);
  EXPECT_EQ(window_of(up, {100, 500, 104, 510})->height, 5);
  EXPECT_FALSE(window_of({2, 0, 100, 0, -2, 500}, {100, 510, 104, 500}).ok());
}

TEST(Window, BoundsThatAreNotARectangleAreRefused) {
  const affine_transform place{2, 0, 100, 0, -2, 500};
  const double none = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(window_of(place, {104, 0, 100, 10}).error().code(), errc::invalid_argument);
  EXPECT_EQ(window_of(place, {100, 0, 100, 10}).error().code(), errc::invalid_argument);
  EXPECT_EQ(window_of(place, {100, none, 104, 10}).error().code(), errc::invalid_argument);
  EXPECT_EQ(window_of({0, 0, 1, 0, 1, 1}, {0, 0, 1, 1}).error().code(), errc::invalid_argument);
  EXPECT_EQ(window_of({1, 0.1, 1, 0, 1, 1}, {0, 0, 1, 1}).error().code(), errc::unsupported);
}

TEST(Window, TheSmallestOverviewThatSufficesIsChosen) {
  const image_size image = {64, 64}, overviews[] = {{32, 32}, {16, 16}};
  const pixel_window all{0, 0, 64, 64};
  const auto chosen = [&](std::uint64_t size, resampling how) {
    return choose_overview(image, overviews, all, {size, size}, how);
  };
  EXPECT_EQ(chosen(64, resampling::average), 0U);
  EXPECT_EQ(chosen(33, resampling::average), 1U) << "a tenth of a pixel coarser";
  EXPECT_EQ(chosen(34, resampling::average), 0U);
  EXPECT_EQ(chosen(16, resampling::average), 2U);
  EXPECT_EQ(chosen(40, resampling::nearest), 1U) << "a fifth and a tenth";
  EXPECT_EQ(chosen(41, resampling::nearest), 0U);
  EXPECT_EQ(chosen(1, resampling::nearest), 2U);
}

TEST(Window, PixelsAreThoseUnderTheBounds) {
  window_options options;
  options.bounds = ground_bounds{104, 494, 108, 498};
  EXPECT_EQ(read(numbers(), options), (std::vector<std::uint16_t>{66, 67, 130, 131}));
  options.bounds = ground_bounds{104, 496, 108, 500};
  options.how = resampling::average;
  options.size = image_size{1, 1};
  EXPECT_EQ(read(numbers(nodata_value(std::int64_t{67})), options), (std::vector<std::uint16_t>{24}))
      << "of 2, 3 and 66";
}

TEST(Window, PixelsOutsideTheImageAreTheFillValue) {
  window_options options;
  options.bounds = ground_bounds{98, 498, 104, 502};
  EXPECT_EQ(refusal(numbers(), options), errc::invalid_argument);
  EXPECT_EQ(read(numbers(nodata_value(std::int64_t{7})), options), (std::vector<std::uint16_t>{7, 7, 7, 7, 0, 1}));
  options.fill_value = {std::byte{9}, std::byte{0}};
  for (const resampling how : {resampling::nearest, resampling::average, resampling::bilinear}) {
    options.how = how;
    options.bounds = ground_bounds{98, 498, 104, 502};
    EXPECT_EQ(read(numbers(), options).front(), 9);
    options.bounds = ground_bounds{0, 0, 10, 10};
    EXPECT_EQ(refusal(numbers(), options), errc::invalid_argument) << "wholly outside";
    options.boundless = true;
    EXPECT_EQ(read(numbers(), options), std::vector<std::uint16_t>(25, 9));
    options.boundless = false;
  }
}

TEST(Window, ReadsFromTheOverview) {
  window_options options;
  options.size = image_size{16, 16};
  const array image = numbers();
  const auto window = window_reader::make(image, options);
  ASSERT_TRUE(window.ok());
  EXPECT_EQ(window->level().shape(), (extents{1, 16, 16}));
  std::vector<std::uint16_t> values(256);
  tensor_view out = tensor_view::contiguous(values.data(), image.type(), window->shape());
  ASSERT_TRUE(window->read(out).ok());
  EXPECT_EQ(values[0], 98) << "the mean of 4 x 4 pixels, rounded twice";
  out.extents[2] = 15;
  EXPECT_EQ(window->read(out).error().code(), errc::invalid_argument);
}

TEST(Window, MeansThatEqualNodataBecomeTheNextNumber) {
  std::vector<std::byte> values(kSide * kSide);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::byte>(i % 2 == 0 ? 4 : 6);
  window_options options;
  options.size = image_size{1, 1};
  options.how = resampling::average;
  options.nodata = nodata_value(std::int64_t{5});
  options.overviews.emplace();
  const array image = scene(dtype(dtype_kind::unsigned_integer, 8), values);
  const auto window = window_reader::make(image, options);
  ASSERT_TRUE(window.ok());
  std::uint8_t made = 0;
  ASSERT_TRUE(window->read(tensor_view::contiguous(&made, image.type(), window->shape())).ok());
  EXPECT_EQ(made, 6);
}

// Values from 0 with a scale of 0.5 and an offset of 1; 3 is nodata.
array scaled() {
  tiff_create_options options;
  options.path = "x.tif";
  options.height = options.width = kSide;
  options.type = dtype(dtype_kind::signed_integer, 16);
  options.tile_height = options.tile_width = 16;
  options.nodata = nodata_value(std::int64_t{3});
  options.meaning.bands = {{std::nullopt, std::nullopt, 0.5, 1.0}};
  std::vector<std::int16_t> values(kSide * kSide);
  std::iota(values.begin(), values.end(), std::int16_t{0});
  const auto to = std::make_shared<memory_store>();
  auto writer = tiff_writer::create(to, options);
  EXPECT_TRUE(writer.ok()) << writer.error().to_string();
  EXPECT_TRUE(writer->write(0, 0, tensor_view::contiguous(values.data(), options.type, extents{1, kSide, kSide})).ok());
  EXPECT_TRUE(writer->close().ok());
  open_options where;
  where.path = "x.tif";
  return *open_tiff(to, where, {});
}

std::vector<double> read_unpacked(const unpacked_image& from, const window_options& options) {
  const auto window = window_reader::make(from, options);
  EXPECT_TRUE(window.ok()) << window.error().to_string();
  EXPECT_EQ(window->type(), dtype(dtype_kind::floating, 64));
  std::vector<double> out(*element_count(window->shape()));
  const auto done = window->read(tensor_view::contiguous(out.data(), window->type(), window->shape()));
  EXPECT_TRUE(done.ok()) << done.error().to_string();
  return out;
}

TEST(Window, UnpackedImagesAreResampledAfterUnpacking) {
  const auto image = unpacked_image::make(scaled());
  ASSERT_TRUE(image.ok()) << image.error().to_string();
  EXPECT_TRUE(image->is_partial());
  window_options options;
  options.transform = affine_transform{1, 0, 0, 0, -1, kSide};
  options.bounds = ground_bounds{2, kSide - 1, 6, kSide};
  const auto whole = read_unpacked(*image, options);
  EXPECT_EQ(whole[0], 2);
  EXPECT_TRUE(std::isnan(whole[1]));
  EXPECT_EQ(whole[3], 3.5);
  options.how = resampling::average;
  options.size = image_size{1, 2};
  EXPECT_EQ(read_unpacked(*image, options), (std::vector<double>{2, 3.25})) << "missing pixels have no weight";
  options.bounds = ground_bounds{-2, kSide - 1, 2, kSide};
  EXPECT_TRUE(std::isnan(read_unpacked(*image, options)[0])) << "outside";
  const double fill = -7;
  options.fill_value.assign(reinterpret_cast<const std::byte*>(&fill), reinterpret_cast<const std::byte*>(&fill + 1));
  for (const resampling how : {resampling::nearest, resampling::average}) {
    options.how = how;
    EXPECT_EQ(read_unpacked(*image, options)[0], -7);
  }
}

TEST(Window, OverviewsOfUnpackedImagesAreUnpacked) {
  const auto image = unpacked_image::make(scaled());
  ASSERT_TRUE(image.ok());
  window_options options;
  options.size = image_size{16, 16};
  const auto window = window_reader::make(*image, options);
  ASSERT_TRUE(window.ok());
  EXPECT_EQ(window->level().shape(), (extents{1, 16, 16}));
  std::vector<std::int16_t> stored(256);
  ASSERT_TRUE(
      window->level().read(tensor_view::contiguous(stored.data(), window->level().type(), window->shape())).ok());
  const auto values = read_unpacked(*image, options);
  for (std::size_t i = 0; i < stored.size(); ++i) EXPECT_EQ(values[i], stored[i] * 0.5 + 1);
  options.overviews = std::vector<window_image>{*unpacked_image::make(window->level())};
  EXPECT_EQ(read_unpacked(*image, options), values);
  options.overviews = std::vector<window_image>{window->level()};
  const auto refused = window_reader::make(*image, options);
  ASSERT_FALSE(refused.ok()) << "an overview of stored values, of another type";
  EXPECT_EQ(refused.error().code(), errc::invalid_argument);
}

TEST(Window, ItemsOfVariableLengthAreReadByTheirPositions) {
  create_options made;
  made.type = dtype::variable_utf8();
  made.shape = extents{4, 4};
  const auto created = create_array(std::make_shared<memory_store>(), made);
  ASSERT_TRUE(created.ok()) << created.error().to_string();
  window_options options;
  options.size = image_size{2, 4};
  const auto window = window_reader::make(*created, options);
  ASSERT_TRUE(window.ok()) << window.error().to_string();
  EXPECT_EQ(std::vector(window->nearest_rows().begin(), window->nearest_rows().end()),
            (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(window->nearest_columns().size(), 4U);
  std::vector<std::byte> out(8 * 16);
  const auto refused = window->read(tensor_view::contiguous(out.data(), made.type, window->shape()));
  EXPECT_EQ(refused.error().code(), errc::unsupported);
  options.how = resampling::average;
  EXPECT_EQ(refusal(*created, options), errc::unsupported);
}

TEST(Window, HugeWindowsAreRefusedBeforeMemoryIsAllocated) {
  window_options options;
  options.fill_value = {std::byte{9}, std::byte{0}};
  options.bounds = ground_bounds{-1e300, 0, 1e300, 500};
  EXPECT_EQ(refusal(numbers(), options), errc::invalid_argument);
  options.bounds = ground_bounds{-1e15, -1e15, 1e15, 1e15};
  EXPECT_EQ(refusal(numbers(), options), errc::resource_exhausted);
  options.size = image_size{1, 1};
  for (const resampling how : {resampling::nearest, resampling::average, resampling::bilinear}) {
    options.how = how;
    EXPECT_EQ(read(numbers(), options).size(), 1U);
  }
  options.size = image_size{0, 1};
  EXPECT_EQ(refusal(numbers(), options), errc::invalid_argument);
}

TEST(Window, ArraysOfOtherFormatsNeedATransform) {
  create_options made;
  made.type = dtype(dtype_kind::unsigned_integer, 16);
  made.shape = extents{4, 4};
  const auto created = create_array(std::make_shared<memory_store>(), made);
  ASSERT_TRUE(created.ok()) << created.error().to_string();
  window_options options;
  options.bounds = ground_bounds{0, 0, 2, 2};
  EXPECT_EQ(refusal(*created, options), errc::invalid_argument);
  options.transform = affine_transform{1, 0, 0, 0, -1, 4};
  EXPECT_EQ(read(*created, options), std::vector<std::uint16_t>(4, 0));
  options.overviews = std::vector<window_image>{numbers()};
  EXPECT_EQ(refusal(*created, options), errc::invalid_argument) << "an overview of another rank";
}

}  // namespace
}  // namespace penstock
