#include "array/all_equal.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace penstock::inline v0 {
namespace {

template <class T>
bool equal(const std::vector<T>& values, T item) {
  const extents shape{values.size()};
  return all_equal(reinterpret_cast<const std::byte*>(values.data()), c_order_strides(shape, sizeof(T)), shape,
                   reinterpret_cast<const std::byte*>(&item), sizeof(T));
}

TEST(AllEqual, ComparesBitsAndNotValues) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(equal<double>({nan, nan, nan}, nan));
  EXPECT_FALSE(equal<double>({0.0, -0.0, 0.0}, 0.0));
  EXPECT_FALSE(equal<double>({-0.0}, 0.0));
  EXPECT_TRUE(equal<double>({-0.0, -0.0}, -0.0));
  EXPECT_TRUE(equal<double>({}, 1.0));
}

TEST(AllEqual, FindsOneDifferentElementAnywhere) {
  for (std::size_t size = 1; size < 40; ++size) {
    std::vector<std::uint16_t> values(size, 7);
    EXPECT_TRUE(equal<std::uint16_t>(values, 7));
    for (std::size_t i = 0; i < size; ++i) {
      values[i] = 7 + 256;  // only the high byte differs
      EXPECT_FALSE(equal<std::uint16_t>(values, 7)) << size << " " << i;
      values[i] = 7;
    }
  }
}

TEST(AllEqual, AgreesWithALoopOverAnyStrides) {
  std::mt19937_64 random(5);
  int equals = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::size_t rank = random() % 5;
    const std::uint32_t item_bytes = 1 + static_cast<std::uint32_t>(random() % 5);
    extents shape;
    strides steps;
    // A block with gaps, its dimensions in any order, some reversed and some repeated.
    std::vector<std::size_t> order;
    for (std::size_t d = 0; d < rank; ++d) {
      shape.push_back(1 + random() % 4);
      steps.push_back(0);
      order.insert(order.begin() + static_cast<std::ptrdiff_t>(random() % (d + 1)), d);
    }
    std::int64_t stride = item_bytes, first = 0, bytes = item_bytes;
    for (const std::size_t d : order) {
      if (random() % 5 == 0) continue;
      stride += static_cast<std::int64_t>(random() % 3 == 0 ? random() % 7 : 0);
      const auto reach = stride * static_cast<std::int64_t>(shape[d] - 1);
      const bool backwards = random() % 3 == 0;
      steps[d] = backwards ? -stride : stride;
      if (backwards) first += reach;
      bytes += reach;
      stride *= static_cast<std::int64_t>(shape[d]);
    }
    const std::vector<std::byte> item(item_bytes, std::byte{3});
    std::vector<std::byte> memory(static_cast<std::size_t>(bytes), std::byte{3});
    if (random() % 2 == 0) memory[random() % memory.size()] = std::byte{4};
    bool expected = true;
    extents at(rank);
    for (bool more = true; more;) {
      std::int64_t where = first;
      for (std::size_t d = 0; d < rank; ++d) where += steps[d] * static_cast<std::int64_t>(at[d]);
      expected = expected && std::memcmp(memory.data() + where, item.data(), item_bytes) == 0;
      more = false;
      for (std::size_t d = rank; d-- > 0 && !more;) {
        more = ++at[d] < shape[d];
        if (!more) at[d] = 0;
      }
    }
    equals += expected ? 1 : 0;
    ASSERT_EQ(all_equal(memory.data() + first, steps, shape, item.data(), item_bytes), expected) << round;
  }
  EXPECT_GT(equals, 1000);
  EXPECT_LT(equals, 3500);
}

}  // namespace
}  // namespace penstock::inline v0
