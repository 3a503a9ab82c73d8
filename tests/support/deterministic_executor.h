#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/executor.h"

namespace penstock::test {

/// Runs jobs on the calling thread, one step at a time, in an order that a seed chooses.
///
/// Workers are numbers, not threads. Between steps it may deliver completions that a store holds back, and it calls
/// `between` (to cancel, say). A job that is idle while nothing is held back is stuck: `stuck` tells, instead of
/// hanging.
class deterministic_executor final : public executor {
 public:
  explicit deterministic_executor(std::uint64_t seed) : random_(seed) {}

  std::function<bool()> pending = [] { return false; };               ///< a store holds completions back
  std::function<void(std::uint64_t)> deliver = [](std::uint64_t) {};  ///< lets one of them go
  std::function<void(std::uint64_t step)> between;                    ///< called before each step

  bool stuck() const noexcept { return stuck_; }
  std::uint64_t steps() const noexcept { return steps_; }

  void run(const std::shared_ptr<job>& work, unsigned workers, const std::function<void()>& poll,
           std::chrono::nanoseconds) override {
    // Shared: a job that is stuck may be woken after all.
    const auto idle_workers = std::make_shared<std::vector<bool>>(workers, false);
    work->set_waker([idle_workers] { idle_workers->assign(idle_workers->size(), false); });
    std::vector<bool>& idle = *idle_workers;
    for (;;) {
      ++steps_;
      if (between) between(steps_);
      if (poll) poll();
      std::vector<unsigned> ready;
      for (unsigned i = 0; i < workers; ++i)
        if (!idle[i]) ready.push_back(i);
      const bool held = pending();
      if (ready.empty() && !held) {
        stuck_ = true;
        return;
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
        case job::progress::idle:
          idle[worker] = true;
          break;
        case job::progress::done:
          return;
      }
    }
  }

  void start(std::shared_ptr<job> work, unsigned workers) override { run(work, workers, {}, {}); }

 private:
  std::mt19937_64 random_;
  bool stuck_ = false;
  std::uint64_t steps_ = 0;
};

}  // namespace penstock::test
