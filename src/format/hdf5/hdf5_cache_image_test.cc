#include "format/hdf5/hdf5_cache_image.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "format/hdf5/hdf5_pages.h"

namespace penstock::inline v0 {
namespace {

/// A file of 512 bytes with a superblock extension and an image, without checksums.
class file_with_image {
 public:
  struct block {
    std::uint64_t address = 0;
    std::vector<int> bytes;
  };

  explicit file_with_image(const std::vector<block>& blocks) {
    constexpr std::size_t kExtension = 48, kImage = 200;
    text("\x89HDF\r\n\x1a\n");
    for (const std::uint64_t each : {2U, 8U, 8U, 0U}) number(each, 1);  // version, widths, flags
    for (const std::uint64_t each : {std::size_t{0}, kExtension, bytes_.size(), std::size_t{400}}) number(each, 8);
    at_ = kImage;
    text("MDCI");
    number(0, 10);
    number(blocks.size(), 4);
    for (const block& each : blocks) {
      number(0, 8);  // kind, children
      number(1, 2);  // parents
      number(0, 4);
      number(each.address, 8);
      number(each.bytes.size(), 8);
      number(0, 8);  // the parent
      for (const int one : each.bytes) number(static_cast<std::uint64_t>(one), 1);
    }
    const std::size_t length = at_ + 4 - kImage;
    at_ = kExtension;
    text("OHDR");
    for (const std::uint64_t each : {2U, 0U, 21U, 0x18U, 17U, 0U, 0U, 0U}) number(each, 1);  // one message of 17 bytes
    number(kImage, 8);
    number(length, 8);
  }
  hdf5_pages pages() const {
    hdf5_pages out(bytes_.size(), 512);
    EXPECT_TRUE(out.add({0, bytes_.size(), false}, bytes_).ok());
    return out;
  }

 private:
  void text(std::string_view value) {
    for (const char each : value) bytes_[at_++] = static_cast<std::byte>(each);
  }
  void number(std::uint64_t value, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i) bytes_[at_++] = static_cast<std::byte>(i < 8 ? value >> (8 * i) : 0);
  }

  std::vector<std::byte> bytes_ = std::vector<std::byte>(512);
  std::size_t at_ = 0;
};

std::vector<int> read(hdf5_file& file, std::uint64_t address, std::uint64_t length) {
  std::vector<int> out;
  const auto bytes = file.at(address, length);
  EXPECT_TRUE(bytes.ok());
  if (bytes.ok())
    for (const std::byte each : *bytes) out.push_back(static_cast<int>(each));
  return out;
}

TEST(Hdf5CacheImage, BlocksReplaceTheBytesAtTheirAddresses) {
  hdf5_pages pages = file_with_image({{110, {5, 6}}, {100, {1, 2, 3, 4}}}).pages();
  auto file = hdf5_file::open(pages, hdf5_checksums::ignored);
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  EXPECT_EQ(read(*file, 100, 4), (std::vector<int>{0, 0, 0, 0}));
  ASSERT_TRUE(read_hdf5_cache_image(*file).ok());
  EXPECT_TRUE(file->has_cache_image());
  EXPECT_EQ(read(*file, 100, 4), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(read(*file, 101, 2), (std::vector<int>{2, 3}));
  EXPECT_EQ(read(*file, 98, 3), (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(read(*file, 103, 9), (std::vector<int>{4, 0, 0, 0, 0, 0, 0, 5, 6}));
  EXPECT_EQ(read(*file, 111, 3), (std::vector<int>{6, 0, 0}));
  EXPECT_EQ(read(*file, 104, 2), (std::vector<int>{0, 0}));
}

TEST(Hdf5CacheImage, BlocksThatOverlapOrHaveNoBytesAreErrors) {
  for (const auto& blocks : {std::vector<file_with_image::block>{{100, {1, 2, 3}}, {102, {4}}},
                             std::vector<file_with_image::block>{{100, {}}}}) {
    hdf5_pages pages = file_with_image(blocks).pages();
    auto file = hdf5_file::open(pages, hdf5_checksums::ignored);
    ASSERT_TRUE(file.ok());
    const auto made = read_hdf5_cache_image(*file);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code(), errc::corrupt_data);
  }
}

}  // namespace
}  // namespace penstock::inline v0
