#include "support/fake_cuda/fake_streams.h"

#include <algorithm>
#include <utility>

namespace penstock::test {

fake_streams::fake_streams() = default;

fake_streams::~fake_streams() {
  {
    const guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void fake_streams::configure(std::uint64_t seed, bool lazy, unsigned max_delay_us) {
  guard lock(mutex_);
  random_.seed(seed);
  held_kernels_.reset();
  max_delay_us_ = max_delay_us;
  blocks_one_in_ = 0;
  changed_.notify_all();
  // Otherwise, earlier queued work would never run, and a host thread that waits for it would wait for ever.
  if (lazy && !lazy_) run_until_empty(lock);
  lazy_ = lazy;
  changed_.notify_all();
}

void fake_streams::block_at_random(unsigned one_in) {
  const guard lock(mutex_);
  blocks_one_in_ = one_in;
}

void fake_streams::maybe_block(const fake_stream& stream) {
  guard lock(mutex_);
  if (blocks_one_in_ == 0 || random_() % blocks_one_in_ != 0) return;
  const std::uint64_t until = stream.queued;
  run_until(lock, [&] { return stream.ended >= until; });
}

void fake_streams::hold_kernels(const char* name) {
  const guard lock(mutex_);
  held_kernels_.reset();
  if (name != nullptr) held_kernels_.emplace(name);
  changed_.notify_all();
}

void fake_streams::discard(bool all) {
  guard lock(mutex_);
  // Work that was queued before it ended is also lost.
  if (discards_ && !all) run_until_empty(lock);
  discards_ = all;
  held_kernels_.reset();
  changed_.notify_all();
}

void fake_streams::add(std::shared_ptr<fake_stream> stream) {
  const guard lock(mutex_);
  streams_.push_back(std::move(stream));
  if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
}

void fake_streams::remove(const std::shared_ptr<fake_stream>& stream) {
  const guard lock(mutex_);
  if (stream->queue.empty() && !stream->running) {
    std::erase(streams_, stream);
  } else {
    removed_.insert(stream.get());
  }
}

// The legacy stream waits for the blocking streams of its device, and they for it.
void fake_streams::add_implicit_order(fake_stream& stream, fake_operation& what) {
  if (!stream.blocking && !stream.legacy) return;
  for (const auto& other : streams_) {
    if (other.get() == &stream || other->device != stream.device) continue;
    if ((stream.legacy && other->blocking) || (other->legacy && stream.blocking))
      what.after.emplace_back(other, other->queued);
  }
}

void fake_streams::enqueue(fake_stream& stream, fake_operation what) {
  const guard lock(mutex_);
  add_implicit_order(stream, what);
  ++stream.queued;
  stream.queue.push_back(std::move(what));
  changed_.notify_all();
}

void fake_streams::record(fake_stream& stream, std::shared_ptr<fake_event> event) {
  const guard lock(mutex_);
  fake_operation what;
  what.record = event->last = std::make_shared<fake_mark>();
  add_implicit_order(stream, what);
  ++stream.queued;
  stream.queue.push_back(std::move(what));
  changed_.notify_all();
}

void fake_streams::wait(fake_stream& stream, std::shared_ptr<fake_event> event) {
  const guard lock(mutex_);
  fake_operation what;
  what.wait_for = event->last;  // a wait for an event that was never recorded does nothing, as in the driver
  add_implicit_order(stream, what);
  ++stream.queued;
  stream.queue.push_back(std::move(what));
  changed_.notify_all();
}

void fake_streams::record_all(int device, std::shared_ptr<fake_event> event) {
  const guard lock(mutex_);
  auto carrier = std::make_shared<fake_stream>();
  carrier->device = device;
  carrier->blocking = false;
  fake_operation what;
  what.record = event->last = std::make_shared<fake_mark>();
  for (const auto& other : streams_)
    if (other->device == device) what.after.emplace_back(other, other->queued);
  carrier->queued = 1;
  carrier->queue.push_back(std::move(what));
  removed_.insert(carrier.get());
  streams_.push_back(std::move(carrier));
  changed_.notify_all();
}

bool fake_streams::ready(const fake_stream& stream) const {
  if (stream.running || stream.queue.empty()) return false;
  const fake_operation& next = stream.queue.front();
  if (next.kernel != nullptr && held_kernels_ && (held_kernels_->empty() || *held_kernels_ == next.kernel))
    return false;
  if (next.wait_for && !next.wait_for->reached) return false;
  return std::all_of(next.after.begin(), next.after.end(),
                     [](const auto& each) { return each.first->ended >= each.second; });
}

// Runs one operation that may run, of any stream; false if all must wait.
bool fake_streams::run_one(guard& lock) {
  std::vector<std::shared_ptr<fake_stream>> ready_ones;
  for (const auto& each : streams_)
    if (ready(*each)) ready_ones.push_back(each);
  if (ready_ones.empty()) return false;
  const std::shared_ptr<fake_stream> stream = ready_ones[random_() % ready_ones.size()];
  fake_operation what = std::move(stream->queue.front());
  stream->queue.pop_front();
  stream->running = true;
  const auto delay = std::chrono::microseconds(max_delay_us_ == 0 || lazy_ ? 0 : random_() % max_delay_us_);
  const bool runs = what.run && !discards_;
  lock.unlock();
  if (delay.count() != 0) std::this_thread::sleep_for(delay);
  if (runs) what.run();
  lock.lock();
  stream->running = false;
  ++stream->ended;
  if (what.record) {
    what.record->reached = true;
    what.record->when = std::chrono::steady_clock::now();
  }
  if (stream->queue.empty() && removed_.erase(stream.get()) != 0) std::erase(streams_, stream);
  changed_.notify_all();
  return true;
}

void fake_streams::run_until(guard& lock, const std::function<bool()>& reached) {
  while (!reached()) {
    if (lazy_ && run_one(lock)) continue;
    changed_.wait(lock);
  }
}

void fake_streams::synchronize(const fake_stream& stream) {
  guard lock(mutex_);
  const std::uint64_t until = stream.queued;
  run_until(lock, [&] { return stream.ended >= until; });
}

void fake_streams::synchronize(const fake_event& event) {
  guard lock(mutex_);
  const std::shared_ptr<fake_mark> until = event.last;
  run_until(lock, [&] { return !until || until->reached; });
}

void fake_streams::synchronize_all() {
  guard lock(mutex_);
  run_until_empty(lock);
}

void fake_streams::run_until_empty(guard& lock) {
  run_until(lock, [&] {
    return std::all_of(streams_.begin(), streams_.end(),
                       [](const auto& each) { return each->queue.empty() && !each->running; });
  });
}

bool fake_streams::done(const fake_event& event) {
  const guard lock(mutex_);
  return !event.last || event.last->reached;
}

bool fake_streams::done(const fake_stream& stream) {
  const guard lock(mutex_);
  return stream.queue.empty() && !stream.running;
}

std::shared_ptr<fake_mark> fake_streams::last_of(const fake_event& event) {
  const guard lock(mutex_);
  return event.last;
}

int fake_streams::pump(int most) {
  guard lock(mutex_);
  int ran = 0;
  while (ran < most && run_one(lock)) ++ran;
  return ran;
}

bool fake_streams::pending() {
  const guard lock(mutex_);
  return std::any_of(streams_.begin(), streams_.end(), [&](const auto& each) { return ready(*each); });
}

void fake_streams::serve() {
  guard lock(mutex_);
  while (!stop_) {
    if (!lazy_ && run_one(lock)) continue;
    changed_.wait(lock);
  }
}

}  // namespace penstock::test
