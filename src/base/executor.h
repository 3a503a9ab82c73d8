#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include <penstock/config.h>

namespace penstock::inline v0 {

/// Work that any number of workers may execute together.
///
/// A job never blocks inside `step`, unless it `waits()`; if it must wait for a completion it returns `idle`, and calls
/// its waker when there is work again. The same job can therefore run in a thread pool, on the calling thread alone, or
/// in a seeded executor that chooses every interleaving.
class job {
 public:
  enum class progress : std::uint8_t { worked, idle, done };
  job() = default;
  job(const job&) = delete;
  job& operator=(const job&) = delete;
  virtual ~job() = default;
  /// Does one small step of the work. `worker` < the number of workers of the executor; each number is used by one
  /// thread at a time. After `done`, every later call returns `done` too.
  virtual progress step(unsigned worker) = 0;

  /// Called by the job, from any thread, when an idle worker may find work or the job is done. Set by the executor
  /// before the first step; valid until the job is destroyed or another one is set.
  void set_waker(std::function<void()> waker) { waker_ = std::move(waker); }

  /// Whether a step may wait for storage, for example in calls that query one file each. Threads in such steps need no
  /// core, so an executor may use more of them than for other jobs.
  bool waits() const noexcept { return waits_; }

 protected:
  explicit job(bool waits) noexcept : waits_(waits) {}
  void wake() const {
    if (waker_) waker_();
  }

 private:
  std::function<void()> waker_;
  bool waits_ = false;
};

/// Where workers run.
class executor {
 public:
  virtual ~executor() = default;

  /// Runs `work` to its end with `workers` workers; the caller is worker 0. `poll` (may be empty) is called on the
  /// calling thread at least every `interval`; it may stop the job. If it throws an exception, it is not called again,
  /// and the exception is thrown when the job has ended.
  virtual void run(const std::shared_ptr<job>& work, unsigned workers, const std::function<void()>& poll,
                   std::chrono::nanoseconds interval) = 0;

  /// Starts `work` on other threads and returns.
  virtual void start(std::shared_ptr<job> work, unsigned workers) = 0;
};

}  // namespace penstock::inline v0
