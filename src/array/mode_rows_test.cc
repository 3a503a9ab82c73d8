#include "array/mode_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace penstock::inline v0 {
namespace {

// The definition: counts each of the four pixels.
template <class T>
T slow_mode(const T (&four)[4]) {
  T best = four[0];
  std::ptrdiff_t most = 0;
  for (const T each : four) {
    const std::ptrdiff_t here = std::count(std::begin(four), std::end(four), each);
    if (here > most) {
      most = here;
      best = each;
    }
  }
  return best;
}

/// \param step  Items between pixels. \param is_reversed  Rows are stored from the last to the first.
template <class T>
void expect_modes(std::size_t rows, std::size_t width, std::size_t step, bool is_reversed, T values) {
  std::mt19937 random(static_cast<unsigned>(rows * 1000 + width * 10 + step));
  std::vector<T> stored(rows * width * step);
  // Values that differ in their highest bits only.
  for (T& each : stored) each = static_cast<T>(static_cast<T>(random() % values) << (8 * sizeof(T) - 3));
  const auto place = [&](std::size_t y, std::size_t x) {
    return (is_reversed ? rows - 1 - y : y) * width * step + x * step;
  };
  std::vector<T> expected;
  for (std::size_t y = 0; y < rows; y += 2) {
    for (std::size_t x = 0; x < width; x += 2) {
      const std::size_t v = std::min(y + 1, rows - 1), u = std::min(x + 1, width - 1);
      const T four[] = {stored[place(y, x)], stored[place(y, u)], stored[place(v, x)], stored[place(v, u)]};
      expected.push_back(slow_mode(four));
    }
  }
  const T mark = 0x5A;
  std::vector<T> made(expected.size() + 1, mark);
  const auto row = static_cast<std::ptrdiff_t>(width * step * sizeof(T)) * (is_reversed ? -1 : 1);
  halve_by_mode(reinterpret_cast<std::byte*>(made.data()),
                reinterpret_cast<const std::byte*>(stored.data() + place(0, 0)), row,
                static_cast<std::ptrdiff_t>(step * sizeof(T)), rows, width, sizeof(T));
  EXPECT_EQ(made.back(), mark) << "nothing is written after the last row";
  made.pop_back();
  EXPECT_EQ(made, expected) << rows << " x " << width << ", " << step << " items between pixels, " << sizeof(T);
}

template <class T>
void expect_all_shapes() {
  const std::size_t block = 512 / sizeof(T);
  for (const std::size_t rows : {1, 2, 3, 6}) {
    for (const std::size_t width :
         {std::size_t{1}, std::size_t{2}, std::size_t{5}, block - 1, block, block + 1, block + 2, 2 * block + 37}) {
      expect_modes<T>(rows, width, 1, false, 3);
      expect_modes<T>(rows, width, 3, true, 2);
    }
  }
}

TEST(ModeRows, TakesTheMostFrequentOfFourPixels) {
  expect_all_shapes<std::uint8_t>();
  expect_all_shapes<std::uint16_t>();
  expect_all_shapes<std::uint32_t>();
  expect_all_shapes<std::uint64_t>();
}

TEST(ModeRows, TakesTheFirstOfSeveral) {
  const std::uint16_t four[][4] = {{1, 2, 3, 4}, {1, 2, 1, 2}, {1, 2, 2, 1}, {1, 1, 2, 2}, {1, 2, 3, 3}, {1, 2, 3, 2}};
  const std::uint16_t expected[] = {1, 1, 1, 1, 3, 2};
  for (std::size_t i = 0; i < std::size(four); ++i) {
    std::uint16_t mode = 0;
    halve_by_mode(reinterpret_cast<std::byte*>(&mode), reinterpret_cast<const std::byte*>(four[i]), 4, 2, 2, 2, 2);
    EXPECT_EQ(mode, expected[i]) << i;
  }
}

}  // namespace
}  // namespace penstock::inline v0
