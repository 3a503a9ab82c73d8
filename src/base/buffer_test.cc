#include "base/buffer.h"

#include <cstring>

#include <gtest/gtest.h>

namespace penstock::inline v0 {
namespace {

TEST(Buffer, ReturnsAlignedMemoryOfTheRequestedLength) {
  buffer memory;
  for (const std::uint64_t bytes : {1ULL, 63ULL, 64ULL, 65ULL, 1000ULL, 4097ULL, 1000003ULL}) {
    const auto span = memory.reserve(bytes);
    ASSERT_TRUE(span.ok());
    EXPECT_EQ(span.value().size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(span.value().data()) % 64, 0U);
    EXPECT_GE(memory.capacity(), bytes);
    EXPECT_LE(memory.capacity(), bytes + bytes / 4 + 128);
    std::memset(span.value().data(), 1, bytes);
  }
}

TEST(Buffer, KeepsItsMemoryForSmallerRequests) {
  buffer memory;
  ASSERT_TRUE(memory.reserve(1000).ok());
  const std::byte* const before = memory.data();
  ASSERT_TRUE(memory.reserve(10).ok());
  ASSERT_TRUE(memory.reserve(1020).ok());
  EXPECT_EQ(memory.data(), before);
}

TEST(Buffer, IsCountedWhileItHoldsMemory) {
  ledger accounts(1 << 20, 0);
  {
    buffer memory(&accounts, memory_use::encoded);
    ASSERT_TRUE(memory.reserve(5000).ok());
    EXPECT_EQ(accounts.held(memory_use::encoded), memory.capacity());
    buffer moved = std::move(memory);
    EXPECT_EQ(accounts.held(memory_use::encoded), moved.capacity());
    memory = std::move(moved);
    EXPECT_EQ(accounts.held(memory_use::encoded), memory.capacity());
  }
  EXPECT_EQ(accounts.held(memory_use::encoded), 0U);
}

TEST(Buffer, KeepsItsFirstBytesWhenItIsExtended) {
  ledger accounts(1 << 20, 0);
  buffer memory(&accounts);
  ASSERT_TRUE(memory.extend(100, 64).ok()) << "nothing is there to be kept";
  memory.data()[0] = std::byte{7};
  memory.data()[63] = std::byte{9};
  const auto same = memory.extend(64, 64);
  ASSERT_TRUE(same.ok());
  const auto larger = memory.extend(64, 5000);
  ASSERT_TRUE(larger.ok());
  EXPECT_EQ(larger->size(), 5000U);
  EXPECT_EQ((*larger)[0], std::byte{7});
  EXPECT_EQ((*larger)[63], std::byte{9});
  EXPECT_EQ(accounts.held(memory_use::scratch), memory.capacity());
  EXPECT_FALSE(memory.extend(5000, 2 << 20).ok());
  EXPECT_EQ(memory.data()[0], std::byte{7});
}

TEST(Buffer, FailsAtTheLimitAndStaysUsable) {
  ledger accounts(5056, 0);
  buffer memory(&accounts);
  EXPECT_TRUE(memory.reserve(5000).ok()) << "the exact size fits although the rounded one does not";
  const auto refused = memory.reserve(5100);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), errc::resource_exhausted);
  EXPECT_EQ(accounts.held(memory_use::scratch), 0U);
  EXPECT_TRUE(memory.reserve(100).ok());
}

TEST(Buffer, RefusesAbsurdSizesWithoutALedger) {
  buffer memory;
  for (const std::uint64_t bytes : {~std::uint64_t{0}, std::uint64_t{1} << 62, std::uint64_t{1} << 47}) {
    const auto refused = memory.reserve(bytes);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), errc::resource_exhausted);
  }
}

}  // namespace
}  // namespace penstock::inline v0
