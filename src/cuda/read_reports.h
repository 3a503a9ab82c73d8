#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <penstock/result.h>
#include "cuda/driver.h"
#include "cuda/move/move.h"

namespace penstock::inline v0::cuda {

/// Where a read's outcome is kept on the device and on the host, and the event that ends it.
struct report_slot {
  device_address device = 0;
  failure_report* host = nullptr;  ///< page-locked; set once `done` has been reached
  event_ref done = nullptr;
  bool used = false;    ///< `done` was recorded by the read that has it now: `host` is of that read from then on
  bool queued = false;  ///< `done` was recorded, and the host does not know yet that it was reached
};

/// The records of failures of a device's reads, and what is still to be told of reads at whose outcome nobody has
/// looked. Not thread-safe; the context must be current.
class read_reports {
 public:
  explicit read_reports(const driver& with) noexcept : driver_(with) {}
  /// Before the context goes.
  void clear() noexcept;

  /// One that no earlier read still needs: this read's copies would have to wait for that. Its record on the device is
  /// zero once `stream`, of copies to the device, has done what it was given.
  result<report_slot*> take(stream_ref stream);
  /// The same without a call of the driver. Null: there is none whose record is zero.
  report_slot* take_zero();
  void give(report_slot* slot) noexcept;

  /// `describe` is asked once the slot's read has ended with failures, unless somebody looks before.
  void watch(report_slot* slot, std::function<error(const failure_report&)> describe);
  void unwatch(report_slot* slot) noexcept;
  /// The first read that is watched is not known to have ended.
  bool watches_queued() const noexcept { return !watched_.empty() && watched_.front().slot->queued; }
  /// The ends of the reads that are watched.
  std::vector<event_ref> watched_ends() const;
  /// The first failure of those that have ended; told once.
  result<> outcome();

 private:
  struct watched_report {
    report_slot* slot = nullptr;
    std::function<error(const failure_report&)> describe;
    bool left = false;  // the read is gone
  };
  result<> make_more(stream_ref stream);
  bool has_free() const noexcept { return !free_.empty() && !free_.front()->queued; }

  const driver& driver_;
  std::vector<std::unique_ptr<report_slot>> all_;
  std::deque<report_slot*> free_;  // the one that came back first is taken first
  std::deque<watched_report> watched_;
  std::optional<error> failure_;  // until it is told
  std::uint64_t failures_ = 0;
};

}  // namespace penstock::inline v0::cuda
