#pragma once

#include <csignal>
#include <string>

#include <penstock/config.h>

namespace penstock::inline v0::cli {

/// Catches SIGINT, SIGTERM and SIGHUP and ignores SIGPIPE (writes fail instead) while it lives. One at a time.
///
/// Inside a `stoppable` piece of work the first signal only raises a flag, so that the work ends in order; anywhere
/// else, and the second time, the program ends at once. Either way the file named by `remove_on_exit` goes.
class signal_scope {
 public:
  signal_scope();
  ~signal_scope();
  signal_scope(const signal_scope&) = delete;
  signal_scope& operator=(const signal_scope&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
  struct sigaction before_[4];
};

/// Marks work that asks `caught_signal()` often enough to stop by itself.
class stoppable {
 public:
  stoppable() noexcept;
  ~stoppable();
  stoppable(const stoppable&) = delete;
  stoppable& operator=(const stoppable&) = delete;
};

/// The signal that asked to stop, or 0.
int caught_signal() noexcept;

/// Names the one unfinished file that a signal's sudden end must remove; empty: none.
void remove_on_exit(const std::string& path) noexcept;

}  // namespace penstock::inline v0::cli
