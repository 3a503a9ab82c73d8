#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

namespace penstock::inline v0 {

/// While an object of this class exists, this thread checks repeatedly whether it may continue when it waits for
/// storage. If it may not, everything that it waits for is cancelled, until the object is destroyed.
/// So Ctrl-C stops the opening of a file on a server that does not respond, although the functions in between do not
/// support cancellation. Threads that work for this one `join` it.
class interruptible_waits {
 public:
  using question = bool (*)() noexcept;

  explicit interruptible_waits(question may_go_on) noexcept : may_go_on_(may_go_on), before_(current_) {
    current_ = this;
  }
  ~interruptible_waits() { current_ = before_; }
  interruptible_waits(const interruptible_waits&) = delete;
  interruptible_waits& operator=(const interruptible_waits&) = delete;

  /// The object of this thread; null: its waits are not interrupted.
  static interruptible_waits* current() noexcept { return current_; }

  /// Uses `of`, which may be null and outlives this object, for this thread too; only the thread that created it is
  /// checked.
  class join {
   public:
    explicit join(interruptible_waits* of) noexcept : before_(current_) { current_ = of; }
    ~join() { current_ = before_; }
    join(const join&) = delete;
    join& operator=(const join&) = delete;

   private:
    interruptible_waits* before_;
  };

  bool ask() noexcept {
    if (std::this_thread::get_id() == owner_ && !may_go_on_()) stopped_.store(true, std::memory_order_relaxed);
    return !stopped_.load(std::memory_order_relaxed);
  }

 private:
  static thread_local interruptible_waits* current_;
  question may_go_on_;
  std::thread::id owner_ = std::this_thread::get_id();
  interruptible_waits* before_;
  std::atomic<bool> stopped_{false};
};

/// The stop token for the next wait of this thread; without a stop state if no stop can be requested.
inline std::stop_source stop_of_wait() {
  return interruptible_waits::current() == nullptr ? std::stop_source(std::nostopstate) : std::stop_source();
}

/// Waits until `done()`, which `arrived` signals. If this thread may not continue, `stop` is requested, once, and then
/// it waits for the cancelled work to end.
template <class Done>
void wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& arrived, std::stop_source& stop,
                const Done& done) {
  constexpr std::chrono::milliseconds kBetweenQuestions{40};
  interruptible_waits* const mine = interruptible_waits::current();
  while (mine != nullptr && !stop.stop_requested()) {
    if (arrived.wait_for(lock, kBetweenQuestions, done)) return;
    lock.unlock();  // stopped work may complete on this thread
    if (!mine->ask()) stop.request_stop();
    lock.lock();
  }
  arrived.wait(lock, done);
}

}  // namespace penstock::inline v0
