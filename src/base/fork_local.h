#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace penstock::inline v0 {

/// How often this process and its ancestors have forked since the first fork_local; read by every access.
///
/// A fork affects the whole process, so this counter is global: nothing else could observe it.
class fork_clock {
 public:
  static std::uint64_t now() noexcept { return generation_.load(std::memory_order_relaxed); }
  /// Begins to count forks; may be called repeatedly. Throws std::bad_alloc if the system cannot register a handler.
  static void start();

 private:
  static void tick() noexcept { generation_.fetch_add(1, std::memory_order_relaxed); }
  static std::atomic<std::uint64_t> generation_;
};

/// A T created by the factory at first use; a forked child creates its own.
///
/// The parent's T is leaked in the child on purpose: its locks may be held by threads that the child does not have, its
/// threads do not exist, and its memory may be inconsistent. Thread-safe as far as T is; threads that use it first at
/// the same time may each create a T, and all receive the same one. `fork` must not be called by code that uses T.
template <class T>
class fork_local {
 public:
  using factory = std::function<std::unique_ptr<T>()>;

  explicit fork_local(factory make) : make_(std::move(make)) { fork_clock::start(); }
  fork_local(const fork_local&) = delete;
  fork_local& operator=(const fork_local&) = delete;
  ~fork_local() {
    const version* const last = current_.load(std::memory_order_acquire);
    if (last->generation == fork_clock::now()) delete last;
  }

  T& get() {
    version* const last = current_.load(std::memory_order_acquire);
    if (last->generation == fork_clock::now()) [[likely]]
      return *last->value;
    return renew(last);
  }

 private:
  struct version {
    std::uint64_t generation;
    std::unique_ptr<T> value;
    const version* leaked;  // the parent's; only so that leak checkers find it
  };

  inline static version none_{~std::uint64_t{0}, nullptr, nullptr};  // of a fork count that cannot occur

  // No lock: a lock here could be held by a thread that no longer exists.
  [[gnu::noinline]] T& renew(version* old) {
    auto fresh = std::make_unique<version>(version{fork_clock::now(), make_(), old});
    if (current_.compare_exchange_strong(old, fresh.get(), std::memory_order_acq_rel)) return *fresh.release()->value;
    return *old->value;  // another thread was first
  }

  factory make_;
  std::atomic<version*> current_{&none_};
};

}  // namespace penstock::inline v0
