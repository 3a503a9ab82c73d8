#include <gtest/gtest.h>
#include <penstock/create.h>
#include <penstock/describe.h>
#include <penstock/place.h>
#include <penstock/tiles.h>

#include <filesystem>
#include <string>

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
    // Cut between its documents it says what a shorter one says: an array without them, which is looked up.
    if (!opened.ok()) {
      EXPECT_EQ(opened.error().code(), errc::corrupt_data) << n;
    }
  }
  EXPECT_FALSE(open_description("something else").ok());
}

TEST_F(Describe, RefusesArraysOfThisProcessAlone) {
  create_options options;
  options.shape = {2};
  options.dtype_json = "\"int8\"";
  auto made = create_array(std::shared_ptr<store>(make_memory_store()), options);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  auto described = describe(*made);
  ASSERT_FALSE(described.ok());
  EXPECT_EQ(described.error().code(), errc::unsupported);
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

TEST(Tiles, OfHugeAxesDoNotOverflow) {
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
