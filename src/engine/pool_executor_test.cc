#include "engine/pool_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "engine/batch_job.h"
#include "support/without_threads.h"

namespace penstock::inline v0 {
namespace {

using namespace std::chrono_literals;

// Does `total` steps; after each of the first `waits` it is idle until a thread calls `release`.
class counted_job final : public job {
 public:
  explicit counted_job(std::uint64_t total, std::uint64_t gate = ~std::uint64_t{0}) : total_(total), gate_(gate) {}

  progress step(unsigned worker) override {
    std::unique_lock lock(mutex_);
    if (done_ == total_) {
      wake();
      return progress::done;
    }
    if (started_ == total_ || started_ >= gate_) return progress::idle;
    ++started_;
    workers_.insert(worker);
    threads_.insert(std::this_thread::get_id());
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
    if (++done_ == total_) {
      ended_.notify_all();
      wake();
    }
    return progress::worked;
  }

  void open_gate() {
    const std::lock_guard lock(mutex_);
    gate_ = ~std::uint64_t{0};
    wake();
  }
  bool wait_for(std::chrono::seconds limit) {
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, limit, [&] { return done_ == total_; });
  }
  std::uint64_t done() {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  std::set<unsigned> workers() {
    const std::lock_guard lock(mutex_);
    return workers_;
  }
  std::set<std::thread::id> threads() {
    const std::lock_guard lock(mutex_);
    return threads_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  const std::uint64_t total_;
  std::uint64_t gate_;
  std::uint64_t started_ = 0, done_ = 0;
  std::set<unsigned> workers_;
  std::set<std::thread::id> threads_;
};

TEST(PoolExecutor, OneWorkerIsTheCallingThread) {
  pool_executor pool(4);
  const auto work = std::make_shared<counted_job>(100);
  pool.run(work, 1, {}, 1s);
  EXPECT_EQ(work->done(), 100u);
  EXPECT_EQ(work->threads(), std::set{std::this_thread::get_id()});
}

TEST(PoolExecutor, EveryWorkerNumberIsUsedByOneThreadAtATime) {
  pool_executor pool(3);
  for (int round = 0; round < 200; ++round) {
    const auto work = std::make_shared<counted_job>(50);
    pool.run(work, 3, {}, 1s);
    EXPECT_EQ(work->done(), 50u);
    for (const unsigned each : work->workers()) EXPECT_LT(each, 3u);
  }
}

TEST(PoolExecutor, AStartedJobRunsWithoutItsCaller) {
  pool_executor pool(2);
  const auto work = std::make_shared<counted_job>(1000);
  pool.start(work, 2);
  EXPECT_TRUE(work->wait_for(20s));
  EXPECT_EQ(work->threads().count(std::this_thread::get_id()), 0u);
}

TEST(PoolExecutor, AnIdleJobLeavesItsThreadsToOthers) {
  pool_executor pool(1);
  const auto waiting = std::make_shared<counted_job>(10, 5);
  pool.start(waiting, 1);
  const auto other = std::make_shared<counted_job>(10);
  pool.start(other, 1);
  EXPECT_TRUE(other->wait_for(20s));  // though the only thread began with a job that cannot continue
  EXPECT_LT(waiting->done(), 10u);
  waiting->open_gate();
  EXPECT_TRUE(waiting->wait_for(20s));
}

// Records whose step it was. A step takes some time, so that turns end within the test's time.
class noted_job final : public job {
 public:
  noted_job(char name, std::uint64_t steps, std::string& order, std::atomic<unsigned>& ended)
      : name_(name), left_(steps), order_(order), ended_(ended) {}

  progress step(unsigned) override {
    if (left_ == 0) {
      ++ended_;
      return progress::done;
    }
    --left_;
    order_ += name_;
    std::this_thread::sleep_for(200us);
    return progress::worked;
  }

 private:
  const char name_;
  std::uint64_t left_;
  std::string& order_;  // the step's owners, in the order of the only thread
  std::atomic<unsigned>& ended_;
};

TEST(PoolExecutor, JobsTakeTurns) {
  constexpr std::uint64_t kSteps = 200;
  std::string order;
  {
    std::atomic<unsigned> ended{0};
    pool_executor pool(1);
    pool.start(std::make_shared<noted_job>('a', kSteps, order, ended), 1);
    pool.start(std::make_shared<noted_job>('b', kSteps, order, ended), 1);
    while (ended.load() < 2) std::this_thread::sleep_for(1ms);
  }
  ASSERT_EQ(order.size(), 2 * kSteps);
  const auto b_before = [&](std::uint64_t a_steps) {
    std::uint64_t a = 0, b = 0;
    for (const char each : order) {
      if (a == a_steps) break;
      (each == 'a' ? a : b) += 1;
    }
    return b;
  };
  EXPECT_GE(b_before(kSteps / 2), kSteps / 4) << order;
}

TEST(PoolExecutor, AWaitingCallerIsWokenAndPolls) {
  pool_executor pool(2);
  const auto work = std::make_shared<counted_job>(10, 5);
  std::atomic<int> polls{0};
  std::thread opener([&] {
    while (polls.load() < 3) std::this_thread::sleep_for(1ms);
    work->open_gate();
  });
  pool.run(work, 2, [&] { ++polls; }, 1ms);
  opener.join();
  EXPECT_EQ(work->done(), 10u);
  EXPECT_GE(polls.load(), 3);
}

TEST(PoolExecutor, ManyCallersShareOnePool) {
  pool_executor pool(2);
  std::vector<std::thread> callers;
  std::atomic<std::uint64_t> done{0};
  for (int i = 0; i < 6; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        const auto work = std::make_shared<counted_job>(20);
        pool.run(work, 3, {}, 1s);
        done += work->done();
      }
    });
  }
  for (std::thread& each : callers) each.join();
  EXPECT_EQ(done.load(), 6u * 50 * 20);
}

/// Counts the threads in a step, and records the maximum.
class crowd {
 public:
  /// Waits until this many are inside; false after ten seconds.
  bool enter_and_wait_for(unsigned count) {
    std::unique_lock lock(mutex_);
    most_ = std::max(most_, ++inside_);
    changed_.notify_all();
    return changed_.wait_for(lock, 10s, [&] { return most_ >= count; });
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    --inside_;
  }
  unsigned most() {
    const std::lock_guard lock(mutex_);
    return most_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned inside_ = 0, most_ = 0;
};

constexpr bool kWaits = true;

TEST(PoolExecutor, JobsThatWaitHaveAThreadForEachWorker) {
  pool_executor pool(1);
  crowd inside;
  const auto all_together = [&](std::size_t, unsigned) -> result<> {
    const bool came = inside.enter_and_wait_for(8);
    inside.leave();
    return came ? result<>() : error(errc::internal, "too few threads");
  };
  const auto work = std::make_shared<batch_job>(8, all_together, kWaits);
  pool.run(work, 8, {}, 1s);
  EXPECT_TRUE(work->outcome().ok());
  EXPECT_EQ(inside.most(), 8u);
}

TEST(PoolExecutor, ThreadsOfWaitingJobsAreNotUsedForComputing) {
  pool_executor pool(2);
  crowd waiting, computing;
  pool.run(std::make_shared<batch_job>(
               6,
               [&](std::size_t, unsigned) -> result<> {
                 (void)waiting.enter_and_wait_for(6);
                 waiting.leave();
                 return {};
               },
               kWaits),
           6, {}, 1s);
  ASSERT_EQ(waiting.most(), 6u);
  const auto work = std::make_shared<batch_job>(200, [&](std::size_t, unsigned) -> result<> {
    (void)computing.enter_and_wait_for(1);
    std::this_thread::sleep_for(200us);
    computing.leave();
    return {};
  });
  pool.run(work, 8, {}, 1s);
  EXPECT_EQ(work->finished(), 200u);
  EXPECT_LE(computing.most(), 3u) << "the caller and two threads";
}

TEST(PoolExecutor, ComputingJobsContinueWhileOthersWait) {
  pool_executor pool(1);
  crowd inside;
  const auto held = std::make_shared<batch_job>(
      3,
      [&](std::size_t, unsigned) -> result<> {
        const bool came = inside.enter_and_wait_for(4);
        return came ? result<>() : error(errc::internal, "the job that computes did not end");
      },
      kWaits);
  pool.start(held, 3);
  const auto work = std::make_shared<counted_job>(50);
  pool.start(work, 1);
  EXPECT_TRUE(work->wait_for(10s));
  (void)inside.enter_and_wait_for(4);  // releases them
  while (held->finished() < 3) std::this_thread::yield();
  EXPECT_TRUE(held->outcome().ok());
}

TEST(PoolExecutor, AStepThatWaitsMayRunAnotherJob) {
  pool_executor pool(2);
  std::atomic<std::uint64_t> done{0};
  const auto outer = std::make_shared<batch_job>(
      20,
      [&](std::size_t, unsigned) -> result<> {
        const auto inner = std::make_shared<counted_job>(30);
        pool.run(inner, 4, {}, 1s);
        done += inner->done();
        return {};
      },
      kWaits);
  pool.run(outer, 5, {}, 1s);
  EXPECT_EQ(done.load(), 600u);
}

TEST(PoolExecutor, AStepThatPausesLeavesItsThreadToTheJobThatItWaitsFor) {
  pool_executor pool(2);
  const auto outer = std::make_shared<batch_job>(4, [&](std::size_t, unsigned) -> result<> {
    const auto inner = std::make_shared<counted_job>(30);
    pool.start(inner, 2);
    const pool_executor::pause leaves_its_place;
    return inner->wait_for(10s) ? result<>() : error(errc::internal, "the inner job has no thread");
  });
  pool.start(outer, 4);
  while (outer->finished() < 4) std::this_thread::yield();
  EXPECT_TRUE(outer->outcome().ok()) << outer->outcome().error().to_string();
  crowd computing;
  const auto work = std::make_shared<batch_job>(200, [&](std::size_t, unsigned) -> result<> {
    (void)computing.enter_and_wait_for(1);
    std::this_thread::sleep_for(200us);
    computing.leave();
    return {};
  });
  pool.run(work, 8, {}, 1s);
  EXPECT_LE(computing.most(), 3u) << "the caller and two threads";
}

#ifdef __GLIBC__
// Its caller gets the exception, and frees what the job works with.
TEST(PoolExecutor, AJobThatCouldNotStartNeverRuns) {
  pool_executor pool(2);
  const auto refused = std::make_shared<counted_job>(10);
  test::without_threads([&] { EXPECT_THROW(pool.start(refused, 2), std::system_error); });
  const auto next = std::make_shared<counted_job>(10);
  pool.start(next, 2);
  EXPECT_TRUE(next->wait_for(20s));
  EXPECT_EQ(refused->done(), 0u);
  EXPECT_EQ(refused.use_count(), 1);
}
#endif

}  // namespace
}  // namespace penstock::inline v0
