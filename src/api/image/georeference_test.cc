#include <penstock/georeference.h>
#include <penstock/open.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <penstock/tiff.h>
#include <penstock/tiff_writer.h>
#include "store/file_store.h"

namespace penstock {
namespace {

constexpr std::uint64_t kSide = 64;

template <class T>
tiff_tag tag_of(std::uint16_t number, std::uint16_t type, const std::vector<T>& values) {
  tiff_tag out{number, type, values.size(), std::vector<std::byte>(values.size() * sizeof(T))};
  std::memcpy(out.value.data(), values.data(), out.value.size());
  return out;
}

tiff_tag text_tag(std::uint16_t number, const std::string& text) {
  return tag_of<char>(number, 2, {text.c_str(), text.c_str() + text.size() + 1});
}

const char* const kMetadata =
    "<GDALMetadata><Item name='A'>1</Item><Item name='SCALE' sample='1' role='scale'>0.5</Item>"
    "<Item name='UNITTYPE' sample='0' role='unittype'>m</Item></GDALMetadata>";

// A folder with `x.tif` of `bands` bands of uint8 and two overviews.
class Georeference : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = std::filesystem::temp_directory_path() / fmt::format("penstock_georeference_{}_{}", ::getpid(), name);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(std::uint64_t bands, std::vector<tiff_tag> tags, std::vector<std::uint16_t> extra = {}) {
    tiff_create_options options;
    options.path = "x.tif";
    options.overwrite = true;
    options.bands = bands;
    options.height = options.width = kSide;
    options.type = dtype(dtype_kind::unsigned_integer, 8);
    options.tile_height = options.tile_width = 16;
    options.extra_samples = std::move(extra);
    options.tags = std::move(tags);
    auto writer = tiff_writer::create(std::make_shared<file_store>(folder_.string()), options);
    ASSERT_TRUE(writer.ok()) << writer.error().to_string();
    ASSERT_TRUE(writer->close().ok());
  }
  void write_text(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }

  array opened(const tiff_options& image = {}) {
    auto first = open_array((folder_ / "x.tif").string());
    EXPECT_TRUE(first.ok()) << first.error().to_string();
    auto made = open_tiff(*first, image);
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    return *made;
  }

  std::filesystem::path folder_;
};

std::vector<tiff_tag> placed() {
  return {tag_of<double>(33550, 12, {2, 3, 0}), tag_of<double>(33922, 12, {0, 0, 0, 100, 200, 0}),
          tag_of<std::uint16_t>(34735, 3, {1, 1, 0, 2, 1025, 0, 1, 2, 3072, 0, 1, 32633}), text_tag(42112, kMetadata),
          text_tag(42113, "7")};
}

TEST_F(Georeference, ReadsPositionsAndValuesFromTags) {
  write(2, placed());
  const georeference found = georeference_of(opened());
  EXPECT_TRUE(found.is_known());
  EXPECT_EQ(**found.transform(), (affine_transform{2, 0, 99, 0, -3, 201.5}));  // of points: moved by half a pixel
  EXPECT_EQ((*found.bounds())->right, 99 + 2.0 * kSide);
  EXPECT_EQ(**found.epsg(), 32633U);
  EXPECT_EQ(*found.area_or_point(), pixel_extent::point);
  EXPECT_EQ(found.metadata(), (metadata_items{{"A", "1"}}));
  EXPECT_TRUE(found.gcps()->empty());
  EXPECT_FALSE(found.rpcs()->has_value());
  const std::vector<band_meaning> bands = found.bands();
  ASSERT_EQ(bands.size(), 2U);
  EXPECT_EQ(bands[0].unit, "m");
  EXPECT_EQ(bands[0].scale, 1);
  EXPECT_EQ(bands[1].scale, 0.5);
  EXPECT_EQ(bands[1].nodata, nodata_value(std::int64_t{7}));
  EXPECT_EQ(*found.colors(), (std::vector<std::string>{"gray", "undefined"}));
}

TEST_F(Georeference, OverviewsHaveLargerPixels) {
  write(2, placed());
  tiff_options image;
  image.level = 1;
  image.bands = {1};
  const georeference found = georeference_of(opened(image));
  EXPECT_EQ(**found.transform(), (affine_transform{4, 0, 99, 0, -6, 201.5}));
  ASSERT_EQ(found.bands().size(), 1U);
  EXPECT_EQ(found.bands()[0].number, 1U);
  EXPECT_EQ(found.bands()[0].scale, 0.5);
}

TEST_F(Georeference, SidecarFilesTakePrecedence) {
  write(2, placed());
  write_text("x.tif.aux.xml",
             "<PAMDataset><SRS>EPSG:4326</SRS><GeoTransform>0,1,0,0,0,-1</GeoTransform><PAMRasterBand band='2'>"
             "<NoDataValue>300</NoDataValue></PAMRasterBand></PAMDataset>");
  const georeference found = georeference_of(opened());
  EXPECT_EQ(**found.transform(), (affine_transform{1, 0, 0, 0, -1, 0}));
  EXPECT_EQ(**found.epsg(), 4326U);
  EXPECT_EQ(*found.crs_text(), "EPSG:4326");
  EXPECT_EQ(found.bands()[0].nodata, nodata_value(std::int64_t{7}));
  EXPECT_EQ(found.bands()[1].nodata, nodata_value(std::int64_t{300}));
  EXPECT_EQ(found.bands()[1].held_nodata, std::nullopt);
}

TEST_F(Georeference, WorldFilesAreForImagesWithoutATransform) {
  write(1, {});
  EXPECT_FALSE(georeference_of(opened()).transform()->has_value());
  write_text("x.tfw", "10\n0\n0\n-10\n105\n195\n");
  EXPECT_EQ(**georeference_of(opened()).transform(), (affine_transform{10, 0, 100, 0, -10, 200}));
}

TEST_F(Georeference, ADamagedTagDoesNotAffectTheOthers) {
  std::vector<tiff_tag> tags = placed();
  tags[0] = text_tag(33550, "x");
  write(2, tags);
  const georeference found = georeference_of(opened());
  ASSERT_FALSE(found.transform().ok());
  EXPECT_EQ(found.transform().error().code(), errc::corrupt_data);
  EXPECT_EQ(found.transform().error().message(), "tag 33550 (ModelPixelScale) is not numbers but 'x'");
  EXPECT_EQ(**found.epsg(), 32633U);
}

TEST_F(Georeference, OtherArraysHaveNone) {
  constexpr std::string_view kNpy(
      "\x93NUMPY\x01\x00\x46\x00{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1), }             \n\x01", 81);
  write_text("x.npy", std::string(kNpy));
  const auto other = open_array((folder_ / "x.npy").string());
  ASSERT_TRUE(other.ok()) << other.error().to_string();
  const georeference found = georeference_of(*other);
  EXPECT_FALSE(found.is_known());
  EXPECT_FALSE(found.transform()->has_value());
  EXPECT_TRUE(found.bands().empty());
  EXPECT_FALSE(validity_of(*other, found)->is_partial());
}

TEST_F(Georeference, NodataAlphaOrAMaskDefineMissingPixels) {
  write(2, placed());
  array image = opened();
  const auto by_nodata = validity_of(image, georeference_of(image));
  ASSERT_TRUE(by_nodata.ok());
  EXPECT_TRUE(by_nodata->is_partial());
  EXPECT_FALSE(by_nodata->mask.has_value());
  EXPECT_EQ(by_nodata->nodata[1], nodata_value(std::uint64_t{7}));

  write(2, {}, {2});
  image = opened();
  const auto by_alpha = validity_of(image, georeference_of(image));
  ASSERT_TRUE(by_alpha.ok());
  EXPECT_TRUE(by_alpha->is_alpha && by_alpha->mask_is_of_all_bands());
  EXPECT_EQ(by_alpha->alpha_band, 1U);
  EXPECT_EQ(by_alpha->masked, (std::vector<bool>{true, false}));

  write(1, {});
  image = opened();
  EXPECT_FALSE(validity_of(image, georeference_of(image))->is_partial());
}

}  // namespace
}  // namespace penstock
