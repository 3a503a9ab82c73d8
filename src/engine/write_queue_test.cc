#include "engine/write_queue.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/waiting.h"
#include "support/without_threads.h"

namespace penstock::inline v0 {
namespace {

using namespace std::chrono_literals;

/// Holds writes until it is opened.
class gate {
 public:
  result<> pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    return {};
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait_for_one() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

std::shared_ptr<queued_write> push(write_queue& to, std::uint64_t bytes, std::function<result<>()> work) {
  EXPECT_TRUE(to.make_room(bytes).ok());
  return to.push(bytes, [work = std::move(work)](const queued_write::report_fn&) { return work(); });
}

TEST(WriteQueue, WritesInOrderAndEndsItsIdleThread) {
  write_queue queue(100);
  std::vector<int> order;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 3; ++i)
      push(queue, 10, [&order, round, i]() -> result<> {
        order.push_back(3 * round + i);
        return {};
      });
    if (round % 5 == 0) {
      ASSERT_TRUE(queue.flush().ok());
    }
  }
  ASSERT_TRUE(queue.flush().ok());
  ASSERT_EQ(order.size(), 150u);
  for (int i = 0; i < 150; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(WriteQueue, AWriteBeginsWhileAnotherCallerKeepsCopying) {
  write_queue queue(100);
  ASSERT_TRUE(queue.make_room(10).ok());  // a copy that does not end
  gate opened;
  push(queue, 10, [&] { return opened.pass(); });
  opened.wait_for_one();  // without a call that waits for the write
  opened.open();
  EXPECT_TRUE(queue.flush().ok());
  queue.give_back(10);
}

TEST(WriteQueue, ACallerAboveTheLimitWaits) {
  write_queue queue(100);
  gate closed;
  push(queue, 60, [&] { return closed.pass(); });
  push(queue, 40, [] { return result<>(); });
  std::atomic<bool> entered{false};
  std::thread other([&] {
    EXPECT_TRUE(queue.make_room(1).ok());
    entered = true;
    queue.give_back(1);
  });
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(entered);
  closed.open();
  other.join();
  EXPECT_TRUE(entered);
  ASSERT_TRUE(queue.flush().ok());
  EXPECT_TRUE(push(queue, 1000, [] { return result<>(); })->wait().ok()) << "larger than the bound: alone";
}

TEST(WriteQueue, AWaitThatIsInterruptedCountsNothing) {
  write_queue queue(100);
  gate closed;
  push(queue, 100, [&] { return closed.pass(); });
  {
    const interruptible_waits asks([]() noexcept { return false; });
    const auto room = queue.make_room(50);
    ASSERT_FALSE(room.ok());
    EXPECT_EQ(room.error().code(), errc::cancelled);
    EXPECT_FALSE(queue.flush().ok());
  }
  closed.open();
  ASSERT_TRUE(queue.flush().ok());
  ASSERT_TRUE(queue.make_room(100).ok());
  queue.give_back(100);
}

TEST(WriteQueue, EachErrorIsReportedOnce) {
  write_queue queue(100);
  const auto failing = [](const char* text) { return [text]() -> result<> { return error(errc::io_error, text); }; };
  const auto told = push(queue, 1, failing("first"));
  EXPECT_EQ(told->wait().error().message(), "first");
  EXPECT_EQ(told->wait().error().message(), "first") << "each call returns it";
  EXPECT_TRUE(queue.flush().ok());
  std::vector<std::shared_ptr<queued_write>> tickets;
  for (int i = 0; i < 40; ++i)
    tickets.push_back(push(queue, 1, [i]() -> result<> {
      return error(errc::io_error, "no room").note("writing 'c/" + std::to_string(i) + "'").note("array 'x'");
    }));
  EXPECT_FALSE(tickets[30]->wait().ok()) << "is not reported again";
  const auto all = queue.flush();
  ASSERT_FALSE(all.ok());
  EXPECT_EQ(all.error().message(), "no room");
  EXPECT_EQ(all.error().notes().size(), 2u + 38u) << "one for each of the others";
  const std::string text = all.error().to_string();
  for (int i = 0; i < 40; ++i) {
    const std::size_t named = text.find("'c/" + std::to_string(i) + "'");
    EXPECT_EQ(named != std::string::npos, i != 30) << i;
  }
  EXPECT_NE(text.find("another write failed, too: io_error: writing 'c/39'"), std::string::npos);
  EXPECT_TRUE(queue.flush().ok());
}

TEST(WriteQueue, ACancelledWriteIsNotStarted) {
  write_queue queue(100);
  gate closed;
  std::atomic<bool> begun{false};
  push(queue, 1, [&] { return closed.pass(); });
  const auto second = push(queue, 1, [&] {
    begun = true;
    return result<>();
  });
  second->cancel();
  closed.open();
  EXPECT_EQ(second->wait().error().code(), errc::cancelled);
  EXPECT_FALSE(begun);
}

TEST(WriteQueue, ItsWorkMayBeTheLastOwnerOfTheQueue) {
  std::atomic<int> ended{0};
  for (int i = 0; i < 50; ++i) {
    auto queue = std::make_shared<write_queue>(100);
    ASSERT_TRUE(queue->make_room(1).ok());
    const auto ticket = queue->push(1, [queue](const queued_write::report_fn&) { return result<>(); });
    ticket->on_done([&] { ++ended; });
    queue.reset();
    ASSERT_TRUE(ticket->wait().ok());
  }
  while (ended < 50) std::this_thread::yield();
}

TEST(WriteQueue, AForkedChildDoesNotWaitForItsParentsWrites) {
  write_queue queue(100);
  const auto ended = push(queue, 1, [] { return result<>(); });
  ASSERT_TRUE(ended->wait().ok());
  gate closed;
  const auto running = push(queue, 1, [&] { return closed.pass(); });
  closed.wait_for_one();
  const ::pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    bool is_called = false;
    running->on_done([&] { is_called = true; });
    const auto outcome = running->wait();
    const bool is_refused = !outcome.ok() && outcome.error().code() == errc::unsupported;
    ::_exit(is_refused && is_called && running->done() && running->wait_for(1h) && ended->wait().ok() ? 0 : 1);
  }
  closed.open();
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(running->wait().ok());
}

#ifdef __GLIBC__
TEST(WriteQueue, AWriteWithoutAThreadFailsAndLaterOnesRun) {
  write_queue queue(100);
  const auto failed = test::without_threads([&] { return push(queue, 100, [] { return result<>(); }); });
  EXPECT_TRUE(failed->done());
  EXPECT_EQ(failed->wait().error().code(), errc::resource_exhausted);
  EXPECT_TRUE(queue.flush().ok()) << "the error was returned";
  EXPECT_TRUE(push(queue, 100, [] { return result<>(); })->wait().ok()) << "its bytes are free again";
}
#endif

}  // namespace
}  // namespace penstock::inline v0
