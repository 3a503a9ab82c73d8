// The background thread of an appender.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "api/append/appender_state.h"
#include "api/device_copy.h"
#include "base/thrown.h"
#include "engine/array_state.h"

namespace penstock::inline v0 {

void appender_state::serve(const std::shared_ptr<appender_state>& self) {
  guard lock(self->mutex_);
  self->work(lock);
  self->running_ = false;
  self->changed_.notify_all();
}

// Returns when no work is left, and after an error.
void appender_state::work(guard& lock) {
  while (!stalled_ && !broken_) {
    const bool is_wanted = wanted_ > stored_ && written_ >= wanted_;
    const std::uint64_t count = writable();
    if (count == 0) gathers_until_.reset();
    // A new turn writes rows before it publishes, even if the interval is very short.
    const bool is_due = clock::now() >= publish_at_ && (count == 0 || written_ > stored_);
    if (session_ != nullptr && (is_wanted || is_due)) {
      publish(lock);
    } else if (count > 0 && waits_for_more()) {
      const bool has_unnamed = session_ != nullptr && written_ > stored_;
      changed_.wait_until(lock, has_unnamed ? std::min(*gathers_until_, publish_at_) : *gathers_until_);
    } else if (count > 0 && session_ != nullptr) {
      write_some(lock, count);
    } else if (count > 0) {
      open_session(lock);
    } else if (session_ == nullptr) {
      return;
    } else {
      changed_.wait_until(lock, publish_at_);
    }
  }
}

// The end of the array is known now, and may differ from the expected one: other writers append, too.
void appender_state::open_session(guard& lock) {
  busy_ = true;
  lock.unlock();
  auto begun = caught("the store", [&] { return append_session::begin(to_, axis_, {}); });
  lock.lock();
  busy_ = false;
  if (!begun.ok()) {
    fail(std::move(begun).error());
  } else {
    session_ = std::move(*begun);
    end_ = session_->shape()[axis_];
    publish_at_ = clock::now() + options_.publish_interval;
  }
  changed_.notify_all();
}

void appender_state::write_some(guard& lock, std::uint64_t count) {
  std::shared_ptr<slab> from = slabs_.front();
  const tensor_view rows = part_of(from->rows, from->written, count);
  const std::uint64_t first = written_;
  busy_ = true;
  auto done = fetch_coming(lock, *from, from->written + count);
  lock.unlock();
  write_options options;
  options.threads = options_.threads;
  options.durable = options_.durable;
  options.write_empty_chunks = options_.write_empty_chunks;
  if (done.ok()) done = caught("the store", [&] { return session_->write(rows, options); });
  if (!done.ok()) {
    error why = std::move(done).error();
    why.note(fmt::format("appending rows [{}, {}) of this appender", first, first + count));
    lock.lock();
    busy_ = false;
    fail(std::move(why));
    return publish(lock);  // includes earlier rows, and lets other writers append
  }
  lock.lock();
  busy_ = false;
  is_awaited_ = false;
  from->written += count;
  written_ += count;
  end_ += count;
  if (from->done()) {
    slabs_.pop_front();
    slab_bytes_ -= from->bytes;
    item_bytes_ -= from->item_bytes;
    changed_.notify_all();
    lock.unlock();
    from.reset();  // may wait for a lock of its owner
    lock.lock();
  }
}

void appender_state::publish(guard& lock) {
  const std::uint64_t named = written_;
  busy_ = true;
  lock.unlock();
  auto done = caught("the store", [&] { return session_->publish(options_.durable); });
  // Rows that can no longer be included are lost. Others are tried again: the claim is kept.
  const bool lost = !done.ok() && (session_->lost() || done.error().code() == errc::conflict);
  result<> ended;
  if (done.ok() || lost) ended = end_session();
  lock.lock();
  busy_ = false;
  if (done.ok()) {
    stored_ = named;
  } else {
    error why = std::move(done).error();
    why.note(fmt::format("naming rows [{}, {}) of this appender in the shape", stored_, named));
    broken_ = lost;
    fail(std::move(why));
  }
  if (!ended.ok()) late_errors_.push_back(std::move(ended).error());
  changed_.notify_all();
}

result<> appender_state::end_session() {
  auto ended = caught("the store", [&] { return session_->end(); });
  session_.reset();
  return ended;
}

// For `close`: drops rows that could not be stored.
result<> appender_state::finish(guard& lock) {
  changed_.wait(lock, [&] { return !running_; });
  result<> ended;
  std::deque<std::shared_ptr<slab>> slabs = std::exchange(slabs_, {});
  slab_bytes_ = item_bytes_ = 0;
  lock.unlock();
  if (session_ != nullptr) ended = end_session();
  slabs.clear();
  lock.lock();
  return ended;
}

}  // namespace penstock::inline v0
