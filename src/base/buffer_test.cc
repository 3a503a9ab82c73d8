#include "base/buffer.h"

#include <cstring>

#include <gtest/gtest.h>

namespace penstock::inline v0 {
namespace {

TEST(Buffer, GivesAlignedMemoryOfTheAskedLength) {
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
