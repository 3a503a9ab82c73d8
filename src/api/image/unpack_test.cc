#include <penstock/unpack.h>

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include <penstock/open.h>
#include <penstock/tiff.h>
#include <penstock/tiff_writer.h>
#include "store/memory_store.h"

namespace penstock {
namespace {

constexpr std::uint64_t kSide = 32;

array scene(bool planar, bool with_mask, std::vector<new_band_meaning> bands) {
  tiff_create_options options;
  options.path = "x.tif";
  options.bands = 2;
  options.height = options.width = kSide;
  options.type = dtype(dtype_kind::signed_integer, 16);
  options.tile_height = options.tile_width = 16;
  options.planar = planar;
  options.mask = with_mask;
  options.nodata = nodata_value(std::int64_t{3});
  options.meaning.bands = std::move(bands);
  const auto to = std::make_shared<memory_store>();
  auto writer = tiff_writer::create(to, options);
  EXPECT_TRUE(writer.ok()) << writer.error().to_string();
  std::vector<std::int16_t> values(2 * kSide * kSide);
  std::iota(values.begin(), values.end(), std::int16_t{0});
  std::vector<std::uint8_t> valid(kSide * kSide, 255);
  valid[5] = 0;
  const tensor_view flags =
      tensor_view::contiguous(valid.data(), dtype(dtype_kind::unsigned_integer, 8), extents{kSide, kSide});
  const tensor_view pixels = tensor_view::contiguous(values.data(), options.type, extents{2, kSide, kSide});
  EXPECT_TRUE(writer->write(0, 0, pixels, with_mask ? &flags : nullptr).ok());
  EXPECT_TRUE(writer->close().ok());
  open_options where;
  where.path = "x.tif";
  return *open_tiff(to, where, {});
}

std::vector<new_band_meaning> scaled() {
  return {{std::nullopt, std::nullopt, 0.5, 1.0}, {std::nullopt, std::nullopt, 2.0, -1.0}};
}

template <class T>
std::vector<T> read(const unpacked_image& from, const selection& which) {
  const extents shape = *from.packed().result_shape(which);
  std::vector<T> out(*element_count(shape));
  const auto done = from.read(which, tensor_view::contiguous(out.data(), from.type(), shape));
  EXPECT_TRUE(done.ok()) << done.error().to_string();
  return out;
}

TEST(Unpack, EachBandHasItsScaleAndOffset) {
  for (const bool planar : {false, true}) {
    const auto image = unpacked_image::make(scene(planar, false, scaled()));
    ASSERT_TRUE(image.ok()) << image.error().to_string();
    EXPECT_EQ(image->type(), dtype(dtype_kind::floating, 64));
    const auto values = read<double>(*image, basic_selection{});
    EXPECT_EQ(values[2], 2.0);
    EXPECT_TRUE(std::isnan(values[3])) << "nodata";
    EXPECT_EQ(values[kSide * kSide], 2.0 * kSide * kSide - 1);
    const auto second = read<double>(*image, basic_selection{{slice{{}, {}, -1}, 1, slice{0, 2, {}}}});
    EXPECT_EQ(second, (std::vector<double>{2.0 * (kSide * kSide + kSide) - 1, 2.0 * (kSide * kSide + kSide + 1) - 1,
                                           kSide * 0.5 + 1, (kSide + 1) * 0.5 + 1}));
  }
}

TEST(Unpack, IntegersWithoutAScaleBecomeFloats) {
  const auto image = unpacked_image::make(scene(false, false, {}));
  ASSERT_TRUE(image.ok());
  EXPECT_EQ(image->type(), dtype(dtype_kind::floating, 32));
  const auto points = read<float>(*image, coordinate_selection{{{0, 1}, {0, 0}, {3, 4}}, extents{2}});
  EXPECT_TRUE(std::isnan(points[0]));
  EXPECT_EQ(points[1], kSide * kSide + 4) << "bands that are alike are unpacked by lists too";
}

TEST(Unpack, PixelsOutsideTheMaskAreNaN) {
  const auto image = unpacked_image::make(scene(false, true, scaled()));
  ASSERT_TRUE(image.ok()) << image.error().to_string();
  const auto values = read<double>(*image, basic_selection{{slice{}, 0, slice{3, 7, 2}}});
  EXPECT_EQ(values[0], 2.5) << "with a mask, nodata is a value";
  EXPECT_TRUE(std::isnan(values[1]));
  EXPECT_TRUE(std::isnan(values[3]));
  const auto whole = unpacked_image::make(image->packed(), false);
  EXPECT_EQ(read<double>(*whole, basic_selection{{0, 0, 5}})[0], 3.5);
  std::vector<double> out(2);
  const auto refused = image->read(coordinate_selection{{{0, 1}, {0, 0}, {3, 4}}, extents{2}},
                                   tensor_view::contiguous(out.data(), image->type(), extents{2}));
  EXPECT_EQ(refused.error().code(), errc::unsupported);
}

TEST(Unpack, OutputsOfAnotherTypeOrShapeAreRefused) {
  const auto image = unpacked_image::make(scene(false, false, scaled()));
  std::vector<double> out(4);
  const basic_selection which{{0, 0, slice{0, 4, {}}}};
  const dtype single(dtype_kind::floating, 32);
  EXPECT_FALSE(image->read(which, tensor_view::contiguous(out.data(), single, extents{4})).ok());
  EXPECT_FALSE(image->read(which, tensor_view::contiguous(out.data(), image->type(), extents{3})).ok());
}

}  // namespace
}  // namespace penstock
