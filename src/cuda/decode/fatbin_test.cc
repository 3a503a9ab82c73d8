#include "cuda/decode/fatbin.h"

#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "cuda/decode/launch.h"

namespace penstock::inline v0::device {
namespace {

template <class T>
T number(std::span<const std::byte> bytes, std::size_t at) {
  T value{};
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// A fatbin is a header of 16 bytes (magic, version, header size, size) and members: kind (1 PTX, 2 machine code) at 0,
// header size at 4, size at 8, architecture at 28.
TEST(Fatbin, HoldsEveryArchitectureAndPtxOfTheOldest) {
  const auto bytes = fatbin();
  if (bytes.empty()) GTEST_SKIP() << "this build has no CUDA kernels (no nvcc)";
  ASSERT_EQ(number<std::uint32_t>(bytes, 0), 0xba55ed50u);
  ASSERT_EQ(number<std::uint16_t>(bytes, 6) + number<std::uint64_t>(bytes, 8), bytes.size());
  std::set<std::pair<int, int>> members;
  for (std::size_t at = 16; at < bytes.size();) {
    members.emplace(number<std::uint16_t>(bytes, at), number<std::uint32_t>(bytes, at + 28));
    const std::uint64_t size = number<std::uint32_t>(bytes, at + 4) + number<std::uint64_t>(bytes, at + 8);
    ASSERT_GT(size, 0u);
    at += size;
  }
  const std::set<std::pair<int, int>> expected{{1, 80}, {2, 80}, {2, 86}, {2, 89}, {2, 90}, {2, 100}, {2, 120}};
  EXPECT_EQ(members, expected);
  EXPECT_LT(bytes.size(), 4u << 20);
}

TEST(Kernels, HaveUniqueNames) {
  std::set<std::string> names;
  for (int i = 0; i < kKernels; ++i) names.insert(kernel_name(static_cast<kernel_id>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kKernels));
  EXPECT_EQ(names.count(""), 0u);
}

}  // namespace
}  // namespace penstock::inline v0::device
