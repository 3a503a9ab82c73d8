#pragma once

#include <csignal>
#include <string>

#include <penstock/config.h>

namespace penstock::inline v0::cli {

/// Catches SIGINT, SIGTERM and SIGHUP and ignores SIGPIPE (writes fail instead) while it exists. One at a time.
///
/// Within `stoppable` work the first signal only sets a flag, so that the work ends in order; elsewhere, and at the
/// second signal, the program ends at once. In both cases the file named by `remove_on_exit` is removed.
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

/// Marks work that calls `caught_signal()` often enough to stop by itself.
class stoppable {
 public:
  stoppable() noexcept;
  ~stoppable();
  stoppable(const stoppable&) = delete;
  stoppable& operator=(const stoppable&) = delete;
};

/// The signal that requested a stop, or 0.
int caught_signal() noexcept;

/// Names the one unfinished file that is removed if a signal ends the program; empty: none.
void remove_on_exit(const std::string& path) noexcept;

}  // namespace penstock::inline v0::cli
