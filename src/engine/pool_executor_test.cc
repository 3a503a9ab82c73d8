#include "engine/pool_executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace penstock::inline v0 {
namespace {

using namespace std::chrono_literals;

// Does `total` pieces of work; after each of the first `waits` it is idle until somebody calls `release`.
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
  EXPECT_TRUE(other->wait_for(20s));  // though the only thread began with a job that cannot go on
  EXPECT_LT(waiting->done(), 10u);
  waiting->open_gate();
  EXPECT_TRUE(waiting->wait_for(20s));
}

// Notes whose step it was. A step takes longer than nothing, so that turns end within the test's time.
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
  std::string& order_;  // of the only thread
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

}  // namespace
}  // namespace penstock::inline v0
