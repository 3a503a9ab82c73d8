#include "array/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace penstock::inline v0 {
namespace {

/// A block within a larger region of memory: dimensions in any order, with gaps, in either direction.
struct block {
  std::vector<std::byte> memory;
  strides steps;
  std::size_t first = 0;  // position of the element at the origin

  std::byte* data() { return memory.data() + first; }
};

block random_block(std::mt19937_64& random, const extents& counts, std::uint32_t item, bool plain) {
  block out;
  const std::size_t rank = counts.size();
  std::vector<std::size_t> order(rank);
  for (std::size_t d = 0; d < rank; ++d) order[d] = rank - 1 - d;
  if (!plain && random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
  out.steps.resize(rank);
  std::uint64_t step = item;
  if (!plain && random() % 3 == 0) step += random() % 5;
  for (const std::size_t d : order) {
    out.steps[d] = static_cast<std::int64_t>(step);
    if (!plain && random() % 3 == 0) {
      out.steps[d] = -out.steps[d];
      if (counts[d] != 0) out.first += step * (counts[d] - 1);
    }
    step *= std::max<std::uint64_t>(counts[d], 1);
    if (!plain && random() % 3 == 0) step += random() % 9;
  }
  out.memory.resize(step + item);
  for (auto& each : out.memory) each = static_cast<std::byte>(random());
  return out;
}

// Copies every element by itself, in C order.
template <class Visit>
void for_each_element(const extents& counts, Visit visit) {
  dim_vector<std::uint64_t> at(counts.size(), 0);
  for (const std::uint64_t size : counts) {
    if (size == 0) return;
  }
  for (;;) {
    visit(at);
    std::size_t d = counts.size();
    for (;;) {
      if (d-- == 0) return;
      if (++at[d] < counts[d]) break;
      at[d] = 0;
    }
  }
}

std::int64_t offset(const dim_vector<std::uint64_t>& at, const strides& steps) {
  std::int64_t out = 0;
  for (std::size_t d = 0; d < at.size(); ++d) out += static_cast<std::int64_t>(at[d]) * steps[d];
  return out;
}

extents random_counts(std::mt19937_64& random) {
  extents counts(random() % 6);
  const std::uint64_t most = counts.size() <= 2 ? 70 : counts.size() == 3 ? 19 : 6;
  for (auto& each : counts) each = random() % 40 == 0 ? 0 : random() % 5 == 0 ? 1 : 1 + random() % most;
  return counts;
}

TEST(StridedCopy, EqualsACopyOfEachElement) {
  std::mt19937_64 random(6);
  struct type {
    std::uint32_t item, swap;
  };
  constexpr type kTypes[] = {{1, 1}, {2, 1}, {4, 1}, {8, 1}, {16, 1}, {3, 1},   {5, 0},  {40, 1}, {2, 2},
                             {4, 4}, {8, 8}, {8, 4}, {4, 2}, {16, 8}, {16, 16}, {12, 4}, {24, 8}, {6, 3}};
  for (int i = 0; i < 12000; ++i) {
    const type each = kTypes[random() % std::size(kTypes)];
    const extents counts = random_counts(random);
    const bool plain = random() % 4 == 0;
    block from = random_block(random, counts, each.item, plain);
    block to = random_block(random, counts, each.item, plain);
    std::vector<std::byte> expected = to.memory;
    for_each_element(counts, [&](const dim_vector<std::uint64_t>& at) {
      std::byte* const t = expected.data() + to.first + offset(at, to.steps);
      std::memcpy(t, from.data() + offset(at, from.steps), each.item);
      if (each.swap > 1) {
        for (std::uint32_t unit = 0; unit < each.item; unit += each.swap) std::reverse(t + unit, t + unit + each.swap);
      }
    });
    strided_copy(to.data(), to.steps, from.data(), from.steps, counts, each.item, each.swap);
    ASSERT_EQ(to.memory, expected) << "case " << i << ", item " << each.item << ", swap " << each.swap << ", counts "
                                   << to_string(counts);
  }
}

// Bands of an image, from pixels or to them: some of the bands, in rows with gaps.
void copy_bands(std::uint32_t item, std::uint32_t swap, std::size_t samples, std::size_t bands, std::size_t width,
                bool into_pixels) {
  constexpr std::size_t kRows = 3;
  const auto steps = [item](std::size_t x, std::size_t y, std::size_t band) {
    return strides{static_cast<std::int64_t>(band * item), static_cast<std::int64_t>(y * item),
                   static_cast<std::int64_t>(x * item)};
  };
  // Memory ends after the last sample, so that a sanitizer detects accesses beyond it.
  const std::size_t pixel_items = samples * (width * kRows - 1) + bands, plane = (width + 5) * kRows;
  const std::size_t plane_items = plane * (bands - 1) + (width + 5) * (kRows - 1) + width;
  const strides pixel_steps = steps(samples, samples * width, 1), plane_steps = steps(1, width + 5, plane);
  const strides &from_steps = into_pixels ? plane_steps : pixel_steps,
                &to_steps = into_pixels ? pixel_steps : plane_steps;
  std::vector<std::byte> from((into_pixels ? plane_items : pixel_items) * item);
  std::vector<std::byte> to((into_pixels ? pixel_items : plane_items) * item, std::byte{0xEE});
  std::mt19937_64 random(samples);
  for (auto& each : from) each = static_cast<std::byte>(random());
  const extents counts{bands, kRows, width};
  std::vector<std::byte> expected = to;
  for_each_element(counts, [&](const dim_vector<std::uint64_t>& at) {
    std::byte* const t = expected.data() + offset(at, to_steps);
    std::memcpy(t, from.data() + offset(at, from_steps), item);
    if (swap > 1) std::reverse(t, t + item);
  });
  strided_copy(to.data(), to_steps, from.data(), from_steps, counts, item, swap);
  ASSERT_EQ(to, expected) << "item " << item << ", swap " << swap << ", " << bands << " of " << samples << " samples, "
                          << width << " columns, into " << (into_pixels ? "pixels" : "bands");
}

TEST(StridedCopy, CopiesBandsFromPixelsAndToThem) {
  constexpr std::uint32_t kTypes[][2] = {{1, 1}, {2, 1}, {2, 2}, {4, 1}, {4, 4}, {8, 1}, {8, 8}};
  for (const auto& [item, swap] : kTypes) {
    for (std::size_t samples = 2; samples <= 9; ++samples) {
      for (const std::size_t width : {std::size_t{15}, std::size_t{16}, std::size_t{17}, std::size_t{100}}) {
        for (std::size_t bands = 1; bands <= samples; ++bands) {
          copy_bands(item, swap, samples, bands, width, false);
          copy_bands(item, swap, samples, bands, width, true);
        }
      }
    }
  }
}

TEST(StridedCopy, RepeatsAnElementWhoseStrideIs0) {
  const std::uint16_t row[3] = {1, 2, 3};
  std::uint16_t out[2][3] = {};
  strided_copy(reinterpret_cast<std::byte*>(out), {6, 2}, reinterpret_cast<const std::byte*>(row), {0, 2}, {2, 3}, 2,
               1);
  EXPECT_EQ(std::vector<std::uint16_t>(out[0], out[0] + 3), (std::vector<std::uint16_t>{1, 2, 3}));
  EXPECT_EQ(std::vector<std::uint16_t>(out[1], out[1] + 3), (std::vector<std::uint16_t>{1, 2, 3}));
  strided_copy(reinterpret_cast<std::byte*>(out), {6, 2}, reinterpret_cast<const std::byte*>(row), {2, 0}, {2, 3}, 2,
               2);
  EXPECT_EQ(std::vector<std::uint16_t>(out[1], out[1] + 3), (std::vector<std::uint16_t>{0x200, 0x200, 0x200}));
}

TEST(StridedCopy, SupportsTheMostDimensions) {
  extents counts(kMaxRank, 1);
  for (std::size_t d = 0; d < kMaxRank; d += 4) counts[d] = 2;
  const strides from = c_order_strides(counts, 4);
  strides to(kMaxRank);  // F order
  std::int64_t step = 4;
  for (std::size_t d = 0; d < kMaxRank; ++d) {
    to[d] = step;
    step *= static_cast<std::int64_t>(counts[d]);
  }
  std::vector<std::uint32_t> source(256), target(256), back(256);
  for (std::uint32_t i = 0; i < 256; ++i) source[i] = i;
  strided_copy(reinterpret_cast<std::byte*>(target.data()), to, reinterpret_cast<const std::byte*>(source.data()), from,
               counts, 4, 1);
  EXPECT_EQ(target[1], 128U);
  EXPECT_EQ(target[128], 1U);
  strided_copy(reinterpret_cast<std::byte*>(back.data()), from, reinterpret_cast<const std::byte*>(target.data()), to,
               counts, 4, 1);
  EXPECT_EQ(back, source);
}

TEST(StridedFill, WritesEachElementAndNothingElse) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 6000; ++i) {
    constexpr std::uint32_t kItems[] = {1, 2, 4, 8, 16, 3, 12, 255, 256, 300};
    const std::uint32_t item = kItems[random() % std::size(kItems)];
    extents counts = random_counts(random);
    if (item > 16 && counts.size() > 2) counts.resize(2);
    block to = random_block(random, counts, item, random() % 4 == 0);
    std::vector<std::byte> value(item);
    const bool uniform = random() % 3 == 0;
    for (auto& each : value) each = uniform ? std::byte{0x5a} : static_cast<std::byte>(random());
    std::vector<std::byte> expected = to.memory;
    for_each_element(counts, [&](const dim_vector<std::uint64_t>& at) {
      std::memcpy(expected.data() + to.first + offset(at, to.steps), value.data(), item);
    });
    strided_fill(to.data(), to.steps, counts, value.data(), item);
    ASSERT_EQ(to.memory, expected) << "case " << i << ", item " << item << ", counts " << to_string(counts);
  }
}

TEST(SwapContiguous, EqualsThePortableTwinAtEveryLengthAndAlignment) {
  std::mt19937_64 random(8);
  for (const std::uint32_t unit : {1U, 2U, 3U, 4U, 8U, 16U, 5U}) {
    for (std::uint64_t units = 0; units < 60; ++units) {
      for (std::size_t shift = 0; shift < 3; ++shift) {
        const std::uint64_t bytes = units * unit;
        std::vector<std::byte> from(bytes + shift + 1), fast(bytes + shift + 1), slow(bytes + shift + 1);
        for (auto& each : from) each = static_cast<std::byte>(random());
        swap_contiguous(fast.data() + shift, from.data() + shift, bytes, unit);
        swap_contiguous_portable(slow.data() + shift, from.data() + shift, bytes, unit);
        ASSERT_EQ(fast, slow) << unit << " x " << units;
        for (std::uint64_t i = 0; i < bytes; ++i)
          ASSERT_EQ(slow[shift + i], from[shift + i / unit * unit + (unit - 1 - i % unit)]);

        std::vector<std::byte> in_place = from;
        swap_contiguous(in_place.data() + shift, in_place.data() + shift, bytes, unit);
        ASSERT_TRUE(std::equal(in_place.begin() + static_cast<std::ptrdiff_t>(shift), in_place.end() - 1,
                               slow.begin() + static_cast<std::ptrdiff_t>(shift)));
        in_place = from;
        swap_contiguous_portable(in_place.data() + shift, in_place.data() + shift, bytes, unit);
        ASSERT_TRUE(std::equal(in_place.begin() + static_cast<std::ptrdiff_t>(shift), in_place.end() - 1,
                               slow.begin() + static_cast<std::ptrdiff_t>(shift)));
      }
    }
  }
}

}  // namespace
}  // namespace penstock::inline v0
