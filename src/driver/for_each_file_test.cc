#include "driver/for_each_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "store/file_store.h"

namespace penstock::inline v0 {
namespace {

/// How many threads took part, and whether each file was taken once.
std::size_t threads_of(std::size_t files, context& with, std::chrono::microseconds each) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::vector<int> taken(files, 0);
  for_each_file(files, file_store("/tmp"), with, [&](std::size_t i) {
    if (each.count() != 0) std::this_thread::sleep_for(each);
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    ++taken[i];
  });
  EXPECT_EQ(taken, std::vector<int>(files, 1));
  return threads.size();
}

TEST(ForEachFile, TakesMoreThreadsOnlyWhereFilesAreWaitedFor) {
  context_options options;
  options.threads = 2;
  options.io_concurrency = 24;
  const auto with = context::make(options);
  ASSERT_TRUE(with.ok());
  EXPECT_EQ(threads_of(0, **with, {}), 0U);
  EXPECT_LE(threads_of(1, **with, std::chrono::milliseconds(1)), 1U);
  const std::size_t waiting = threads_of(64 * 60, **with, std::chrono::microseconds(200));
  EXPECT_GT(waiting, 12U);
  EXPECT_LE(waiting, 24U);
  options.io_concurrency = 1;
  const auto alone = context::make(options);
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(threads_of(64 * 4, **alone, std::chrono::microseconds(200)), 1U);
}

// As headers are parsed: it takes long, and no thread waits.
TEST(ForEachFile, ComputingIsTheWorkOfTheContextsThreadsAlone) {
  context_options options;
  options.threads = 2;
  options.io_concurrency = 24;
  const auto with = context::make(options);
  ASSERT_TRUE(with.ok());
  const auto compute = [] {
    const std::clock_t until = std::clock() + CLOCKS_PER_SEC / 5000;
    while (std::clock() < until) {
    }
  };
  std::size_t fewest = 64;
  for (int i = 0; i < 20; ++i) {
    std::mutex mutex;
    std::set<std::thread::id> threads;
    for_each_file(64, file_store("/tmp"), **with, [&](std::size_t) {
      compute();
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    });
    fewest = std::min(fewest, threads.size());
  }
  EXPECT_LE(fewest, 2U);
}

TEST(ForEachFile, ParallelCallsVisitEachNumberOnce) {
  const auto with = context::make();
  ASSERT_TRUE(with.ok());
  std::vector<std::atomic<int>> taken(37);
  side_by_side(taken.size(), **with, [&](std::size_t i) { ++taken[i]; });
  for (const auto& each : taken) EXPECT_EQ(each, 1);
}

// A busy machine may stop a thread within a batch: once of many is enough.
TEST(ForEachFile, FilesInMemoryAreTheWorkOfTheContextsThreadsAlone) {
  context_options options;
  options.threads = 2;
  const auto with = context::make(options);
  ASSERT_TRUE(with.ok());
  std::size_t fewest = 64;
  for (int i = 0; i < 20; ++i) fewest = std::min(fewest, threads_of(64 * 60, **with, {}));
  EXPECT_LE(fewest, 2U);
}

}  // namespace
}  // namespace penstock::inline v0
