#include "base/fast_sum.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace penstock::test {
namespace {

std::vector<std::byte> random_bytes(std::size_t size) {
  std::mt19937_64 random(size);
  std::vector<std::byte> out(size);
  for (std::byte& each : out) each = static_cast<std::byte>(random());
  return out;
}

TEST(FastSum, DetectsEveryFlippedBit) {
  for (const std::size_t size : {1U, 7U, 16U, 17U, 127U, 128U, 129U, 300U}) {
    std::vector<std::byte> data = random_bytes(size);
    std::set<std::uint64_t> seen{fast_sum(data, 5)};
    for (std::size_t bit = 0; bit < size * 8; ++bit) {
      const auto mask = static_cast<std::byte>(1U << (bit % 8));
      data[bit / 8] ^= mask;
      EXPECT_TRUE(seen.insert(fast_sum(data, 5)).second) << size << " bytes, bit " << bit;
      data[bit / 8] ^= mask;
    }
  }
}

TEST(FastSum, DependsOnLengthSeedAndOrder) {
  const std::vector<std::byte> zeros(400);
  std::set<std::uint64_t> seen;
  for (std::size_t size = 0; size <= zeros.size(); ++size) {
    EXPECT_TRUE(seen.insert(fast_sum(std::span(zeros).first(size), 0)).second) << size;
    EXPECT_TRUE(seen.insert(fast_sum(std::span(zeros).first(size), 1)).second) << size;
  }
  std::vector<std::byte> data = random_bytes(512);
  const std::uint64_t before = fast_sum(data, 0);
  for (std::size_t step = 16; step < 512; step += 16) {
    std::swap_ranges(data.begin(), data.begin() + 16, data.begin() + static_cast<std::ptrdiff_t>(step));
    EXPECT_NE(fast_sum(data, 0), before) << "16 bytes changed places with those at " << step;
    std::swap_ranges(data.begin(), data.begin() + 16, data.begin() + static_cast<std::ptrdiff_t>(step));
  }
}

}  // namespace
}  // namespace penstock::test
