#include "format/tiff/tiff_new_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "format/tiff/tiff_parser.h"

namespace penstock {
namespace {

tiff_new_directory directory(std::uint32_t width, std::vector<std::uint32_t> tile_bytes, bool overview) {
  tiff_new_directory out;
  if (overview) out.tags.push_back(long_tag(254, 1));
  const auto one = [&](std::uint16_t tag, std::uint16_t value) {
    out.tags.push_back(short_tag(tag, std::span(&value, 1)));
  };
  out.tags.push_back(long_tag(256, width));
  one(257, 16);
  one(258, 8);
  one(259, 1);
  one(262, 1);
  one(277, 1);
  one(322, 16);
  one(323, 16);
  out.tile_bytes = std::move(tile_bytes);
  return out;
}

struct parsed {
  tiff_details details;
  tiff_directory directory;
  tiff_file_view file;
};

result<parsed> parse(std::vector<std::byte> begin, std::uint64_t level) {
  parsed out;
  out.file.set_size(std::numeric_limits<std::int64_t>::max());
  out.file.add(0, std::move(begin));
  tiff_options options;
  options.level = level;
  tiff_parser parser(options);
  PENSTOCK_ASSIGN(const auto missing, parser.advance(out.file));
  if (missing) return error(errc::internal, "asks for " + to_string(*missing));
  out.details = parser.take_details();
  out.directory = parser.directory();
  return out;
}

std::vector<std::uint64_t> numbers(const parsed& from, tiff_id tag) {
  const tiff_entry* const entry = from.directory.find(tag);
  if (entry == nullptr) return {};
  const std::byte* const at = from.file.find(entry->offset, entry->bytes);
  std::vector<std::uint64_t> out;
  for (std::uint64_t i = 0; at != nullptr && i < entry->count; ++i)
    out.push_back(*tiff_integer({at, entry->bytes}, entry->type, i, false));
  return out;
}

TEST(TiffNewFile, TilesOfTheSmallestOverviewAreFirstEachBetweenItsLengthAndItsLastBytes) {
  const tiff_new_directory all[] = {directory(64, {100, 0, 5, 7}, false), directory(32, {30, 31}, true),
                                    directory(16, {9}, true)};
  for (const bool big : {false, true}) {
    auto begin = make_tiff_begin(all, big, false);
    ASSERT_TRUE(begin.ok()) << begin.error().to_string();
    const std::uint64_t data = begin->size();
    const auto image = parse(*begin, 0), first = parse(*begin, 1), second = parse(*begin, 2);
    ASSERT_TRUE(image.ok() && first.ok() && second.ok());
    EXPECT_EQ(image->details.big_tiff, big);
    EXPECT_EQ(image->details.companions.overviews.size(), 2U);
    EXPECT_EQ(numbers(*second, tiff_id::tile_offsets), std::vector<std::uint64_t>{data + 4});
    const std::uint64_t next = data + 4 + 9 + 4;
    EXPECT_EQ(numbers(*first, tiff_id::tile_offsets), (std::vector<std::uint64_t>{next + 4, next + 4 + 30 + 8}));
    const std::uint64_t last = next + 30 + 31 + 16;
    EXPECT_EQ(numbers(*image, tiff_id::tile_offsets),
              (std::vector<std::uint64_t>{last + 4, 0, last + 4 + 100 + 8, last + 4 + 100 + 8 + 5 + 8}));
    EXPECT_EQ(numbers(*image, tiff_id::tile_byte_counts), (std::vector<std::uint64_t>{100, 0, 5, 7}));
  }
}

TEST(TiffNewFile, TheStructureHasItsLengthAndIsFollowedByTheFirstDirectory) {
  const tiff_new_directory all[] = {directory(16, {9}, false)};
  for (const bool big : {false, true}) {
    for (const bool planar : {false, true}) {
      auto begin = make_tiff_begin(all, big, planar);
      ASSERT_TRUE(begin.ok());
      const std::string text(reinterpret_cast<const char*>(begin->data()), begin->size());
      const std::size_t header = big ? 16 : 8;
      EXPECT_EQ(text.substr(header, 43), planar ? "GDAL_STRUCTURAL_METADATA_SIZE=000156 bytes\n"
                                                : "GDAL_STRUCTURAL_METADATA_SIZE=000140 bytes\n");
      const std::size_t end = header + 43 + (planar ? 156 : 140);
      EXPECT_EQ(text.substr(end - 4, 4), "NO\n ");
      EXPECT_EQ(tiff_number<std::uint32_t>(begin->data() + (big ? 8 : 4), false), end + end % 2);
      const auto image = parse(*begin, 0);
      ASSERT_TRUE(image.ok());
      EXPECT_EQ(image->details.structure.substr(0, 24), "LAYOUT=IFDS_BEFORE_DATA\n");
    }
  }
}

TEST(TiffNewFile, FilesAboveFourGigabytesAreBig) {
  const std::uint32_t large = 1U << 31;
  tiff_new_directory all[] = {directory(32, {large, large - 1000}, false)};
  EXPECT_FALSE(needs_big_tiff(all, false));
  ASSERT_TRUE(make_tiff_begin(all, false, false).ok());
  all[0].tile_bytes[1] = large;
  EXPECT_TRUE(needs_big_tiff(all, false));
  const auto refused = make_tiff_begin(all, false, false);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), errc::unsupported);
  const auto begin = make_tiff_begin(all, true, false);
  ASSERT_TRUE(begin.ok());
  const auto image = parse(*begin, 0);
  ASSERT_TRUE(image.ok());
  EXPECT_EQ(numbers(*image, tiff_id::tile_offsets)[1], begin->size() + 4 + std::uint64_t{large} + 8);
  for (std::uint32_t bytes = large - 700; bytes < large; ++bytes) {
    all[0].tile_bytes[1] = bytes;
    EXPECT_EQ(make_tiff_begin(all, false, false).ok(), !needs_big_tiff(all, false)) << bytes;
  }
}

TEST(TiffNewFile, ATileIsMarkedWithItsLengthAndItsLastBytes) {
  std::byte room[4 + 6 + 4];
  for (std::size_t i = 0; i < sizeof(room); ++i) room[i] = static_cast<std::byte>(i + 1);
  mark_tile(std::span(room).subspan(4, 6));
  const std::uint8_t wanted[] = {6, 0, 0, 0, 5, 6, 7, 8, 9, 10, 7, 8, 9, 10};
  EXPECT_EQ(std::memcmp(room, wanted, sizeof(wanted)), 0);
}

}  // namespace
}  // namespace penstock
