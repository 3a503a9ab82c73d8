#include <penstock/open.h>
#include <penstock/tiff_writer.h>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <thread>
#include <vector>

#include <penstock/georeference.h>
#include <penstock/tiff.h>
#include "base/waiting.h"
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

TEST(TiffWriter, SeveralThreadsWriteTheSameFileAsOne) {
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

TEST(TiffWriter, OverviewsOfAPaletteUseTheNearestPixels) {
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

TEST(TiffWriter, NoFileExistsBeforeCloseOrAfterDiscard) {
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

TEST(TiffWriter, StopsBetweenTilesIfTheCallerMayNotContinue) {
  auto values = numbers();
  const auto to = std::make_shared<memory_store>();
  auto writer = tiff_writer::create(to, usual());
  ASSERT_TRUE(writer.ok());
  {
    const interruptible_waits asks([]() noexcept { return false; });
    EXPECT_EQ(writer->write(0, 0, rows_of(values, 0, kRows)).error().code(), errc::cancelled);
  }
  EXPECT_FALSE(writer->close().ok()) << "a file with missing tiles is not stored";
  EXPECT_FALSE(open(to, 0).ok());
}

TEST(TiffWriter, ContinuesIfTheCallerMay) {
  auto values = numbers();
  const auto to = std::make_shared<memory_store>();
  auto writer = tiff_writer::create(to, usual());
  ASSERT_TRUE(writer.ok());
  {
    const interruptible_waits asks([]() noexcept { return true; });
    ASSERT_TRUE(writer->write(0, 0, rows_of(values, 0, kRows)).ok());
    ASSERT_TRUE(writer->close().ok());
  }
  EXPECT_EQ(read(to, 0), values);
}

TEST(TiffWriter, ViewsOfAnotherShapeTypeOrPositionAreRefused) {
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

tiff_details details_of(const std::shared_ptr<store>& from) { return *tiff_details_of(*open(from, 0)); }

std::vector<double> doubles_of(const tiff_details& from, std::uint16_t tag) {
  for (const tiff_tag& each : from.tags) {
    if (each.tag != tag) continue;
    std::vector<double> out(each.value.size() / sizeof(double));
    std::memcpy(out.data(), each.value.data(), each.value.size());
    return out;
  }
  return {};
}

tiff_create_options with_meaning() {
  tiff_create_options out = usual();
  out.nodata = nodata_value(std::int64_t{7});
  out.meaning.transform = affine_transform{10, 0, 500000, 0, -10, 4600000};
  out.meaning.extent = pixel_extent::point;
  coordinate_system system;
  system.epsg = 32633;
  system.vertical = 5773;
  system.name = "Z\xc3\xbcrich|x";
  out.meaning.geo_keys = *geo_keys_of(system);
  out.meaning.geo_keys.push_back({2057, 6378137.0});
  out.meaning.geo_keys.push_back({2062, std::vector<double>{1, 2, 3}});
  out.meaning.metadata = {{"a \"b\"", "<1 & 2>"}};
  out.meaning.bands = {{"first", "m", 0.1, std::nullopt}, {std::nullopt, std::nullopt, std::nullopt, -5.0}};
  return out;
}

TEST(TiffWriter, WrittenMeaningIsReadBack) {
  const auto to = std::make_shared<memory_store>();
  const tiff_create_options options = with_meaning();
  auto writer = tiff_writer::create(to, options);
  ASSERT_TRUE(writer.ok()) << writer.error().to_string();
  ASSERT_TRUE(writer->close().ok());
  const array made = *open(to, 0);
  const georeference read = georeference_of(made);
  EXPECT_EQ(read.transform()->value(), *options.meaning.transform);
  EXPECT_EQ(doubles_of(details_of(to), 33922), (std::vector<double>{0, 0, 0, 500005, 4599995, 0}));
  EXPECT_EQ(*read.area_or_point(), pixel_extent::point);
  EXPECT_EQ(*read.epsg(), 32633U);
  EXPECT_EQ(read.metadata(), options.meaning.metadata);
  std::map<std::uint16_t, geo_key::value_type> keys;
  const std::vector<geo_key> found = *read.geo_keys();
  for (const geo_key& each : found) keys.emplace(each.id, each.value);
  EXPECT_EQ(keys[1026], geo_key::value_type("Z?rich/x"));
  EXPECT_EQ(keys[4096], geo_key::value_type(std::uint64_t{5773}));
  EXPECT_EQ(keys[2057], geo_key::value_type(6378137.0));
  EXPECT_EQ(keys[2062], geo_key::value_type(std::vector<double>{1, 2, 3}));
  const std::vector<band_meaning> bands = read.bands();
  EXPECT_EQ(bands[0].description, "first");
  EXPECT_EQ(bands[0].unit, "m");
  EXPECT_EQ(bands[0].scale, 0.1);
  EXPECT_EQ(bands[1].offset, -5.0);
  EXPECT_EQ(bands[1].scale, 1.0);
  EXPECT_EQ(bands[0].nodata, nodata_value(std::int64_t{7}));
  std::vector<std::uint16_t> values(kBands * kRows * kColumns);
  ASSERT_TRUE(made.read(tensor_view::contiguous(values.data(), made.type(), made.shape())).ok());
  EXPECT_EQ(values.front(), 7) << "rows that were never written are nodata";
}

TEST(TiffWriter, KeysOfAnotherFileAreCopied) {
  const auto to = std::make_shared<memory_store>();
  ASSERT_TRUE(tiff_writer::create(to, with_meaning())->close().ok());
  const std::vector<geo_key> keys = *georeference_of(*open(to, 0)).geo_keys();
  tiff_create_options options = usual();
  options.overwrite = true;
  options.meaning.geo_keys = keys;
  options.meaning.transform = affine_transform{10, 0, 0, 0, -10, 0};
  ASSERT_TRUE(tiff_writer::create(to, options)->close().ok());
  const georeference read = georeference_of(*open(to, 0));
  const std::vector<geo_key> copied = *read.geo_keys();
  ASSERT_EQ(copied.size(), keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(copied[i].id, keys[i].id);
    EXPECT_EQ(copied[i].value, keys[i].value);
  }
  EXPECT_EQ(read.transform()->value(), *options.meaning.transform) << "pixels are points by the key 1025";
}

TEST(TiffWriter, MeaningThatAFileCannotHoldIsRefused) {
  const auto to = std::make_shared<memory_store>();
  const auto code_of = [&](auto change) {
    tiff_create_options options = usual();
    change(options);
    const auto writer = tiff_writer::create(to, options);
    return writer.ok() ? errc::internal : writer.error().code();
  };
  const auto invalid = errc::invalid_argument;
  EXPECT_EQ(code_of([](auto& o) { o.nodata = nodata_value(std::int64_t{-1}); }), invalid);
  EXPECT_EQ(code_of([](auto& o) { o.nodata = nodata_value(0.5); }), invalid);
  EXPECT_EQ(code_of([](auto& o) { o.meaning.transform = affine_transform{1, 1, 0, 1, 1, 0}; }), invalid);
  EXPECT_EQ(code_of([](auto& o) { o.meaning.transform = affine_transform{1, 0, INFINITY, 0, 1, 0}; }), invalid);
  EXPECT_EQ(code_of([](auto& o) { o.meaning.geo_keys = {{3072, std::uint64_t{65536}}}; }), invalid);
  EXPECT_EQ(code_of([](auto& o) { o.meaning.geo_keys = {{3072, std::vector<double>()}}; }), invalid);
  EXPECT_EQ(code_of([](auto& o) { o.meaning.geo_keys = {{1026, std::string(70000, 'a')}}; }), errc::unsupported);
  EXPECT_EQ(code_of([](auto& o) { o.meaning.metadata = {{"a", std::string(1, '\0')}}; }), invalid);
  EXPECT_EQ(code_of([](auto& o) { o.meaning.metadata = {{"a", "\xff"}}; }), invalid);
  EXPECT_EQ(code_of([](auto& o) { o.meaning.bands.resize(1); }), invalid);
  EXPECT_EQ(code_of([](auto& o) { o.colormap.resize(2); }), invalid);
  EXPECT_EQ(geo_keys_of({}).error().code(), invalid);
  coordinate_system user_defined;
  user_defined.epsg = 32767;
  EXPECT_EQ(geo_keys_of(user_defined).error().code(), errc::unsupported);
  EXPECT_EQ(epsg_system(2056).error().code(), errc::unsupported);
  EXPECT_EQ(epsg_system(4326)->of, coordinate_system::kind::geographic);
  EXPECT_EQ(epsg_system(32760)->of, coordinate_system::kind::projected);
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
