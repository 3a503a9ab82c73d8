#include "base/ledger.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace penstock::inline v0 {
namespace {

TEST(Ledger, ScratchEncodedAndIndexShareOneLimit) {
  ledger accounts(100, 10);
  EXPECT_TRUE(accounts.take(memory_use::scratch, 40).ok());
  EXPECT_TRUE(accounts.take(memory_use::encoded, 40).ok());
  const auto refused = accounts.take(memory_use::index, 21);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), errc::resource_exhausted);
  EXPECT_EQ(accounts.held(memory_use::index), 0U);
  EXPECT_TRUE(accounts.take(memory_use::index, 20).ok());
  accounts.give(memory_use::scratch, 40);
  EXPECT_TRUE(accounts.take(memory_use::encoded, 40).ok());
  EXPECT_EQ(accounts.held(memory_use::encoded), 80U);
}

TEST(Ledger, TheOutputPoolHasItsOwnLimit) {
  ledger accounts(0, 10);
  EXPECT_TRUE(accounts.take(memory_use::output_pool, 10).ok());
  EXPECT_FALSE(accounts.take(memory_use::output_pool, 1).ok());
  EXPECT_FALSE(accounts.take(memory_use::scratch, 1).ok());
  EXPECT_TRUE(accounts.take(memory_use::page_locked, 1 << 20).ok());
}

TEST(Ledger, RefusesSizesWhoseSumExceeds64Bits) {
  ledger accounts(~std::uint64_t{0}, ~std::uint64_t{0});
  EXPECT_TRUE(accounts.take(memory_use::scratch, ~std::uint64_t{0} - 1).ok());
  EXPECT_FALSE(accounts.take(memory_use::scratch, 2).ok());
}

TEST(Ledger, RecordsThePeak) {
  ledger accounts(1000, 0);
  ASSERT_TRUE(accounts.take(memory_use::index, 300).ok());
  accounts.give(memory_use::index, 300);
  ASSERT_TRUE(accounts.take(memory_use::index, 200).ok());
  EXPECT_EQ(accounts.held(memory_use::index), 200U);
  EXPECT_EQ(accounts.peak(memory_use::index), 300U);
}

TEST(Ledger, NeverPassesTheLimitAmongThreads) {
  ledger accounts(64, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&accounts] {
      for (int i = 0; i < 20000; ++i) {
        if (accounts.take(memory_use::scratch, 17).ok()) accounts.give(memory_use::scratch, 17);
      }
    });
  }
  for (auto& each : threads) each.join();
  EXPECT_EQ(accounts.held(memory_use::scratch), 0U);
  EXPECT_LE(accounts.peak(memory_use::scratch), 64U);
  EXPECT_GE(accounts.peak(memory_use::scratch), 17U);
}

}  // namespace
}  // namespace penstock::inline v0
