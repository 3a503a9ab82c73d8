#include "format/hdf5/hdf5_pages.h"

#include <gtest/gtest.h>

#include <numeric>

namespace penstock::inline v0 {
namespace {

std::vector<std::byte> numbered(std::size_t count) {
  std::vector<std::byte> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::byte>(i * 7);
  return out;
}

TEST(Hdf5Pages, ReadsAcrossPagesOnceTheyAreFetched) {
  const auto file = numbered(1000);
  hdf5_pages pages(file.size(), 64);
  EXPECT_FALSE(pages.read(60, 100).ok());
  EXPECT_TRUE(pages.waiting());
  const auto missing = pages.take_missing();
  ASSERT_EQ(missing, (std::vector<byte_range>{{0, 192, false}}));
  EXPECT_FALSE(pages.waiting());
  ASSERT_TRUE(pages.add(missing[0], std::span(file).first(192)).ok());
  const auto read = pages.read(60, 100);
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(std::equal(read->begin(), read->end(), file.begin() + 60, file.begin() + 160));
  EXPECT_EQ(pages.fetched_bytes(), 192U);
  const auto copied = pages.copy(60, 100);
  ASSERT_TRUE(copied);
  EXPECT_TRUE(std::equal(copied->begin(), copied->end(), file.begin() + 60, file.begin() + 160));
  EXPECT_FALSE(pages.copy(100, 100));
  EXPECT_FALSE(pages.copy(990, 11));
}

TEST(Hdf5Pages, FusesRangesAcrossShortGapsAndEndsWithTheFile) {
  hdf5_pages pages(1000, 64);
  pages.expect(0, 1);
  pages.expect(130, 1);    // the page at 128: 64 bytes after the first
  pages.expect(970, 900);  // the last page is short
  EXPECT_EQ(pages.take_missing({.most_gap = 64}), (std::vector<byte_range>{{0, 192, false}, {960, 40, false}}));
  pages.expect(0, 1);
  pages.expect(130, 1);
  EXPECT_EQ(pages.take_missing({.most_gap = 63}), (std::vector<byte_range>{{0, 64, false}, {128, 64, false}}));
}

TEST(Hdf5Pages, FetchesAheadAsLongAsMostOfItIsUsed) {
  constexpr std::uint64_t kPage = 64;
  const auto file = numbered(64 * kPage);
  const hdf5_ahead ahead{.most_after = 2 * kPage, .allowance = 2 * kPage};
  hdf5_pages pages(file.size(), kPage);
  const auto fetch = [&] {
    const auto ranges = pages.take_missing(ahead);
    for (const byte_range& each : ranges)
      EXPECT_TRUE(pages.add(each, std::span(file).subspan(each.offset, each.length)).ok());
    return ranges;
  };
  pages.expect(0, 1);
  EXPECT_EQ(fetch(), (std::vector<byte_range>{{0, 3 * kPage, false}}));
  ASSERT_TRUE(pages.read(0, 1).ok());
  // One of three pages is used, and four more are missing: 2 x 5 and 2 may be fetched, and 7 are.
  for (std::uint64_t i = 1; i <= 4; ++i) pages.expect(i * 10 * kPage, 1);
  EXPECT_EQ(fetch(), (std::vector<byte_range>{{10 * kPage, 2 * kPage, false},
                                              {20 * kPage, 2 * kPage, false},
                                              {30 * kPage, 2 * kPage, false},
                                              {40 * kPage, 2 * kPage, false}}));
  // None of that is used, so only the missing pages are fetched.
  pages.expect(50 * kPage, 1);
  EXPECT_EQ(fetch(), (std::vector<byte_range>{{50 * kPage, kPage, false}}));
  EXPECT_EQ(pages.fetched_bytes(), 12 * kPage);
  // Cached pages are not fetched again, and pages beyond the file never are.
  ASSERT_TRUE(pages.read(10 * kPage, 2 * kPage).ok());
  ASSERT_TRUE(pages.read(20 * kPage, 2 * kPage).ok());
  ASSERT_TRUE(pages.read(30 * kPage, 2 * kPage).ok());
  ASSERT_TRUE(pages.read(40 * kPage, 2 * kPage).ok());
  pages.expect(48 * kPage, 1);
  pages.expect(63 * kPage, 1);
  EXPECT_EQ(fetch(), (std::vector<byte_range>{{48 * kPage, 2 * kPage, false}, {63 * kPage, kPage, false}}));
}

TEST(Hdf5Pages, FetchesTheRestOfTheAllowanceBeforeARange) {
  constexpr std::uint64_t kPage = 64;
  const hdf5_ahead ahead{.most_after = 2 * kPage, .most_before = 2 * kPage, .allowance = 2 * kPage};
  hdf5_pages pages(100 * kPage, kPage);
  pages.expect(10 * kPage, 1);  // 2 x 1 and 2 pages may be fetched
  EXPECT_EQ(pages.take_missing(ahead), (std::vector<byte_range>{{9 * kPage, 4 * kPage, false}}));
  pages.expect(0, 1);
  pages.expect(20 * kPage, kPage + 1);
  const hdf5_ahead more{.most_before = 2 * kPage, .allowance = 4 * kPage};
  EXPECT_EQ(pages.take_missing(more), (std::vector<byte_range>{{0, kPage, false}, {18 * kPage, 4 * kPage, false}}));
}

TEST(Hdf5Pages, FetchesARangeThatMayBeNeededWithMissingPagesWithinTheAllowance) {
  constexpr std::uint64_t kPage = 64;
  const hdf5_ahead ahead{.allowance = 10 * kPage};
  hdf5_pages pages(100 * kPage, kPage);
  pages.hope(20 * kPage, kPage);
  EXPECT_FALSE(pages.waiting());
  EXPECT_TRUE(pages.take_missing(ahead).empty());
  pages.expect(20 * kPage, 1);  // 2 x 1 and 10 pages may be fetched
  pages.hope(20 * kPage + 1, 5 * kPage);
  pages.hope(40 * kPage, 7 * kPage);  // too long: 5 pages are left
  pages.hope(98 * kPage, 50 * kPage);
  EXPECT_EQ(pages.take_missing(ahead),
            (std::vector<byte_range>{{20 * kPage, 6 * kPage, false}, {98 * kPage, 2 * kPage, false}}));
  pages.expect(0, 1);
  EXPECT_EQ(pages.take_missing(ahead), (std::vector<byte_range>{{0, kPage, false}}));
  // With whole pages of the file, which have metadata only, nothing else is fetched.
  pages.expect(0, 1);
  pages.hope(64 * kPage, kPage);
  EXPECT_EQ(pages.take_missing({.file_page = 16 * kPage, .allowance = 100 * kPage}),
            (std::vector<byte_range>{{0, 16 * kPage, false}}));
}

TEST(Hdf5Pages, FetchesTheFrontOfAFileAndPagesOfTheFileWhole) {
  constexpr std::uint64_t kPage = 64;
  hdf5_pages pages(100 * kPage, kPage);
  ASSERT_TRUE(pages.add({0, kPage, false}, numbered(kPage)).ok());
  pages.expect(5 * kPage, 1);
  pages.expect(50 * kPage, 1);
  EXPECT_EQ(pages.take_missing({.front = 10 * kPage}),
            (std::vector<byte_range>{{kPage, 9 * kPage, false}, {50 * kPage, kPage, false}}));
  pages.expect(10 * kPage, 1);
  EXPECT_EQ(pages.take_missing({.front = 10 * kPage}), (std::vector<byte_range>{{10 * kPage, kPage, false}}));
  // Two ranges in one page of the file, and one in the last, which is shorter.
  pages.expect(17 * kPage, 1);
  pages.expect(30 * kPage, 1);
  pages.expect(97 * kPage, 1);
  EXPECT_EQ(pages.take_missing({.file_page = 16 * kPage, .allowance = 100 * kPage}),
            (std::vector<byte_range>{{16 * kPage, 16 * kPage, false}, {96 * kPage, 4 * kPage, false}}));
  // Too many ranges: only the missing pages are fetched.
  for (std::uint64_t i = 1; i < 6; ++i) pages.expect(i * 16 * kPage, 1);
  EXPECT_EQ(pages.take_missing({.file_page = 16 * kPage}).size(), 5U);
  EXPECT_TRUE(pages.take_missing({.file_page = 16 * kPage}).empty());
}

TEST(Hdf5Rounds, FetchesEverythingOfALevelAtOnce) {
  const auto file = numbered(4096);
  hdf5_pages pages(file.size(), 64);
  std::size_t rounds = 0, ranges_seen = 0;
  const auto fetch = [&](std::span<const byte_range> ranges) -> result<> {
    ++rounds;
    ranges_seen += ranges.size();
    for (const byte_range& each : ranges)
      PENSTOCK_TRY(pages.add(each, std::span(file).subspan(each.offset, each.length)));
    return {};
  };
  // Two levels: a head, then ten places that the head names.
  const auto parse = [&]() -> result<std::size_t> {
    PENSTOCK_TRY(pages.read(0, 8));
    std::size_t sum = 0;
    for (std::size_t i = 1; i <= 10; ++i) {
      const auto read = pages.read(i * 256, 1);
      if (read.ok()) sum += static_cast<std::size_t>((*read)[0]);
    }
    return sum;
  };
  const auto sum = parse_hdf5_in_rounds(pages, {}, parse, fetch);
  ASSERT_TRUE(sum.ok());
  std::size_t expected = 0;
  for (std::size_t i = 1; i <= 10; ++i) expected += static_cast<std::size_t>(file[i * 256]);
  EXPECT_EQ(*sum, expected);
  EXPECT_EQ(rounds, 2U);
  EXPECT_EQ(ranges_seen, 11U);
}

TEST(Hdf5Rounds, EndWhenAFetchAddsNothing) {
  hdf5_pages pages(100, 64);
  const auto made = parse_hdf5_in_rounds(
      pages, {}, [&] { return pages.read(0, 10); }, [](std::span<const byte_range>) { return result<>(); });
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code(), errc::io_error);
}

TEST(Hdf5Rounds, RefuseARangeThatIsShorterThanItsPages) {
  hdf5_pages pages(100, 64);
  EXPECT_FALSE(pages.add({0, 64, false}, numbered(63)).ok());
}

}  // namespace
}  // namespace penstock::inline v0
