#include "base/waiting.h"

#include <gtest/gtest.h>

#include <thread>

namespace penstock::inline v0 {
namespace {

using std::chrono::milliseconds;

std::atomic<int> questions;
bool yes() noexcept { return ++questions > 0; }
bool no() noexcept { return ++questions < 0; }
bool once() noexcept { return ++questions > 1; }

// Pending work that ends by a stop, or after some time.
struct work {
  std::mutex mutex;
  std::condition_variable arrived;
  bool done = false;
  std::stop_source stop = stop_of_wait();

  bool wait(milliseconds takes) {
    std::jthread ends([&, takes](const std::stop_token& over) {
      const std::stop_callback stopped(stop.get_token(), [&] { end(); });
      for (auto left = takes; left.count() > 0 && !over.stop_requested(); left -= milliseconds(5))
        std::this_thread::sleep_for(milliseconds(5));
      end();
    });
    std::unique_lock lock(mutex);
    wait_until(lock, arrived, stop, [&] { return done; });
    lock.unlock();
    return stop.stop_requested();
  }
  void end() {
    const std::lock_guard lock(mutex);
    done = true;
    arrived.notify_all();
  }
};

TEST(Waiting, NothingIsCalledWithoutAFunction) {
  questions = 0;
  EXPECT_FALSE(work().wait(milliseconds(60)));
  EXPECT_EQ(questions, 0);
}

TEST(Waiting, PollsWhileItWaitsAndContinues) {
  questions = 0;
  const interruptible_waits asks(yes);
  EXPECT_FALSE(work().wait(milliseconds(200)));
  EXPECT_GE(questions, 1);
}

TEST(Waiting, AStopAlsoAppliesToLaterWaits) {
  questions = 0;
  {
    const interruptible_waits asks(once);
    EXPECT_TRUE(work().wait(std::chrono::seconds(20)));
    EXPECT_TRUE(work().wait(std::chrono::seconds(20))) << "a second query would allow it to continue";
  }
  EXPECT_EQ(interruptible_waits::current(), nullptr);
  EXPECT_FALSE(work().wait(milliseconds(60)));
}

TEST(Waiting, ThreadsThatJoinAnotherStopWithItAndDoNotPoll) {
  questions = 0;
  interruptible_waits asks(no);
  bool stopped = false;
  std::thread other([&] {
    const interruptible_waits::join same(&asks);
    work().wait(milliseconds(100));
    EXPECT_EQ(questions, 0);
    stopped = work().wait(std::chrono::seconds(20));
  });
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_FALSE(asks.ask());
  other.join();
  EXPECT_TRUE(stopped);
}

}  // namespace
}  // namespace penstock::inline v0
