#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <penstock/profile.h>
#include "engine/covered_time.h"

namespace penstock::inline v0 {

/// Collects the timed work of one recording. Thread-safe; does nothing when no recording is running.
class profiler {
 public:
  explicit profiler(std::uint64_t max_events) : max_events_(max_events), start_(std::chrono::steady_clock::now()) {}

  /// Nanoseconds since the recording began.
  std::uint64_t now() const noexcept { return at(std::chrono::steady_clock::now()); }
  std::uint64_t at(std::chrono::steady_clock::time_point when) const noexcept {
    if (when < start_) return 0;  // a device's clock differs slightly from the host's
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(when - start_).count());
  }
  /// \return the number of the read, or write.
  std::uint32_t begin_read() { return begin(report_.reads); }
  std::uint32_t begin_write() { return begin(report_.writes); }
  void record(const profile_event& event);
  /// `name` outlives the profile. `ns` is the time of all `launches`.
  void record_kernel(const char* name, std::uint64_t ns, std::uint64_t launches = 1);
  void record_request(std::uint64_t bytes);
  profile_report finish();

 private:
  std::uint32_t begin(std::uint64_t& count) {
    const std::lock_guard lock(mutex_);
    ++count;
    return static_cast<std::uint32_t>(report_.reads + report_.writes - 1);
  }

  // Summed as events arrive, so that shares are correct even if events are dropped.
  struct device_times {
    covered_time computing, copying, busy, busy_or_storage;
    void add(const profile_event& event);
    void write(profile_device& out, std::uint64_t wall_ns) const;
  };
  void record_shares(const profile_event& event);

  const std::uint64_t max_events_;
  const std::chrono::steady_clock::time_point start_;
  std::mutex mutex_;
  profile_report report_;
  profile_stage sums_[kStages];
  std::uint64_t first_ns_ = ~std::uint64_t{0}, last_ns_ = 0;
  std::uint32_t workers_ = 0;
  covered_time storage_;
  device_times all_devices_;
  std::map<std::int32_t, device_times> devices_;  // by their ordinals
};

/// Identifies a read or write within a recording. `profile` is null if nothing is recorded.
struct recorded_read {
  std::shared_ptr<profiler> profile;
  std::uint32_t number = 0;
};

}  // namespace penstock::inline v0
