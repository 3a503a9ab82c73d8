#include <gtest/gtest.h>
#include <penstock/create.h>
#include <penstock/describe.h>
#include <penstock/open.h>
#include <penstock/place.h>
#include <penstock/shards.h>
#include <penstock/tiles.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace penstock::inline v0 {
namespace {

class Describe : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "/penstock-describe.zarr";
    std::filesystem::remove_all(path_);
    create_options options;
    options.shape = {7, 3};
    options.dtype_json = "\"int16\"";
    options.chunks = extents{2, 3};
    auto made = create_array(find_place(path_)->store, options);
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    auto described = describe(*made);
    ASSERT_TRUE(described.ok()) << described.error().to_string();
    text_ = *described;
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

  std::string path_, text_;
};

TEST_F(Describe, OpensTheSameArrayWithoutReadingItsMetadata) {
  std::filesystem::remove(path_ + "/zarr.json");
  auto opened = open_description(text_);
  ASSERT_TRUE(opened.ok()) << opened.error().to_string();
  EXPECT_EQ(opened->shape(), (extents{7, 3}));
  EXPECT_EQ(opened->chunks(), (extents{2, 3}));
  EXPECT_NE(opened->uri().find("penstock-describe.zarr"), std::string::npos);
}

TEST_F(Describe, RefusesEveryTruncation) {
  for (std::size_t n = 0; n < text_.size(); ++n) {
    auto opened = open_description(std::string_view(text_).substr(0, n));
    // Cut between its documents it equals a shorter one: of an array without them, which is looked up.
    if (!opened.ok()) {
      EXPECT_EQ(opened.error().code(), errc::corrupt_data) << n;
    }
  }
  EXPECT_FALSE(open_description("something else").ok());
}

TEST_F(Describe, RefusesArraysThatOnlyThisProcessHas) {
  create_options options;
  options.shape = {2};
  options.dtype_json = "\"int8\"";
  auto made = create_array(std::shared_ptr<store>(make_memory_store()), options);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  auto described = describe(*made);
  ASSERT_FALSE(described.ok());
  EXPECT_EQ(described.error().code(), errc::unsupported);
}

class DescribeFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    for (int i = 0; i < 3; ++i) std::ofstream(path(i), std::ios::binary) << std::string(8, static_cast<char>('a' + i));
    how_.raw.emplace();
    how_.raw->dtype = "|u1";
    how_.raw->row_shape = extents{4};
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(int i) const { return folder_ + "/s_" + std::to_string(i) + ".raw"; }

  static std::string read(const array& from) {
    std::string out(static_cast<std::size_t>(from.shape()[0] * from.shape()[1]), '-');
    const auto view = tensor_view::contiguous(reinterpret_cast<std::byte*>(out.data()), from.type(), from.shape());
    const auto done = from.read(basic_selection{}, view);
    return done.ok() ? out : done.error().to_string();
  }

  std::string folder_ = testing::TempDir() + "/penstock describe %41 files";
  shard_options how_;
};

TEST_F(DescribeFiles, OpensManyFilesWithoutQueryingThem) {
  auto opened = open_shards(open_file_store(folder_), {"s_0.raw", "s_1.raw", "s_2.raw"}, how_);
  ASSERT_TRUE(opened.ok()) << opened.error().to_string();
  auto text = describe(*opened);
  ASSERT_TRUE(text.ok()) << text.error().to_string();
  auto again = open_description(*text);
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(again->uri(), opened->uri());
  EXPECT_EQ(read(*again), "aaaaaaaabbbbbbbbcccccccc");
  std::filesystem::remove(path(1));
  auto without = open_description(*text);
  ASSERT_TRUE(without.ok()) << without.error().to_string();
  EXPECT_NE(read(*without).find("s_1.raw"), std::string::npos);
  for (std::size_t n = 0; n < text->size(); ++n) {
    auto cut = open_description(std::string_view(*text).substr(0, n));
    // Cut after the URI it is a shorter description, of a node that is looked up and does not exist.
    EXPECT_FALSE(cut.ok()) << n;
  }
}

TEST_F(DescribeFiles, ReportsAbsentFiles) {
  auto opened = open_shards(open_file_store(folder_), {"s_0.raw", "s_1.raw", "s_2.raw"}, how_);
  ASSERT_TRUE(opened.ok());
  auto manifest = save_manifest(*opened, folder_, manifest_form::binary);
  ASSERT_TRUE(manifest.ok());
  std::filesystem::remove(path(1));
  auto filled = open_manifest(open_file_store(folder_), *manifest, nullptr, missing_shards::fill);
  ASSERT_TRUE(filled.ok());
  auto text = describe(*filled);
  ASSERT_TRUE(text.ok());
  auto again = open_description(*text);
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(read(*again), "aaaaaaaa" + std::string(8, '\0') + "cccccccc");
}

TEST(DescribeReferences, OpensTheSameReferencesWithoutTheirManifest) {
  const std::string manifest = testing::TempDir() + "/penstock-describe.shards";
  std::filesystem::copy_file(PENSTOCK_SOURCE_DIR "/tests/data/fuzz/saved_references/contiguous", manifest,
                             std::filesystem::copy_options::overwrite_existing);
  auto opened = open_array(manifest);
  ASSERT_TRUE(opened.ok()) << opened.error().to_string();
  auto text = describe(*opened);
  ASSERT_TRUE(text.ok()) << text.error().to_string();
  std::filesystem::remove(manifest);
  auto again = open_description(*text);
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(again->shape(), (extents{14, 3}));
  EXPECT_EQ(again->format(), "hdf5");
}

TEST(Tiles, CoverAnAxisOnce) {
  for (std::uint64_t length = 0; length < 40; ++length) {
    for (std::uint64_t processors = 1; processors < 45; ++processors) {
      const auto cut = tile_axis(length, processors);
      ASSERT_TRUE(cut.ok());
      std::uint64_t at = 0;
      for (std::uint64_t i = 0; i < cut->count; ++i) {
        EXPECT_EQ(cut->begin(i), at);
        EXPECT_TRUE(cut->end(i) > at || length == 0);
        at = cut->end(i);
      }
      EXPECT_EQ(at, length);
      EXPECT_LE(cut->count, processors);
      for (std::uint64_t i = cut->count; i < processors; ++i) EXPECT_EQ(cut->begin(i), cut->end(i));
    }
  }
}

TEST(Tiles, HugeAxesDoNotOverflow) {
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  const auto cut = tile_axis(kMost, kMost, kMost);
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->end(cut->count - 1), kMost);
  EXPECT_EQ(tile_axis(kMost, 2)->end(1), kMost);
  EXPECT_FALSE(tile_axis(1, 0).ok());
  EXPECT_FALSE(tile_axis(1, 1, 0).ok());
}

}  // namespace
}  // namespace penstock::inline v0
