#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/result.h>
#include "base/fork_local.h"

namespace penstock::inline v0 {

/// One write that is waiting, running, or has ended. Thread-safe.
class queued_write {
 public:
  struct shared_state;  // of the queue
  /// Receives (bytes done, bytes in all), and returns whether to continue.
  using report_fn = std::function<bool(std::uint64_t, std::uint64_t)>;
  using work_fn = std::function<result<>(const report_fn&)>;

  queued_write(std::shared_ptr<shared_state> of, std::uint64_t bytes, work_fn work)
      : of_(std::move(of)), bytes_(bytes), work_(std::move(work)), total_(bytes) {}

  bool done() const;
  /// Waits for the end; every call returns the same outcome. The queue does not report an error again that was returned
  /// here.
  result<> wait();
  /// Returns false if it has not ended after that time.
  bool wait_for(std::chrono::nanoseconds timeout);
  /// Prevents or stops the write: its outcome is `cancelled`, unless it had ended.
  void cancel() noexcept { cancelled_.store(true, std::memory_order_relaxed); }
  std::uint64_t done_bytes() const noexcept { return done_bytes_.load(std::memory_order_relaxed); }
  std::uint64_t total_bytes() const noexcept { return total_.load(std::memory_order_relaxed); }
  /// Calls `then` at the end, on the queue's thread, or in this call if it has ended.
  void on_done(std::function<void()> then);

 private:
  friend class write_queue;
  result<> run();
  // Queued before a fork, by another process: no thread of this one will end it, and its lock may be held.
  bool is_of_parent() const noexcept { return made_at_ != fork_clock::now(); }

  const std::shared_ptr<shared_state> of_;
  const std::uint64_t made_at_ = fork_clock::now();
  const std::uint64_t bytes_;
  work_fn work_;
  std::atomic<bool> cancelled_{false};
  std::atomic<std::uint64_t> done_bytes_{0}, total_;
  std::optional<result<>> outcome_;  // the state's mutex guards this, and the others
  bool was_told_ = false;
  std::vector<std::function<void()>> then_;
};

/// Runs writes one after the other, in the order of their arrival, on a thread of its own, so that callers do not wait
/// for storage. The bytes of waiting writes are bounded: above the bound, callers wait. The first write of a burst
/// begins when the callers pause or one of them waits, at most 50 ms later. Thread-safe.
///
/// The thread runs while there are writes, and may outlive the queue. The work of a write owns all that it needs,
/// including its context.
class write_queue {
 public:
  explicit write_queue(std::uint64_t most_bytes);
  write_queue(const write_queue&) = delete;
  write_queue& operator=(const write_queue&) = delete;

  /// Waits until this many more bytes may be held, and counts them; a write that is larger than the bound waits for all
  /// others.
  /// \error cancelled  This thread's wait was interrupted (base/waiting.h).
  result<> make_room(std::uint64_t bytes);
  /// Returns the bytes that `make_room` counted, if no write is added.
  void give_back(std::uint64_t bytes);
  /// Adds a write that holds `bytes`, which `make_room` counted.
  std::shared_ptr<queued_write> push(std::uint64_t bytes, queued_write::work_fn work);
  /// Waits for all earlier writes.
  /// \error  Of a write whose outcome was not queried; each is reported once, the others in the notes.
  result<> flush();

 private:
  const std::shared_ptr<queued_write::shared_state> state_;
};

}  // namespace penstock::inline v0
