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
#include "engine/profiler.h"

namespace penstock::inline v0::cuda {

/// The order of a read's streams, and the failures of its waves: members that the engine changes with its lock held.
struct read_state {
  bool queued = false;                 ///< `done` was recorded, and the host has not yet seen that it was reached
  std::vector<event_ref> starts;       ///< events to wait for before the first write; owned by the engine
  event_ref memory_ready = nullptr;    ///< the same for the memory that is written to; owned by its pool
  unsigned waited = 0;                 ///< streams that wait for both: bits by their numbers
  std::optional<unsigned> end_stream;  ///< which of the result streams ends the read
  std::optional<error> failure;        ///< failure of a wave that has cells of the read
};

/// The engine's state for a read, from its begin to its end.
///
/// The public members are read without the engine's lock. `read_slots::of` returns the others: the engine's
/// `read_slots` are guarded by its mutex, so the thread-safety analysis refuses a use of them without it.
class read_slot {
 public:
  // Set when the slot is made.
  device_address device = 0;
  failure_report* host = nullptr;  ///< page-locked; valid once `done` is reached
  event_ref done = nullptr;

  // Set by the read before its first worker runs.
  recorded_read recorded_as;
  std::uint64_t likely_cells = 0;

  /// `done` was recorded by the read that owns the slot now. Set by the read's last worker: valid after the job's end.
  bool used = false;

 private:
  friend class read_slots;
  void begin() noexcept;

  read_state state_;
};

/// The slots of a device's reads, and the failures of reads whose outcome was not queried. Not thread-safe; the context
/// must be current.
class read_slots {
 public:
  explicit read_slots(const driver& with) noexcept : driver_(with) {}
  /// Called before the context is destroyed.
  void clear() noexcept;

  /// A slot that no earlier read still needs; otherwise the copies of this read would wait for that read. The slot's
  /// record on the device is zero once `stream`, which copies to the device, has done its queued work.
  result<read_slot*> take(stream_ref stream);
  /// The same without a call of the driver. Null: no slot has a record that is zero.
  read_slot* take_zero();
  /// The members of a slot that the engine's mutex guards.
  read_state& of(read_slot& slot) noexcept { return slot.state_; }
  const read_state& of(const read_slot& slot) const noexcept { return slot.state_; }
  void give(read_slot* slot) noexcept;

  /// `describe` is called when the slot's read has ended with failures, unless the outcome was queried before.
  void watch(read_slot* slot, std::function<error(const failure_report&)> describe);
  void unwatch(read_slot* slot) noexcept;
  /// Whether the first watched read is not known to have ended.
  bool watches_queued() const noexcept { return !watched_.empty() && watched_.front().slot->state_.queued; }
  /// Finds by their events which watched reads have ended, for an engine that has forgotten its completions.
  void query_watched() noexcept;
  /// The ends of the watched reads.
  std::vector<event_ref> watched_ends() const;
  /// The first failure of the watched reads that have ended; reported once.
  result<> outcome();

 private:
  struct watched_report {
    read_slot* slot = nullptr;
    std::function<error(const failure_report&)> describe;
    bool left = false;  // the read was destroyed
  };
  // The records of slots that are made together.
  struct record_block {
    device_address device = 0;
    void* host = nullptr;
  };
  result<> make_more(stream_ref stream);
  bool has_free() const noexcept { return !free_.empty() && !free_.front()->state_.queued; }

  const driver& driver_;
  std::vector<record_block> blocks_;
  std::vector<std::unique_ptr<read_slot>> all_;
  std::deque<read_slot*> free_;  // the slot that was returned first is taken first
  std::deque<watched_report> watched_;
  std::optional<error> failure_;  // the failure until it is reported
  std::uint64_t failures_ = 0;
};

}  // namespace penstock::inline v0::cuda
