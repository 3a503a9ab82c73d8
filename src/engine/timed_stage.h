#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "engine/profiler.h"

namespace penstock::inline v0 {

/// Records one stage of a read or write: from its construction to its destruction. If `to` is null, as without a
/// recording, each call is one test.
class timed_stage {
 public:
  /// \param number     Of the read or write within the recording.
  /// \param operation  As in profile_event.
  timed_stage(profiler* to, std::uint32_t number, stage what, unsigned worker, std::uint64_t operation) noexcept
      : to_(to) {
    if (to == nullptr) return;
    std::construct_at(&event_, profile_event{what, worker, number, operation, to->now()});
  }
  ~timed_stage() {
    if (to_ != nullptr) end_at(to_->now());
  }
  timed_stage(const timed_stage&) = delete;
  timed_stage& operator=(const timed_stage&) = delete;

  /// The input and output so far.
  void moved(std::uint64_t bytes_in, std::uint64_t bytes_out) noexcept {
    if (to_ == nullptr) return;
    event_.bytes_in = bytes_in;
    event_.bytes_out = bytes_out;
  }
  /// The stage ended at `when`, and another one of the same operation began.
  void turned_into(stage next, std::chrono::steady_clock::time_point when) {
    if (to_ == nullptr) return;
    const std::uint64_t at = to_->at(when);
    end_at(at);
    event_.what = next;
    event_.begin_ns = at;
  }
  /// Records nothing.
  void leave_out() noexcept { to_ = nullptr; }
  bool is_recorded() const noexcept { return to_ != nullptr; }

 private:
  void end_at(std::uint64_t end_ns) {
    event_.end_ns = end_ns;
    to_->record(event_);
  }

  profiler* to_;
  union {
    profile_event event_;  // for recordings only
  };
};

}  // namespace penstock::inline v0
