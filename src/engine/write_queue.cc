#include "engine/write_queue.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/thrown.h"
#include "base/waiting.h"

namespace penstock::inline v0 {
namespace {

/// Failures that `flush` returns with all their notes; further ones with a line each.
constexpr std::size_t kMostInFull = 16;
/// A queue without work begins when no caller has added a write for this long, or after the longest delay: the encoders
/// would take the cores and the memory bandwidth of the callers, who copy their values meanwhile.
constexpr std::chrono::milliseconds kQuiet{1};
constexpr std::chrono::milliseconds kLongestDelay{50};

// The first note is that of the innermost layer: it has the key.
std::string in_short(const error& what) {
  if (what.notes().empty()) return fmt::format("{}: {}", to_string(what.code()), what.message());
  return fmt::format("{}: {}", to_string(what.code()), what.notes().front());
}

}  // namespace

struct queued_write::shared_state {
  explicit shared_state(std::uint64_t most) : most_bytes(most) {}

  const std::uint64_t most_bytes;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<queued_write>> waiting;  // the first one is running
  std::vector<std::shared_ptr<queued_write>> failed;  // writes whose outcome was not queried
  std::uint64_t held_bytes = 0;
  std::uint64_t pushes = 0;
  std::size_t copying = 0;  // callers that have room, and have not added their write
  bool running = false;
  bool is_awaited = false;  // a caller waits for a write, or for room

  void hurry() {
    is_awaited = true;
    changed.notify_all();
  }

  void let_callers_copy(std::unique_lock<std::mutex>& lock) {
    for (auto delay = kQuiet; delay <= kLongestDelay && !is_awaited; delay += kQuiet) {
      const std::uint64_t before = pushes;
      changed.wait_for(lock, kQuiet, [&] { return is_awaited; });
      if (copying == 0 && pushes == before) return;
    }
  }

  static void serve(const std::shared_ptr<shared_state>& self) {
    std::unique_lock lock(self->mutex);
    self->let_callers_copy(lock);
    while (!self->waiting.empty()) {
      const std::shared_ptr<queued_write> next = self->waiting.front();
      lock.unlock();
      result<> outcome = next->run();
      next->work_ = nullptr;  // releases its memory, and perhaps the last owner of its context
      lock.lock();
      self->waiting.pop_front();
      self->held_bytes -= next->bytes_;
      if (!outcome.ok()) self->failed.push_back(next);
      next->outcome_.emplace(std::move(outcome));
      const auto then = std::exchange(next->then_, {});
      self->changed.notify_all();
      lock.unlock();
      for (const auto& each : then) each();
      lock.lock();
    }
    self->running = false;
  }
};

result<> queued_write::run() {
  if (cancelled_.load(std::memory_order_relaxed))
    return error(errc::cancelled, "the write was cancelled before it began");
  const auto report = [this](std::uint64_t done, std::uint64_t total) {
    done_bytes_.store(done, std::memory_order_relaxed);
    total_.store(total, std::memory_order_relaxed);
    return !cancelled_.load(std::memory_order_relaxed);
  };
  return caught("the write", [&] { return work_(report); });
}

bool queued_write::done() const {
  if (is_of_parent()) return true;
  const std::lock_guard lock(of_->mutex);
  return outcome_.has_value();
}

result<> queued_write::wait() {
  std::unique_lock lock(of_->mutex, std::defer_lock);
  if (is_of_parent()) {
    if (!lock.try_lock() || !outcome_)
      return error(errc::unsupported, "this write belongs to the process that was forked");
  } else {
    lock.lock();
  }
  if (!outcome_) of_->hurry();
  of_->changed.wait(lock, [&] { return outcome_.has_value(); });
  if (!std::exchange(was_told_, true)) std::erase_if(of_->failed, [&](const auto& each) { return each.get() == this; });
  if (outcome_->ok()) return {};
  return outcome_->error().clone();
}

bool queued_write::wait_for(std::chrono::nanoseconds timeout) {
  if (is_of_parent()) return true;
  std::unique_lock lock(of_->mutex);
  if (!outcome_) of_->hurry();
  return of_->changed.wait_for(lock, timeout, [&] { return outcome_.has_value(); });
}

void queued_write::on_done(std::function<void()> then) {
  if (is_of_parent()) return then();
  {
    const std::lock_guard lock(of_->mutex);
    if (!outcome_) {
      then_.push_back(std::move(then));
      return;
    }
  }
  then();
}

write_queue::write_queue(std::uint64_t most_bytes) : state_(std::make_shared<queued_write::shared_state>(most_bytes)) {
  fork_clock::start();
}

result<> write_queue::make_room(std::uint64_t bytes) {
  queued_write::shared_state& state = *state_;
  std::unique_lock lock(state.mutex);
  std::stop_source stop = stop_of_wait();
  const auto fits = [&] {
    return state.held_bytes == 0 || bytes <= state.most_bytes - std::min(state.most_bytes, state.held_bytes);
  };
  if (!fits()) state.hurry();
  wait_until(lock, state.changed, stop, [&] { return fits() || stop.stop_requested(); });
  if (!fits()) return error(errc::cancelled, "the wait for earlier writes was interrupted");
  state.held_bytes += bytes;
  ++state.copying;
  return {};
}

void write_queue::give_back(std::uint64_t bytes) {
  const std::lock_guard lock(state_->mutex);
  state_->held_bytes -= bytes;
  --state_->copying;
  state_->changed.notify_all();
}

std::shared_ptr<queued_write> write_queue::push(std::uint64_t bytes, queued_write::work_fn work) {
  auto made = std::make_shared<queued_write>(state_, bytes, std::move(work));
  const std::lock_guard lock(state_->mutex);
  state_->waiting.push_back(made);
  --state_->copying;
  ++state_->pushes;
  if (state_->running) return made;
  state_->is_awaited = false;
  try {
    // Never joined: the thread that drops the last context may hold a lock that this one needs for its end (Python's
    // lock).
    std::thread([self = state_] { queued_write::shared_state::serve(self); }).detach();
    state_->running = true;
  } catch (const std::system_error&) {
    // Without a thread, no other write is queued.
    state_->waiting.pop_back();
    state_->held_bytes -= bytes;
    made->outcome_.emplace(error(errc::resource_exhausted, "the system has no thread for a write"));
    state_->failed.push_back(made);
    state_->changed.notify_all();
  }
  return made;
}

result<> write_queue::flush() {
  std::unique_lock lock(state_->mutex);
  const std::shared_ptr<queued_write> last = state_->waiting.empty() ? nullptr : state_->waiting.back();
  std::stop_source stop = stop_of_wait();
  const auto done = [&] { return last == nullptr || last->outcome_.has_value(); };
  if (!done()) state_->hurry();
  wait_until(lock, state_->changed, stop, [&] { return done() || stop.stop_requested(); });
  if (!done()) return error(errc::cancelled, "the wait for earlier writes was interrupted");
  const auto failed = std::exchange(state_->failed, {});
  if (failed.empty()) return {};
  error first = failed.front()->outcome_->error().clone();
  for (std::size_t i = 1; i < failed.size(); ++i) {
    const error& other = failed[i]->outcome_->error();
    first.note(fmt::format("another write failed, too: {}", i < kMostInFull ? other.to_string() : in_short(other)));
  }
  for (const auto& each : failed) each->was_told_ = true;
  return first;
}

}  // namespace penstock::inline v0
