#include "format/tiff/tiff_overview.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace penstock {
namespace {

template <class T>
std::vector<T> halve(const std::vector<T>& from, std::uint64_t width, dtype_kind kind, bool average = true,
                     const T* nodata = nullptr) {
  const std::uint64_t rows = from.size() / width;
  std::vector<T> out((rows + 1) / 2 * ((width + 1) / 2));
  overview_rule rule{dtype(kind, sizeof(T) * 8), average, {}};
  if (nodata != nullptr) rule.nodata = std::as_bytes(std::span(nodata, 1));
  halve_rows(reinterpret_cast<std::byte*>(out.data()), (width + 1) / 2 * sizeof(T),
             reinterpret_cast<const std::byte*>(from.data()), static_cast<std::ptrdiff_t>(width * sizeof(T)), sizeof(T),
             rows, width, rule);
  return out;
}

TEST(TiffOverview, MeansAreRoundedHalvesUp) {
  using bytes = std::vector<std::uint8_t>;
  EXPECT_EQ(halve(bytes{1, 2, 2, 1}, 2, dtype_kind::unsigned_integer), bytes{2});
  EXPECT_EQ(halve(bytes{255, 255, 255, 254}, 2, dtype_kind::unsigned_integer), bytes{255});
  using shorts = std::vector<std::int16_t>;
  EXPECT_EQ(halve(shorts{-1, -2, -2, -1}, 2, dtype_kind::signed_integer), shorts{-1});
  EXPECT_EQ(halve(shorts{-1, -2, -2, -2}, 2, dtype_kind::signed_integer), shorts{-2});
  const std::int16_t nodata = -5;  // the same sums in another way
  EXPECT_EQ(halve(shorts{-1, -2, -2, -1}, 2, dtype_kind::signed_integer, true, &nodata), shorts{-1});
  EXPECT_EQ(halve(shorts{-1, -2, -5, -5}, 2, dtype_kind::signed_integer, true, &nodata), shorts{-1});
  EXPECT_EQ(halve(shorts{-2, -2, -3, -5}, 2, dtype_kind::signed_integer, true, &nodata), shorts{-2});
}

TEST(TiffOverview, TheLargestNumbersDoNotWrap) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(halve(std::vector<std::uint64_t>{kMost, kMost, kMost, kMost}, 2, dtype_kind::unsigned_integer)[0], kMost);
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(halve(std::vector<std::int64_t>{kLeast, kLeast, kLeast, kLeast}, 2, dtype_kind::signed_integer)[0], kLeast);
}

TEST(TiffOverview, OddEdgesAreMeansOfExistingPixels) {
  using floats = std::vector<float>;
  EXPECT_EQ(halve(floats{1, 2, 5, 3, 4, 7, 10, 20, 40}, 3, dtype_kind::floating), (floats{2.5F, 6, 15, 40}));
  EXPECT_EQ(halve(floats{1, 2, 5, 3, 4, 7, 10, 20, 40}, 3, dtype_kind::floating, false), (floats{1, 5, 10, 40}));
}

TEST(TiffOverview, NodataIsExcluded) {
  using floats = std::vector<float>;
  const float nan = std::nanf(""), nodata = -9;
  EXPECT_EQ(halve(floats{nan, 2, nan, 4}, 2, dtype_kind::floating)[0], 3);
  EXPECT_TRUE(std::isnan(halve(floats{nan, nan, nan, nan}, 2, dtype_kind::floating)[0]));
  EXPECT_EQ(halve(floats{-9, 2, nan, 4}, 2, dtype_kind::floating, true, &nodata)[0], 3);
  EXPECT_EQ(halve(floats{-9, nan, nan, -9}, 2, dtype_kind::floating, true, &nodata)[0], -9);
  EXPECT_EQ(halve(floats{-10, -8, -10, -8}, 2, dtype_kind::floating, true, &nodata)[0], -10);
}

TEST(TiffOverview, MaskedPixelsAreExcluded) {
  const std::vector<std::int16_t> from{1, 9, 4, 8, 3, 5, 6, 7, 20, 30, 40, 50};  // 4 columns
  const std::vector<std::uint8_t> mask{255, 0, 0, 0, 1, 1, 0, 0, 0, 255, 255, 255};
  std::vector<std::int16_t> out(4);
  const overview_rule rule{dtype(dtype_kind::signed_integer, 16), true, {}};
  const auto valid = std::as_bytes(std::span(mask));
  halve_rows(reinterpret_cast<std::byte*>(out.data()), 4, reinterpret_cast<const std::byte*>(from.data()), 8, 2, 3, 4,
             rule, valid.data(), 4);
  EXPECT_EQ(out, (std::vector<std::int16_t>{3, 6, 30, 45}));
  std::vector<std::byte> halved(4);
  halve_mask(halved.data(), valid.data(), 3, 4, true);
  EXPECT_EQ(halved, (std::vector<std::byte>{std::byte{255}, std::byte{0}, std::byte{255}, std::byte{255}}));
  halve_mask(halved.data(), valid.data(), 3, 4, false);
  EXPECT_EQ(halved, (std::vector<std::byte>{std::byte{255}, std::byte{0}, std::byte{0}, std::byte{255}}));
}

}  // namespace
}  // namespace penstock
