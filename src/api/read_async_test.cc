// Reads in the background and forks.

#include <penstock/array.h>

#include <gtest/gtest.h>
#include <penstock/array_source.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "engine/context_state.h"
#include "engine/idle_reads.h"
#include "engine/read_job.h"

namespace penstock {
namespace {

/// Reads wait here until it is opened.
class read_gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
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

TEST(ReadAsync, ATicketReturnsItsJobForTheNextRead) {
  context_state with{context_options()};
  const auto idle = std::make_shared<idle_reads>();
  auto read = std::make_shared<read_job>(with, idle);
  const read_job* const same = read.get();
  {
    ticket reading(read);
    read->begin({}, {});
    for (int i = 0; i < 10 && !read->done(); ++i) read->step(0);
    ASSERT_TRUE(reading.done());
    read.reset();
    EXPECT_EQ(idle->take(), nullptr);
  }
  EXPECT_EQ(idle->take().get(), same);
}

TEST(ReadAsync, AForkedChildDoesNotWaitForItsParentsReads) {
  read_gate closed;
  array_source from;
  from.name = "gated";
  from.type = *dtype::from_name("int32");
  from.shape = {8};
  from.chunks = {8};
  from.read = [&](const box&, std::span<std::byte> to) -> result<> {
    closed.pass();
    std::fill(to.begin(), to.end(), std::byte{1});
    return {};
  };
  const auto made = open_sources({from}, 0);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  std::vector<std::int32_t> values(8);
  const auto out = tensor_view::contiguous(values.data(), made->type(), made->shape());
  auto reading = made->read_async(selection(basic_selection()), out);
  ASSERT_TRUE(reading.ok()) << reading.error().to_string();
  closed.wait_for_one();
  const ::pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    bool is_called = false, is_refused = false;
    {
      const auto mine = std::make_unique<ticket>(std::move(*reading));
      mine->on_done([&] { is_called = true; });
      mine->cancel();
      const auto outcome = mine->wait();
      is_refused = !outcome.ok() && outcome.error().code() == errc::unsupported && mine->done() &&
                   mine->wait_for(std::chrono::hours(1));
    }  // its destructor does not wait either
    ::_exit(is_refused && is_called ? 0 : 1);
  }
  closed.open();
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  const auto outcome = reading->wait();
  EXPECT_TRUE(outcome.ok()) << outcome.error().to_string();
  EXPECT_EQ(values, std::vector<std::int32_t>(8, 0x01010101));
}

}  // namespace
}  // namespace penstock
