#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include <penstock/result.h>
#include "base/executor.h"
#include "base/thrown.h"

namespace penstock::inline v0 {

/// The same work for each item of a batch; each item is done by one worker.
class batch_job final : public job {
 public:
  using work_fn = std::function<result<>(std::size_t item, unsigned worker)>;
  /// \param waits  The work of an item waits for storage: see `job::waits`.
  batch_job(std::size_t items, work_fn work, bool waits = false)
      : job(waits), work_(std::move(work)), items_(items), open_(items) {}

  progress step(unsigned worker) override {
    const std::size_t item = next_.fetch_add(1, std::memory_order_relaxed);
    if (item >= items_) return open_.load(std::memory_order_acquire) == 0 ? progress::done : progress::idle;
    if (!stop_.load(std::memory_order_relaxed)) {
      result<> done = caught("the work of an item", [&] { return work_(item, worker); });
      if (!done.ok()) fail(std::move(done).error());
      finished_.fetch_add(1, std::memory_order_relaxed);
    }
    // The thread that runs the job waits for its workers, so the waker still exists.
    if (open_.fetch_sub(1, std::memory_order_acq_rel) == 1) wake();
    return progress::worked;
  }

  /// Begins no more items.
  void cancel() { fail(error(errc::cancelled, "the write was cancelled")); }
  std::size_t finished() const noexcept { return finished_.load(std::memory_order_relaxed); }
  /// The first failure; only when done.
  result<> outcome() const {
    const std::lock_guard lock(mutex_);
    if (failure_) return failure_->clone();
    return {};
  }

 private:
  void fail(error what) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_.emplace(std::move(what));
    stop_.store(true, std::memory_order_relaxed);
  }

  work_fn work_;
  std::size_t items_;
  std::atomic<std::size_t> next_{0}, open_, finished_{0};
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  std::optional<error> failure_;
};

}  // namespace penstock::inline v0
