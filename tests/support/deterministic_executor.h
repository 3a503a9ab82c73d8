#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "base/executor.h"

namespace penstock::test {

/// Runs jobs on the calling thread, one step at a time, in an order that a seed chooses.
///
/// Workers are numbers, not threads. Between steps it may deliver completions that a store holds, and it calls
/// `between` (for example to cancel). A job that is idle while nothing is held is stuck: `stuck` reports it, instead of
/// hanging. If another thread may wake the job, `wakes_from_outside` is the time to wait for that.
class deterministic_executor final : public executor {
 public:
  explicit deterministic_executor(std::uint64_t seed) : random_(seed) {}

  std::function<bool()> pending = [] { return false; };               ///< whether a store holds completions
  std::function<void(std::uint64_t)> deliver = [](std::uint64_t) {};  ///< releases one of them
  std::function<void(std::uint64_t step)> between;                    ///< called before each step
  std::chrono::milliseconds wakes_from_outside{0};

  bool stuck() const noexcept { return stuck_; }
  std::uint64_t steps() const noexcept { return steps_; }

  void run(const std::shared_ptr<job>& work, unsigned workers, const std::function<void()>& poll,
           std::chrono::nanoseconds) override {
    // Shared, because a job that is stuck may still be woken.
    const auto state = std::make_shared<idle_workers>();
    state->idle.assign(workers, false);
    work->set_waker([state] { state->wake(); });
    for (;;) {
      ++steps_;
      if (between) between(steps_);
      if (poll) poll();
      std::vector<unsigned> ready;
      const bool held = pending();
      std::uint64_t seen = 0;
      {
        std::unique_lock lock(state->mutex);
        const auto any_ready = [&] { return std::count(state->idle.begin(), state->idle.end(), false) != 0; };
        if (!held && !state->woken.wait_for(lock, wakes_from_outside, any_ready)) {
          stuck_ = true;
          return;
        }
        for (unsigned i = 0; i < workers; ++i)
          if (!state->idle[i]) ready.push_back(i);
        seen = state->wakes;
      }
      const std::uint64_t choice = random_();
      if (held && (ready.empty() || choice % (ready.size() + 1) == ready.size())) {
        deliver(choice >> 8);
        continue;
      }
      const unsigned worker = ready[choice % ready.size()];
      switch (work->step(worker)) {
        case job::progress::worked:
          break;
        case job::progress::idle: {
          const std::lock_guard lock(state->mutex);
          state->idle[worker] = state->wakes == seen;  // a wake during the step counts
          break;
        }
        case job::progress::done:
          return;
      }
    }
  }

  void start(std::shared_ptr<job> work, unsigned workers) override { run(work, workers, {}, {}); }

 private:
  struct idle_workers {
    std::mutex mutex;
    std::condition_variable woken;
    std::vector<bool> idle;
    std::uint64_t wakes = 0;
    void wake() {
      const std::lock_guard lock(mutex);
      idle.assign(idle.size(), false);
      ++wakes;
      woken.notify_all();
    }
  };
  std::mt19937_64 random_;
  bool stuck_ = false;
  std::uint64_t steps_ = 0;
};

}  // namespace penstock::test
