#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "cuda/driver.h"
#include "cuda/read_slots.h"

namespace penstock::inline v0::cuda {

class device_wave;

/// An event that was recorded on a stream, and the resources that are free once it is reached.
struct completion {
  event_ref event = nullptr;
  bool owns_event = false;      ///< the event is free afterwards
  std::byte* block = nullptr;   ///< page-locked memory that was copied from
  device_wave* wave = nullptr;  ///< a wave that has ended
  read_slot* read = nullptr;    ///< a read that has ended
};

/// Completions in the order of their streams, and the thread that polls for them.
///
/// The thread queries the first event of each stream: 20 us after work was queued, at intervals of up to 1 ms while
/// none ends, and not at all while none is queued. No stream waits for the host, and no completion waits for one of
/// another stream. Host functions would need an additional stream for each stream that they follow: more streams than a
/// device has hardware queues, so that unrelated work would wait for them.
///
/// Thread-safe. Queries need the context to be current.
class completion_queue {
 public:
  static constexpr std::size_t kMostStreams = 8;

  explicit completion_queue(const driver& with) noexcept : driver_(with) {}
  ~completion_queue() { stop(); }
  completion_queue(const completion_queue&) = delete;
  completion_queue& operator=(const completion_queue&) = delete;

  /// Starts the thread, which makes `context` current and calls `take` when `take_reached` has something to return.
  void start(context_ref context, std::function<void()> take);
  /// Ends the thread. Completions that are still queued are forgotten.
  void stop() noexcept;
  /// Forgets the queued completions: after a failure of the driver they may never be reached.
  void abandon() noexcept;

  /// To be called after `what.event` was recorded on the stream with that number.
  void push(unsigned stream, const completion& what);
  /// Whether everything that was pushed for the stream was taken.
  bool idle(unsigned stream) const;
  /// Appends the reached completions to `out`, in the order of each stream.
  /// \returns The status of the first query that failed; `kSuccess` if none did.
  driver_status take_reached(std::vector<completion>& out);

 private:
  void serve(context_ref context, const std::function<void()>& take);
  bool any_reached() const PENSTOCK_REQUIRES(mutex_);

  const driver& driver_;
  mutable mutex mutex_;
  condition changed_;
  std::array<std::deque<completion>, kMostStreams> streams_ PENSTOCK_GUARDED_BY(mutex_);
  std::size_t queued_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  bool pushed_ PENSTOCK_GUARDED_BY(mutex_) = false;  // since the thread's last check
  bool stop_ PENSTOCK_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace penstock::inline v0::cuda
