#include "base/fork_local.h"

#include <pthread.h>

#include <new>

namespace penstock::inline v0 {

std::atomic<std::uint64_t> fork_clock::generation_{1};

void fork_clock::start() {
  // A throwing initialiser leaves the variable unset, so the next call tries again.
  static const bool registered = [] {
    if (pthread_atfork(nullptr, nullptr, [] { tick(); }) != 0) throw std::bad_alloc();
    return true;
  }();
  static_cast<void>(registered);
}

}  // namespace penstock::inline v0
