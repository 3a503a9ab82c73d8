#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include <penstock/result.h>
#include "cuda/device_wave.h"
#include "cuda/driver.h"
#include "engine/profiler.h"

namespace penstock::inline v0::cuda {

/// The rows of the two streams of a write that the device encodes: kernels, and copies of encoded bytes to the host.
inline constexpr std::uint32_t kEncodeWorker = kDeviceWorker + 60;

/// Work on a stream of which a profile records the begin and the end.
struct timed_span {
  const char* kernel = nullptr;  ///< the time is that of this kernel's launches, `launches` in number; null: an event
  std::uint64_t launches = 0;
  stage what = stage::transfer;
  std::uint32_t worker = 0;
  std::uint64_t bytes_in = 0, bytes_out = 0;
  event_ref begin = nullptr, end = nullptr;  ///< with timing
  recorded_read of;
};

/// Turns events on a device's streams into rows of profiles. Failures here do not fail a read: the profile lacks rows.
/// Nothing is allocated after warm-up: spans are reused. Not thread-safe; the context must be current.
class timed_spans {
 public:
  timed_spans(const driver& with, int ordinal) noexcept : driver_(with), ordinal_(ordinal) {}
  /// Ties the device's events to the host's clock. Waits for `stream`.
  result<> start(stream_ref stream);
  /// Called before the context is destroyed.
  void clear() noexcept;

  /// Null if nothing is recorded, or the time cannot be determined.
  timed_span* begin(const recorded_read& of, stage what, std::uint32_t worker, stream_ref stream) noexcept;
  /// The same for launches of a kernel, whose name outlives the profile.
  timed_span* begin_kernel(const recorded_read& of, const char* name, std::uint64_t launches,
                           stream_ref stream) noexcept;
  /// Marks the end of a span whose bytes are not known yet: `record` or `drop` follows. `span` may be null.
  void mark_end(timed_span* span, stream_ref stream) noexcept;
  /// `span` may be null.
  void end(timed_span* span, std::uint64_t bytes_in, std::uint64_t bytes_out, stream_ref stream) noexcept;
  /// Forgets a span that was begun.
  void drop(timed_span* span) noexcept;

  /// Records the work that has ended on the device.
  void collect() noexcept;
  /// The spans whose ends are queued. `record` takes them after the caller has waited for their ends.
  std::vector<timed_span*> take_queued() noexcept;
  void record(timed_span& span) noexcept;
  /// Records the decoding and the scatter of a wave that has ended, if a profile was running: its time is divided among
  /// the reads that share it in proportion to their bytes, one after the other.
  void record(device_wave& wave) noexcept;

 private:
  bool elapsed_ns(event_ref from, event_ref to, std::uint64_t& out) noexcept;
  bool begin_of(const profiler& profile, event_ref event, std::uint64_t& out) noexcept;
  void record_kernels(device_wave& wave) noexcept;
  void record_shares(device_wave& wave, stage what, event_ref from, event_ref to, std::uint64_t wave_share::* in,
                     std::uint64_t wave_share::* out) noexcept;
  void write(timed_span& span) noexcept;

  const driver& driver_;
  const int ordinal_;
  event_ref origin_ = nullptr;
  std::chrono::steady_clock::time_point origin_time_;
  std::vector<std::unique_ptr<timed_span>> all_;
  std::vector<timed_span*> free_, queued_;
};

}  // namespace penstock::inline v0::cuda
