#pragma once

// Mutexes with annotations of the data that they guard: clang's thread-safety analysis (-Wthread-safety) checks them at
// compile time, other compilers ignore them.
//
// Source: https://clang.llvm.org/docs/ThreadSafetyAnalysis.html

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define PENSTOCK_THREAD_SAFETY(x) __attribute__((x))
#else
#define PENSTOCK_THREAD_SAFETY(x)
#endif

/// A member that is used only with the mutex held.
#define PENSTOCK_GUARDED_BY(mutex) PENSTOCK_THREAD_SAFETY(guarded_by(mutex))
/// A function that the caller calls with the mutexes held.
#define PENSTOCK_REQUIRES(...) PENSTOCK_THREAD_SAFETY(requires_capability(__VA_ARGS__))
/// A function that takes the mutexes itself: the caller must not hold them.
#define PENSTOCK_EXCLUDES(...) PENSTOCK_THREAD_SAFETY(locks_excluded(__VA_ARGS__))
/// A function that the analysis cannot follow. A comment next to it has the reason.
#define PENSTOCK_UNCHECKED_LOCKING PENSTOCK_THREAD_SAFETY(no_thread_safety_analysis)

namespace penstock::inline v0 {

/// A `std::mutex` for the analysis.
class PENSTOCK_THREAD_SAFETY(capability("mutex")) mutex {
 public:
  void lock() PENSTOCK_THREAD_SAFETY(acquire_capability()) { mutex_.lock(); }
  void unlock() PENSTOCK_THREAD_SAFETY(release_capability()) { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// Holds a mutex for a scope.
class PENSTOCK_THREAD_SAFETY(scoped_lockable) mutex_lock {
 public:
  explicit mutex_lock(mutex& held) PENSTOCK_THREAD_SAFETY(acquire_capability(held)) : mutex_(held) { mutex_.lock(); }
  ~mutex_lock() PENSTOCK_THREAD_SAFETY(release_capability()) { mutex_.unlock(); }
  mutex_lock(const mutex_lock&) = delete;
  mutex_lock& operator=(const mutex_lock&) = delete;

 private:
  mutex& mutex_;
};

/// Releases a held mutex for a scope.
class PENSTOCK_THREAD_SAFETY(scoped_lockable) mutex_unlock {
 public:
  explicit mutex_unlock(mutex& held) PENSTOCK_THREAD_SAFETY(release_capability(held)) : mutex_(held) {
    mutex_.unlock();
  }
  // Ends the scope, and with it the effect on the mutex.
  ~mutex_unlock() PENSTOCK_THREAD_SAFETY(release_capability()) { mutex_.lock(); }
  mutex_unlock(const mutex_unlock&) = delete;
  mutex_unlock& operator=(const mutex_unlock&) = delete;

 private:
  mutex& mutex_;
};

/// A condition variable for `mutex`. The caller loops: a wait may end spuriously, and the analysis does not check
/// predicates.
class condition {
 public:
  void wait(mutex& held) PENSTOCK_REQUIRES(held) { changed_.wait(held); }
  void wait_for(mutex& held, std::chrono::nanoseconds timeout) PENSTOCK_REQUIRES(held) {
    changed_.wait_for(held, timeout);
  }
  void notify_one() noexcept { changed_.notify_one(); }
  void notify_all() noexcept { changed_.notify_all(); }

 private:
  std::condition_variable_any changed_;
};

}  // namespace penstock::inline v0
