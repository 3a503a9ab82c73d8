#include "engine/write_job.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "codec/codec_chain.h"
#include "engine/cell_source.h"
#include "engine/context_state.h"
#include "engine/write_fence.h"
#include "engine/write_job_parts.h"

namespace penstock::inline v0 {
namespace {

/// Memory that an idle job keeps, in each of its uses.
constexpr std::uint64_t kMaxKeptBytes = std::uint64_t{8} << 20;

/// Staged objects are published when they reach this number or size: one wait for the device then serves all of them,
/// and an interrupted write loses no more.
constexpr std::size_t kMostStaged = 64;
constexpr std::uint64_t kMostStagedBytes = std::uint64_t{256} << 20;

}  // namespace

write_job::write_job(context_state& state) noexcept : state_(&state) {}
write_job::~write_job() = default;

void write_job::begin(std::span<const source> sources, const settings& with) {
  sources_.assign(sources.begin(), sources.end());
  layout_ = sources_.front().layout;
  with_ = with;
  const store_traits traits = with.to->traits();
  versions_ = traits.versions && with.conditional;
  careful_ = with.fence != nullptr && with.fence->guard() != nullptr && versions_ && !traits.guards;
  inline_writes_ = traits.inline_writes;
  if (!inline_writes_ || !sources_.front().store->traits().inline_completion) stop_flights_ = std::stop_source();
  // A late writer can only be refused by an existing object.
  with_.write_empty_chunks = with_.write_empty_chunks || careful_;
  profiler_ = state_->recording();
  if (profiler_) write_number_ = profiler_->begin_write();
  if (with_.values != nullptr) with_.values->record_as({profiler_, write_number_});
  with_.workers = std::min(with_.workers, most_workers());
  while (workers_.size() < with_.workers) workers_.push_back(std::make_unique<worker_state>(&state_->accounts()));
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  for (source_at_ = sources_.size(); source_at_-- > 0;) {
    walk_.start(sources_[source_at_]);
    if (!checked_add(total_objects_, walk_.total_objects(), total_objects_)) total_objects_ = kMost;
    if (!checked_add(total_cells_, walk_.total_cells(), total_cells_)) total_cells_ = kMost;
  }
  source_at_ = 0;
  if (!checked_mul(total_cells_, layout_->chains()[0].decoded_bytes(), total_bytes_)) total_bytes_ = kMost;
  finished_.store(false, std::memory_order_release);
}

// Fewer workers if the memory limit is too small for a large cell of each: decoded, through its stages, encoded.
unsigned write_job::most_workers() const {
  const codec_chain& chain = layout_->chains()[0];
  std::uint64_t bytes = chain.decoded_bytes();
  std::uint64_t buffers = encodes_elsewhere(chain) ? 2 : 1;
  buffers += std::min<std::uint64_t>(2, chain.stages() > 0 ? chain.stages() - 1 : 0);
  for (; buffers > 0; --buffers)
    if (!checked_add(bytes, chain.max_encoded_bytes(), bytes)) return 1;
  const std::uint64_t most = state_->accounts().memory_limit() / std::max<std::uint64_t>(1, bytes);
  return static_cast<unsigned>(std::clamp<std::uint64_t>(most, 1, ~0U));
}

void write_job::reset() {
  opening_ = exhausted_ = cancelled_ = somebody_idles_ = false;
  for (auto& each : objects_)
    if (each->what != open_object::phase::closed) close(*each);
  staged_.clear();
  again_.clear();
  stop_flights_ = std::stop_source(std::nostopstate);
  written_ = total_bytes_ = total_objects_ = total_cells_ = staged_bytes_ = 0;
  failure_.reset();
  stop_.store(false, std::memory_order_relaxed);
  done_bytes_ = 0;
  sources_.clear();
  layout_ = nullptr;
  with_ = settings();
  profiler_.reset();
  std::uint64_t kept = 0;
  std::erase_if(free_blocks_, [&](const auto& each) {
    kept += each->capacity();
    return kept > kMaxKeptBytes;
  });
  for (auto& each : workers_) {
    each->current = nullptr;
    each->current_opening = 0;
    if (each->cell.capacity() > kMaxKeptBytes) each->cell.free();
    if (each->before.capacity() > kMaxKeptBytes) each->before.free();
    if (each->encoded.capacity() > kMaxKeptBytes) each->encoded.free();
    each->scratch.free_large(kMaxKeptBytes);
  }
}

job::progress write_job::step(unsigned worker) {
  guard lock(mutex_);
  if (done()) return progress::done;
  open_object* found[5] = {};  // by phase, the first of each
  for (auto& each : objects_) {
    const auto phase = each->what;
    if (phase == open_object::phase::encode && !may_encode(*each)) continue;
    if (phase == open_object::phase::closed || phase >= open_object::phase::busy) continue;
    open_object*& first = found[static_cast<std::size_t>(phase)];
    if (first == nullptr) first = each.get();
  }
  const auto of = [&](open_object::phase phase) { return found[static_cast<std::size_t>(phase)]; };
  if (stopping()) {
    if (active_ == 0 && flights_ == 0) {
      staged_.clear();
      finished_.store(true, std::memory_order_release);
      wake();
      return progress::done;
    }
    somebody_idles_ = true;
    return progress::idle;
  }
  if (open_object* const ready = of(open_object::phase::commit)) {
    commit(lock, *ready, worker);
  } else if (open_object* const open = of(open_object::phase::encode)) {
    encode_some(lock, *open, worker);
  } else if (open_object* const read = of(open_object::phase::answered)) {
    take_answer(lock, *read, worker);
  } else if (open_object* const unread = of(open_object::phase::load)) {
    load(lock, *unread, worker);
  } else if (staged_.size() >= kMostStaged || staged_bytes_ >= kMostStagedBytes) {
    publish(lock, worker);
  } else if (!again_.empty() && open_count_ - flights_ < with_.workers) {
    reopen(lock);
  } else if (may_open()) {
    open_next(lock);
  } else if (exhausted_ && open_count_ == 0 && !staged_.empty()) {
    publish(lock, worker);
  } else if (exhausted_ && open_count_ == 0 && publishing_ == 0 && again_.empty()) {
    finished_.store(true, std::memory_order_release);
    wake();
    return progress::done;
  } else {
    somebody_idles_ = true;
    return progress::idle;
  }
  wake_idle();
  return progress::worked;
}

// Half of the memory is for objects that are open; the other half is for the encoded bytes of their remaining cells.
bool write_job::may_open() const noexcept {
  if (exhausted_ || opening_ || open_count_ - flights_ >= with_.workers) return false;
  if (open_count_ == 0) return true;
  const ledger& accounts = state_->accounts();
  return flights_ < state_->io_concurrency() &&
         accounts.held(memory_use::encoded) + held_old_bytes_ <= accounts.memory_limit() / 2;
}

// Takes an object from those without a worker. Returns without the lock.
void write_job::begin_work(guard& lock, open_object& of) {
  of.what = open_object::phase::busy;
  ++active_;
  lock.unlock();
}

// Passes an object on to the store. Returns the number of the request. Called with the lock held.
std::uint64_t write_job::begin_flight(open_object& of) {
  of.what = open_object::phase::flight;
  ++flights_;
  --active_;
  return of.flight = ++launches_;
}

// Whether the store has not completed that request. Called without the lock, after an exception of the store.
bool write_job::is_in_flight(const open_object& of, std::uint64_t flight) const {
  const guard lock(mutex_);
  return of.flight == flight;
}

// The finished work may have created work for idle workers, or ended the write.
void write_job::wake_idle() {
  if (std::exchange(somebody_idles_, false)) wake();
}

void write_job::fail(std::string_view key, error what) {
  if (!failure_) {
    if (!key.empty()) what.note(fmt::format("writing '{}'", key));
    failure_.emplace(std::move(what));
  }
  stop_.store(true, std::memory_order_relaxed);
}

void write_job::cancel() noexcept {
  std::stop_source flights{std::nostopstate};
  {
    const guard lock(mutex_);
    if (done()) return;
    cancelled_ = true;
    stop_.store(true, std::memory_order_relaxed);
    flights = stop_flights_;
    wake();
  }
  flights.request_stop();  // without the lock: stopped puts may complete here
}

result<> write_job::outcome() const {
  const guard lock(mutex_);
  const auto written = [&] { return fmt::format("{} of {} objects were written before", written_, total_objects_); };
  if (failure_) {
    error out = failure_->clone();
    return std::move(out).note(written());
  }
  // An object whose put was running when the write was cancelled may have been the last.
  if (cancelled_ && written_ < total_objects_) return error(errc::cancelled, "the write was cancelled").note(written());
  return {};
}

void write_job::record(stage what, unsigned worker, std::uint64_t operation, std::uint64_t begin_ns,
                       std::uint64_t bytes_in, std::uint64_t bytes_out) const {
  if (profiler_)
    profiler_->record({what, worker, write_number_, operation, begin_ns, profiler_->now(), bytes_in, bytes_out});
}

}  // namespace penstock::inline v0
