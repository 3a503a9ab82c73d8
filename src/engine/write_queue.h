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

namespace penstock::inline v0 {

/// One write that waits for its turn, or is under way, or has ended. Thread-safe.
class queued_write {
 public:
  struct shared_state;  // of the queue
  /// Is told (bytes done, bytes in all), and says whether to go on.
  using report_fn = std::function<bool(std::uint64_t, std::uint64_t)>;
  using work_fn = std::function<result<>(const report_fn&)>;

  queued_write(std::shared_ptr<shared_state> of, std::uint64_t bytes, work_fn work)
      : of_(std::move(of)), bytes_(bytes), work_(std::move(work)), total_(bytes) {}

  bool done() const;
  /// Waits for the end; every call returns the same outcome. An error that was returned is not told by the queue.
  result<> wait();
  /// False: it still goes on after that long.
  bool wait_for(std::chrono::nanoseconds timeout);
  /// It is not begun any more, or stopped: `cancelled`, unless it had ended.
  void cancel() noexcept { cancelled_.store(true, std::memory_order_relaxed); }
  std::uint64_t done_bytes() const noexcept { return done_bytes_.load(std::memory_order_relaxed); }
  std::uint64_t total_bytes() const noexcept { return total_.load(std::memory_order_relaxed); }
  /// Calls `then` at the end, on the queue's thread, or here where that has been.
  void on_done(std::function<void()> then);

 private:
  friend class write_queue;
  result<> run();

  const std::shared_ptr<shared_state> of_;
  const std::uint64_t bytes_;
  work_fn work_;
  std::atomic<bool> cancelled_{false};
  std::atomic<std::uint64_t> done_bytes_{0}, total_;
  std::optional<result<>> outcome_;  // the state's mutex guards this, and the rest
  bool was_told_ = false;
  std::vector<std::function<void()>> then_;
};

/// Does writes one after the other, in the order in which they came, on a thread of its own, so that nobody waits for
/// storage. What the waiting ones hold is bounded: then those who bring more wait. Thread-safe.
///
/// The thread lives while there is something to write, and may outlive the queue. What a write needs, its context among
/// it, is kept by its work.
class write_queue {
 public:
  explicit write_queue(std::uint64_t most_bytes);
  write_queue(const write_queue&) = delete;
  write_queue& operator=(const write_queue&) = delete;

  /// Waits until so much more may be held, and counts it; a write that is larger than the bound waits for all others.
  /// \error cancelled  This thread's wait was interrupted (base/waiting.h).
  result<> make_room(std::uint64_t bytes);
  /// What `make_room` counted is not needed.
  void give_back(std::uint64_t bytes);
  /// Adds a write that holds `bytes`, which `make_room` counted.
  std::shared_ptr<queued_write> push(std::uint64_t bytes, queued_write::work_fn work);
  /// Waits for all that was pushed before. \error  Of a write whose outcome nobody has asked for; each is told once,
  /// and the notes tell of the others.
  result<> flush();

 private:
  const std::shared_ptr<queued_write::shared_state> state_;
};

}  // namespace penstock::inline v0
