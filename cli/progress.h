#pragma once

#include <chrono>
#include <string>

#include <penstock/array.h>

namespace penstock::inline v0::cli {

/// One line on stderr with the progress of a read, if stderr is a terminal; otherwise nothing.
///
/// Appears only after a moment, so that short work stays silent, and is erased when destroyed. Next to the speed it has
/// the speed of copying memory, which is measured first, once in a process.
class progress_line {
 public:
  explicit progress_line(std::string what);
  ~progress_line();
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;

  /// Shows `now`; false if a signal requested a stop. Called by the read, on one thread.
  bool update(const read_progress& now);
  /// A callback for `read_options`; this object must outlive the read.
  progress_fn callback();

 private:
  using clock = std::chrono::steady_clock;
  std::string what_;
  bool shown_ = false;
  bool enabled_;
  double ceiling_ = 0;
  clock::time_point begin_, next_;
};

/// `reading  1.20 GB of 3.28 GB  36%  1.61 GB/s (memcpy: 5.96)  1 s left`.
/// \param ceiling  How fast this machine copies memory, in bytes per second; 0: not known.
std::string progress_text(const std::string& what, const read_progress& now, double seconds, double ceiling = 0);

}  // namespace penstock::inline v0::cli
