#include "cuda/completion_queue.h"

#include <algorithm>
#include <utility>

#include "base/system_calls.h"

namespace penstock::inline v0::cuda {
namespace {

constexpr std::chrono::microseconds kShortestPause{20}, kLongestPause{1000};

}  // namespace

void completion_queue::start(context_ref context, std::function<void()> take) {
  thread_ = std::thread([this, context, take = std::move(take)] { serve(context, take); });
}

void completion_queue::stop() noexcept {
  {
    const mutex_lock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void completion_queue::abandon() noexcept {
  const mutex_lock lock(mutex_);
  for (auto& each : streams_) each.clear();
  queued_ = 0;
}

void completion_queue::push(unsigned stream, const completion& what) {
  const mutex_lock lock(mutex_);
  streams_[stream].push_back(what);
  pushed_ = true;
  if (queued_++ == 0) changed_.notify_one();
}

bool completion_queue::idle(unsigned stream) const {
  const mutex_lock lock(mutex_);
  return streams_[stream].empty();
}

driver_status completion_queue::take_reached(std::vector<completion>& out) {
  const mutex_lock lock(mutex_);
  for (auto& stream : streams_) {
    while (!stream.empty()) {
      const driver_status status = driver_.event_query(stream.front().event);
      if (status == kNotReady) break;
      if (status != kSuccess) return status;
      out.push_back(stream.front());
      stream.pop_front();
      --queued_;
    }
  }
  return kSuccess;
}

// Also if a query fails.
bool completion_queue::any_reached() const {
  return std::any_of(streams_.begin(), streams_.end(), [&](const std::deque<completion>& each) {
    return !each.empty() && driver_.event_query(each.front().event) != kNotReady;
  });
}

void completion_queue::serve(context_ref context, const std::function<void()>& take) {
  wait_precisely();  // Linux's default of 50 us is longer than the shortest pause
  const current_context current(driver_, context);
  auto pause = kShortestPause;
  const mutex_lock lock(mutex_);
  for (;;) {
    while (!stop_ && queued_ == 0) changed_.wait(mutex_);
    // A push to other streams does not wake the thread, and an early end of the pause does no harm.
    if (!stop_) changed_.wait_for(mutex_, pause);
    if (stop_) return;
    const bool reached = any_reached();
    pause = std::exchange(pushed_, false) || reached ? kShortestPause : std::min(2 * pause, kLongestPause);
    if (!reached) continue;
    const mutex_unlock unlocked(mutex_);
    take();
  }
}

}  // namespace penstock::inline v0::cuda
