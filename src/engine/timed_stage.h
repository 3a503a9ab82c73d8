#pragma once

#include <chrono>
#include <cstdint>

#include "engine/profiler.h"

namespace penstock::inline v0 {

/// Records one stage of a read or write: from when this is made until it goes. Costs nothing to speak of where `to` is
/// null, as it is without a recording.
class timed_stage {
 public:
  /// \param number     Of the read or write within the recording.
  /// \param operation  As in profile_event.
  timed_stage(profiler* to, std::uint32_t number, stage what, unsigned worker, std::uint64_t operation) noexcept
      : to_(to), what_(what), worker_(worker), number_(number), operation_(operation) {
    if (to != nullptr) begin_ns_ = to->now();
  }
  ~timed_stage() {
    if (to_ != nullptr) end_at(to_->now());
  }
  timed_stage(const timed_stage&) = delete;
  timed_stage& operator=(const timed_stage&) = delete;

  /// What went in and came out by now.
  void moved(std::uint64_t bytes_in, std::uint64_t bytes_out) noexcept {
    bytes_in_ = bytes_in;
    bytes_out_ = bytes_out;
  }
  /// The stage ended at `when`, and another one of the same operation began.
  void turned_into(stage next, std::chrono::steady_clock::time_point when) {
    if (to_ == nullptr) return;
    const std::uint64_t at = to_->at(when);
    end_at(at);
    what_ = next;
    begin_ns_ = at;
  }
  /// There was nothing to time.
  void leave_out() noexcept { to_ = nullptr; }
  bool is_recorded() const noexcept { return to_ != nullptr; }

 private:
  void end_at(std::uint64_t end_ns) const {
    to_->record({what_, worker_, number_, operation_, begin_ns_, end_ns, bytes_in_, bytes_out_});
  }

  profiler* to_;
  stage what_;
  unsigned worker_;
  std::uint32_t number_;
  std::uint64_t operation_;
  std::uint64_t begin_ns_ = 0, bytes_in_ = 0, bytes_out_ = 0;
};

}  // namespace penstock::inline v0
