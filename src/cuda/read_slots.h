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

/// What the engine knows of a read, from its begin to its end: the order of its streams, and where its outcome is
/// stored on the device and on the host. Used with the engine's lock, except for what is said to be otherwise.
///
/// The thread-safety analysis does not check this: slots are reached through pointers, and it cannot prove that the
/// mutex of a slot's owner is the one that a caller holds. `read_slots`, which owns them, is checked in the engine.
struct read_slot {
  // Kept when the slot is used again.
  device_address device = 0;
  failure_report* host = nullptr;  ///< page-locked; without the lock once `done` has been reached
  event_ref done = nullptr;        ///< without the lock

  bool used = false;    ///< `done` was recorded by the read that has it now: `host` is of that read from then on
  bool queued = false;  ///< `done` was recorded, and the host does not know yet that it was reached

  std::vector<event_ref> starts;       ///< events that come before the first write; the engine's
  event_ref memory_ready = nullptr;    ///< the same, of the memory that is written to; its pool's
  unsigned waited = 0;                 ///< streams that wait for both: bits by their numbers
  std::optional<unsigned> end_stream;  ///< which of the result streams ends the read
  std::optional<error> failure;        ///< of a wave that has cells of the read

  // Written by the read before its first worker runs.
  recorded_read recorded_as;
  std::uint64_t likely_cells = 0;

  void begin() noexcept;
};

/// The slots of a device's reads, and the failures of reads whose outcome was not queried. Not thread-safe; the context
/// must be current.
class read_slots {
 public:
  explicit read_slots(const driver& with) noexcept : driver_(with) {}
  /// Before the context goes.
  void clear() noexcept;

  /// One that no earlier read still needs: this read's copies would have to wait for that. Its record on the device is
  /// zero once `stream`, of copies to the device, has done what it was given.
  result<read_slot*> take(stream_ref stream);
  /// The same without a call of the driver. Null: there is none whose record is zero.
  read_slot* take_zero();
  void give(read_slot* slot) noexcept;

  /// `describe` is asked once the slot's read has ended with failures, unless somebody looks before.
  void watch(read_slot* slot, std::function<error(const failure_report&)> describe);
  void unwatch(read_slot* slot) noexcept;
  /// The first read that is watched is not known to have ended.
  bool watches_queued() const noexcept { return !watched_.empty() && watched_.front().slot->queued; }
  /// The ends of the reads that are watched.
  std::vector<event_ref> watched_ends() const;
  /// The first failure of those that have ended; told once.
  result<> outcome();

 private:
  struct watched_report {
    read_slot* slot = nullptr;
    std::function<error(const failure_report&)> describe;
    bool left = false;  // the read is gone
  };
  result<> make_more(stream_ref stream);
  bool has_free() const noexcept { return !free_.empty() && !free_.front()->queued; }

  const driver& driver_;
  std::vector<std::unique_ptr<read_slot>> all_;
  std::deque<read_slot*> free_;  // the one that came back first is taken first
  std::deque<watched_report> watched_;
  std::optional<error> failure_;  // until it is told
  std::uint64_t failures_ = 0;
};

}  // namespace penstock::inline v0::cuda
