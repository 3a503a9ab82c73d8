#include "engine/read_job.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "engine/context_state.h"
#include "engine/pool_executor.h"
#include "engine/read_job_parts.h"

namespace penstock::inline v0 {
namespace {

/// A read gives up when it had to plan again for changed objects this many times more often than a request succeeded.
constexpr unsigned kMaxRedos = 64;
/// Plan batches that are processed at the same time.
constexpr std::size_t kMaxPieces = 4;
/// ... if there are many sources, whose batches are often a single request.
constexpr std::size_t kMaxSourcePieces = 64;

}  // namespace

read_job::read_job(context_state& state, std::weak_ptr<idle_reads> home) noexcept
    : state_(&state), home_(std::move(home)) {}
read_job::~read_job() = default;

void read_job::begin(std::span<const source> sources, settings with) {
  sources_.assign(sources.begin(), sources.end());
  with_ = std::move(with);
  io_concurrency_ = std::max(1U, with_.io_concurrency);
  begun_at_ = with_.keep_alive ? fork_clock::now() : 0;
  if (with_.keep_alive) workers_.resize(with_.workers);
  while (workers_.size() < with_.workers) workers_.push_back(std::make_unique<worker_state>(&state_->accounts()));
  planner_.start(sources_, with_.limits);
  const bool later = std::any_of(sources_.begin(), sources_.end(),
                                 [](const source& each) { return !each.store->traits().inline_completion; });
  stop_source_ = later ? std::stop_source() : std::stop_source(std::nostopstate);
  profiler_ = state_->recording();
  if (profiler_) read_number_ = profiler_->begin_read();
  finished_.store(false, std::memory_order_release);
}

read_job::worker_state& read_job::first_worker() {
  if (workers_.empty()) workers_.push_back(std::make_unique<worker_state>(&state_->accounts()));
  return *workers_.front();
}

void read_job::reset() {
  table_.clear();
  table_is_old_ = planning_ = exhausted_ = cancelled_ = advancing_ = sunk_ = false;
  rounds_ = redos_ = 0;
  redo_cells_.clear();
  missing_.clear();
  next_index_ = index_count_ = indexes_wanted_ = 0;
  for (auto& each : pieces_) {
    each->in_use = false;
    each->kept.clear();
  }
  current_ = nullptr;
  arrived_.clear();
  failure_.reset();
  stop_.store(false, std::memory_order_relaxed);
  then_.clear();
  done_bytes_ = absent_cells_ = encoded_bytes_ = 0;
  failed_cells_ = 0;
  sources_.clear();
  if (with_.failures != nullptr)
    for (auto& each : workers_) each->scratch.forget_own_items();
  with_ = settings();
  profiler_.reset();
  target_ = nullptr;
  flights_.clear();  // waits for storage cost more than an allocation; idle jobs hold little
  free_flights_.clear();
  for (auto& each : workers_) each->reset();
}

job::progress read_job::step(unsigned worker) {
  guard lock(mutex_);
  if (done()) return progress::done;
  if (workers_[worker] == nullptr) workers_[worker] = state_->take_worker();
  cell_sink* const sink = with_.sink.get();
  const bool may_issue = may_send() && (sink == nullptr || sink->has_room());
  const bool held = is_held();
  const bool has_arrived = !held && !arrived_.empty();
  // Requests are made before arrived bytes are processed, so that others are in flight during a decode.
  if (!has_arrived && sink != nullptr && !advancing_ && !sunk_ && sink->can_advance()) {
    advance_sink(lock, false);
  } else if (!stopping() && next_index_ < index_count_ && may_issue) {
    issue_index(lock, worker);
  } else if (!stopping() && current_ != nullptr && may_issue && may_fetch(held) && take_buffer()) {
    issue_fetch(lock, worker);
  } else if (!stopping() && (may_issue || !has_arrived) && may_plan()) {
    run_planner(lock);
  } else if (has_arrived) {
    take_arrived(lock, worker);
  } else if (active_ == 0 && in_flight_ == 0 && (stopping() || is_exhausted())) {
    if (sink != nullptr && !sunk_) {
      advance_sink(lock, true);
      if (!sunk_ && !sink->can_advance()) {
        somebody_idles_ = true;
        return progress::idle;
      }
      return progress::worked;
    }
    finish(lock);
    return progress::done;
  } else if (sink == nullptr || advancing_ || sunk_ || !sink->can_advance()) {
    // A sink that just refused a buffer may have work.
    somebody_idles_ = true;
    if (held && with_.keep_alive) state_->give_worker(std::move(workers_[worker]));  // other reads use its memory
    return progress::idle;
  }
  // The finished work may have created work for idle workers, or ended the read.
  if (somebody_idles_) {
    somebody_idles_ = false;
    wake();
  }
  return progress::worked;
}

// Whether arrived bytes have no target yet. Called with the lock held.
bool read_job::is_held() noexcept {
  // Workers read the sources without the lock.
  if (target_ != nullptr && active_ == 0) {
    sources_.front().to = std::exchange(target_, nullptr);
    with_.waits_for_target = false;
  }
  return with_.waits_for_target && !stopping();
}

// Without a target, requests are made, and nothing is filled. Called with the lock held.
bool read_job::may_fetch(bool held) const noexcept {
  return !held || current_->plan.fetches[current_->next_fetch].what != request::none;
}

bool read_job::is_exhausted() const noexcept {
  return exhausted_ && redo_cells_.empty() && current_ == nullptr && indexes_wanted_ == 0;
}

bool read_job::may_plan() const noexcept {
  if (planning_ || current_ != nullptr || indexes_wanted_ != 0 || (exhausted_ && redo_cells_.empty())) return false;
  const auto used = std::count_if(pieces_.begin(), pieces_.end(), [](const auto& each) { return each->in_use; });
  return static_cast<std::size_t>(used) < (sources_.size() > kMaxPieces ? kMaxSourcePieces : kMaxPieces);
}

// Called and returns with the lock held.
void read_job::advance_sink(guard& lock, bool last) {
  advancing_ = true;
  ++active_;
  if (stopping()) with_.sink->abandon();
  lock.unlock();
  auto outcome = with_.sink->advance(last);
  lock.lock();
  --active_;
  advancing_ = false;
  if (!outcome.ok()) {
    // The device must still be notified of the end of the read, unless the device has failed.
    sunk_ = last;
    fail(std::move(outcome).error());
    return;
  }
  if (last) sunk_ = *outcome;
}

void read_job::nudge() {
  const guard lock(mutex_);
  if (done()) return;
  somebody_idles_ = false;
  wake();
}

bool read_job::count_redo(const std::string& key) {
  if (++redos_ <= kMaxRedos) return true;
  fail(error(errc::conflict, fmt::format("'{}' kept changing while it was read, {} times", key, redos_)));
  return false;
}

void read_job::fail(error what) {
  if (!failure_) {
    if (!with_.note.empty()) what.note(with_.note);
    failure_.emplace(std::move(what));
  }
  stop_.store(true, std::memory_order_relaxed);
}

void read_job::fail_cell(std::uint32_t source, cell_id cell, error what) {
  ++failed_cells_;
  if (with_.failures->size() < with_.max_failures) with_.failures->push_back({source, cell, std::move(what)});
}

void read_job::finish(guard& lock) {
  finished_.store(true, std::memory_order_release);
  auto then = std::move(then_);
  then_.clear();
  const auto keep_alive = std::move(with_.keep_alive);
  with_.keep_alive.reset();
  const auto sink = std::move(with_.sink);  // the sink holds the job
  with_.sink.reset();
  if (keep_alive) {
    // It may be the last owner of the context, and a ticket may hold this job for longer: its entries in the context's
    // ledger must be returned first.
    for (auto& each : workers_)
      if (each) state_->give_worker(std::move(each));
    workers_.clear();
    flights_.clear();
  }
  wake();
  ended_.notify_all();
  lock.unlock();
  for (auto& each : then) each();
}

void read_job::give_target(std::byte* to) {
  const guard lock(mutex_);
  if (done()) return;
  target_ = to;
  somebody_idles_ = false;
  wake();
}

void read_job::cancel() noexcept {
  {
    const guard lock(mutex_);
    if (done()) return;
    cancelled_ = true;
    stop_.store(true, std::memory_order_relaxed);
    wake();
  }
  stop_source_.request_stop();
}

result<> read_job::outcome() const {
  guard lock(mutex_, std::defer_lock);
  if (!done()) lock.lock();  // it does not change after the read is done
  if (failure_) return failure_->clone();
  if (cancelled_) return error(errc::cancelled, "the read was cancelled");
  return {};
}

void read_job::wait() {
  if (done()) return;
  const pool_executor::pause leaves_its_place;
  guard lock(mutex_);
  ended_.wait(lock, [&] { return done(); });
}

bool read_job::wait_for(std::chrono::nanoseconds timeout) {
  if (done()) return true;
  const pool_executor::pause leaves_its_place;
  guard lock(mutex_);
  return ended_.wait_for(lock, timeout, [&] { return done(); });
}

void read_job::on_done(std::function<void()> then) {
  {
    const guard lock(mutex_);
    if (!done()) {
      then_.push_back(std::move(then));
      return;
    }
  }
  then();
}

void read_job::timed(stage what, unsigned worker, std::uint64_t begin_ns, std::uint64_t operation,
                     std::uint64_t bytes_in, std::uint64_t bytes_out) const {
  if (!profiler_) return;
  profiler_->record({what, worker, read_number_, operation, begin_ns, profiler_->now(), bytes_in, bytes_out});
}

}  // namespace penstock::inline v0
