#include "base/output_pool.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

output_block taken(output_pool& pool, std::uint64_t bytes) {
  auto block = pool.take(bytes);
  EXPECT_TRUE(block.ok());
  return std::move(*block);
}

TEST(OutputPool, ReusesTheMemoryForTheNextResultOfThatSize) {
  ledger accounts(0, 64 * kMiB);
  output_pool pool(accounts);
  std::byte* first = nullptr;
  {
    const output_block block = taken(pool, 5 * kMiB);
    first = block.data();
    std::memset(first, 1, 5 * kMiB);
    EXPECT_EQ(block.bytes(), 5 * kMiB);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % (2 * kMiB), 0U);
    EXPECT_EQ(accounts.held(memory_use::output_pool), 0U) << "only idle memory is counted";
  }
  EXPECT_GE(accounts.held(memory_use::output_pool), 5 * kMiB);
  const output_block again = taken(pool, 5 * kMiB);
  EXPECT_EQ(again.data(), first);
  EXPECT_EQ(accounts.held(memory_use::output_pool), 0U);
}

TEST(OutputPool, ReusesForSimilarSizesAndWastesAtMostAQuarter) {
  ledger accounts(0, 256 * kMiB);
  output_pool pool(accounts);
  std::byte* const first = taken(pool, 64 * kMiB).data();
  EXPECT_EQ(taken(pool, 60 * kMiB).data(), first);
  EXPECT_EQ(taken(pool, 52 * kMiB).data(), first);
  EXPECT_NE(taken(pool, 40 * kMiB).data(), first) << "a region a quarter too long is left for others";
  const std::byte* const second = taken(pool, 41 * kMiB).data();
  EXPECT_EQ(taken(pool, 42 * kMiB).data(), second) << "the first was made a little longer than requested";
}

TEST(OutputPool, ReusesEveryRoundedSize) {
  ledger accounts(0, 256 * kMiB);
  output_pool pool(accounts);
  for (std::uint64_t bytes = kMiB / 4; bytes < 12 * kMiB; bytes += kMiB / 16 + 1) {
    const std::byte* const first = taken(pool, bytes).data();
    EXPECT_EQ(taken(pool, bytes).data(), first) << bytes;
    pool.clear();
  }
}

TEST(OutputPool, TakesTheSmallestRegionThatFits) {
  ledger accounts(0, 256 * kMiB);
  output_pool pool(accounts);
  const std::byte *large = nullptr, *small = nullptr;
  {
    const output_block a = taken(pool, 36 * kMiB), b = taken(pool, 32 * kMiB);
    large = a.data();
    small = b.data();
  }
  const output_block first = taken(pool, 31 * kMiB), second = taken(pool, 31 * kMiB);
  EXPECT_EQ(first.data(), small);
  EXPECT_EQ(second.data(), large);
}

TEST(OutputPool, KeepsIdleMemoryWithinTheLimitAndDropsTheOldest) {
  ledger accounts(0, 16 * kMiB);
  output_pool pool(accounts);
  {
    const output_block a = taken(pool, 8 * kMiB);
  }
  {
    const output_block b = taken(pool, 4 * kMiB);
  }
  EXPECT_EQ(accounts.held(memory_use::output_pool), 12 * kMiB);
  {
    const output_block c = taken(pool, 6 * kMiB);
  }
  EXPECT_EQ(accounts.held(memory_use::output_pool), 10 * kMiB) << "8 MiB were dropped, 4 and 6 remain";
  {
    const output_block d = taken(pool, 32 * kMiB);
  }
  EXPECT_EQ(accounts.held(memory_use::output_pool), 10 * kMiB) << "a block that can never fit evicts nothing";
  pool.clear();
  EXPECT_EQ(accounts.held(memory_use::output_pool), 0U);
}

TEST(OutputPool, KeepsNothingWithALimitOfZero) {
  ledger accounts(0, 0);
  output_pool pool(accounts);
  {
    const output_block a = taken(pool, kMiB);
  }
  EXPECT_EQ(accounts.held(memory_use::output_pool), 0U);
}

TEST(OutputPool, BlocksMayOutliveThePoolAndItsLedger) {
  output_block survivor;
  {
    ledger accounts(0, 16 * kMiB);
    output_pool pool(accounts);
    survivor = taken(pool, 3 * kMiB);
  }
  std::memset(survivor.data(), 7, 3 * kMiB);
  EXPECT_EQ(survivor.data()[3 * kMiB - 1], std::byte{7});
  survivor = output_block();
  EXPECT_EQ(survivor.data(), nullptr);
}

TEST(OutputPool, RefusesMoreThanTheSystemHas) {
  ledger accounts(0, 16 * kMiB);
  output_pool pool(accounts);
  for (const std::uint64_t bytes : {~std::uint64_t{0}, std::uint64_t{1} << 62, std::uint64_t{1} << 56}) {
    const auto refused = pool.take(bytes);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), errc::resource_exhausted);
  }
  EXPECT_EQ(taken(pool, 0).data(), nullptr);
  EXPECT_NE(taken(pool, 1).data(), nullptr);
}

TEST(OutputPool, OffersSmallRegionsToTheSystemOnlyAboveALimit) {
  ledger accounts(0, 256 * kMiB);
  output_pool pool(accounts);
  {
    std::vector<output_block> many;
    for (int i = 0; i < 80; ++i) {
      many.push_back(taken(pool, kMiB));
      std::memset(many.back().data(), i + 1, kMiB);
    }
  }
  EXPECT_EQ(accounts.held(memory_use::output_pool), 80 * kMiB);
  for (int i = 0; i < 80; ++i) {
    const output_block block = taken(pool, kMiB);
    std::memset(block.data(), 9, kMiB);
    EXPECT_EQ(block.data()[kMiB - 1], std::byte{9}) << "memory that was offered holds what is written after";
  }
}

TEST(OutputPool, NeverReturnsOneRegionToTwoThreads) {
  ledger accounts(0, 24 * kMiB);
  output_pool pool(accounts);
  std::atomic<int> broken{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (unsigned i = 0; i < 200; ++i) {
        const std::uint64_t bytes = 1 + random() % (6 * kMiB);
        const output_block block = taken(pool, bytes);
        const auto mark = static_cast<std::byte>(t * 50 + i % 50);
        for (std::uint64_t at = 0; at < bytes; at += 4096) block.data()[at] = mark;
        for (std::uint64_t at = 0; at < bytes; at += 4096) broken += block.data()[at] != mark;
        if (i % 64 == 0) pool.clear();
      }
    });
  }
  for (auto& each : threads) each.join();
  EXPECT_EQ(broken, 0);
  EXPECT_LE(accounts.peak(memory_use::output_pool), 24 * kMiB);
}

TEST(OutputPool, BlocksAndPoolsMayCrossAForkInTheMiddleOfWork) {
  ledger accounts(0, 64 * kMiB);
  auto pool = std::make_unique<output_pool>(accounts);
  std::atomic<bool> stop{false};
  std::thread busy([&] {  // holds the pool's lock most of the time
    while (!stop) {
      taken(*pool, 70000);
    }
  });
  output_block kept = taken(*pool, 2 * kMiB);
  std::memset(kept.data(), 3, 2 * kMiB);
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      bool good = kept.data()[kMiB] == std::byte{3};
      kept = output_block();
      output_block fresh = taken(*pool, 3 * kMiB);
      std::memset(fresh.data(), 1, 3 * kMiB);
      good = good && fresh.bytes() == 3 * kMiB;
      fresh = output_block();
      pool->clear();
      pool.reset();
      _exit(good ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    ASSERT_EQ(status, 0) << "fork " << i;
  }
  stop = true;
  busy.join();
  EXPECT_EQ(kept.data()[kMiB], std::byte{3});
}

}  // namespace
}  // namespace penstock::inline v0
