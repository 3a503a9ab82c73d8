#include "driver/for_each_file.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <set>
#include <thread>
#include <vector>

#include "store/file_store.h"

namespace penstock::inline v0 {
namespace {

/// How many threads took part. The threads share no lock, because waiting for it would count as a wait.
template <class Work>
std::size_t threads_of(std::size_t files, context& with, Work work) {
  std::vector<std::thread::id> thread_of(files);
  std::vector<int> taken(files, 0);
  for_each_file(files, file_store("/tmp"), with, [&](std::size_t i) {
    work();
    thread_of[i] = std::this_thread::get_id();
    ++taken[i];
  });
  EXPECT_EQ(taken, std::vector<int>(files, 1));
  return std::set<std::thread::id>(thread_of.begin(), thread_of.end()).size();
}

void wait_for_storage() { std::this_thread::sleep_for(std::chrono::microseconds(200)); }

TEST(ForEachFile, UsesMoreThreadsOnlyIfFilesBlock) {
  context_options options;
  options.threads = 2;
  options.io_concurrency = 24;
  const auto with = context::make(options);
  ASSERT_TRUE(with.ok());
  EXPECT_EQ(threads_of(0, **with, [] {}), 0U);
  EXPECT_LE(threads_of(1, **with, wait_for_storage), 1U);
  const std::size_t waiting = threads_of(64 * 60, **with, wait_for_storage);
  EXPECT_GT(waiting, 12U);
  EXPECT_LE(waiting, 24U);
  options.io_concurrency = 1;
  const auto alone = context::make(options);
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(threads_of(64 * 4, **alone, wait_for_storage), 1U);
}

// Computation, such as parsing headers, takes long, but no thread waits.
TEST(ForEachFile, ComputationUsesOnlyThreadsOfTheContext) {
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
  EXPECT_LE(threads_of(64, **with, compute), 2U);
}

// The threads wait occasionally, not for each file, as when they contend for a lock or for a page that one of them
// reads.
TEST(ForEachFile, OccasionalWaitsAddNoThreads) {
  context_options options;
  options.threads = 2;
  options.io_concurrency = 24;
  const auto with = context::make(options);
  ASSERT_TRUE(with.ok());
  std::atomic<int> files{0};
  const auto wait_at_times = [&files] {
    if (files.fetch_add(1) % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  EXPECT_LE(threads_of(64 * 4, **with, wait_at_times), 2U);
}

TEST(ForEachFile, ParallelCallsVisitEachNumberOnce) {
  const auto with = context::make();
  ASSERT_TRUE(with.ok());
  std::vector<std::atomic<int>> taken(37);
  side_by_side(taken.size(), **with, [&](std::size_t i) { ++taken[i]; });
  for (const auto& each : taken) EXPECT_EQ(each, 1);
}

// A busy machine preempts threads within a batch: that is not a wait for storage.
TEST(ForEachFile, FilesInMemoryUseOnlyThreadsOfTheContext) {
  context_options options;
  options.threads = 2;
  const auto with = context::make(options);
  ASSERT_TRUE(with.ok());
  for (int i = 0; i < 20; ++i) EXPECT_LE(threads_of(64 * 60, **with, [] {}), 2U);
}

}  // namespace
}  // namespace penstock::inline v0
