#include "interrupt.h"

#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstring>

namespace penstock::inline v0::cli {
namespace {

// A signal handler can only use statics; they belong to the one signal_scope that exists.
std::atomic<int> caught{0};
std::atomic<bool> may_stop{false};
std::atomic<bool> has_leftover{false};
char leftover[PATH_MAX];

void on_signal(int number) {
  int none = 0;
  if (may_stop.load() && caught.compare_exchange_strong(none, number)) return;
  if (has_leftover.load()) unlink(leftover);
  _exit(128 + number);
}

}  // namespace

signal_scope::signal_scope() {
  caught = 0;
  struct sigaction handling = {};
  sigemptyset(&handling.sa_mask);
  for (int i = 0; i < 4; ++i) {
    handling.sa_handler = kSignals[i] == SIGPIPE ? SIG_IGN : on_signal;
    sigaction(kSignals[i], nullptr, &before_[i]);
    // A signal that the parent ignores (nohup) stays ignored.
    if (before_[i].sa_handler == SIG_IGN && kSignals[i] != SIGPIPE) continue;
    sigaction(kSignals[i], &handling, nullptr);
  }
}

signal_scope::~signal_scope() {
  for (int i = 0; i < 4; ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

stoppable::stoppable() noexcept { may_stop = true; }
stoppable::~stoppable() { may_stop = false; }

int caught_signal() noexcept { return caught.load(); }

void remove_on_exit(const std::string& path) noexcept {
  has_leftover = false;
  if (path.empty() || path.size() >= sizeof leftover) return;
  std::memcpy(leftover, path.c_str(), path.size() + 1);
  has_leftover = true;
}

}  // namespace penstock::inline v0::cli
