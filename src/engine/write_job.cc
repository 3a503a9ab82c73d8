#include "engine/write_job.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "codec/codec_chain.h"
#include "engine/cell_source.h"
#include "engine/context_state.h"
#include "engine/index_io.h"
#include "engine/write_fence.h"
#include "engine/write_job_parts.h"

namespace penstock::inline v0 {
namespace {

/// Cells that a worker takes at once decode to about this much: the lock is then no cost.
constexpr std::uint64_t kTakeBytes = std::uint64_t{128} << 10;
/// Encoded cells of one object that a worker puts into one block of memory, at the most they can take. What a write
/// holds beyond its encoded cells is less than one such block for each worker in each open object.
constexpr std::uint64_t kBlockBytes = std::uint64_t{4} << 20;
/// Memory that an idle job keeps, in each of its uses.
constexpr std::uint64_t kMaxKeptBytes = std::uint64_t{8} << 20;
/// Up to this size memory is the job's own, above it comes from the context's pool.
constexpr std::uint64_t kSmallBytes = std::uint64_t{1} << 20;
/// An object that was changed by others so many times between being read and being put is given up.
constexpr unsigned kMaxTries = 200;
constexpr unsigned kTriesWithoutPause = 2;
/// Staged objects are published when there are so many or they have so many bytes: one wait for the device then serves
/// them all, and an interrupted write loses no more.
constexpr std::size_t kMostStaged = 64;
constexpr std::uint64_t kMostStagedBytes = std::uint64_t{256} << 20;
constexpr std::chrono::microseconds kFirstPause{100}, kLongestPause{20'000};

// Before an object is tried again. Pauses grow, and differ, so that writers get out of each other's way.
void pause_before(unsigned tries, std::uint64_t salt) {
  if (tries <= kTriesWithoutPause) return;
  const auto most =
      std::min(kLongestPause, kFirstPause * (std::int64_t{1} << std::min(tries - kTriesWithoutPause, 16U)));
  salt = (salt + tries) * 0x9E3779B97F4A7C15U;
  const auto part = static_cast<std::int64_t>(salt >> 33 & 1023);
  std::this_thread::sleep_for(most * part / 1024);
}

}  // namespace

write_job::open_object::open_object(write_job& owner) : job(owner), reader(*this) {}

write_job::open_object::old_bytes::old_bytes(open_object& of)
    : of_(of), small_(&of.job.state_->accounts(), memory_use::encoded) {}

void write_job::open_object::old_bytes::complete(std::uint64_t, result<read_done> done) {
  of_.job.arrived(of_, std::move(done));
}

result<std::span<std::byte>> write_job::open_object::old_bytes::reserve(std::uint64_t bytes) {
  if (bytes <= kSmallBytes) return small_.reserve(bytes);
  if (large_.bytes() < bytes) {
    large_ = output_block();
    PENSTOCK_ASSIGN(large_, of_.job.state_->outputs().take(bytes));
  }
  return std::span(large_.data(), static_cast<std::size_t>(bytes));
}

void write_job::open_object::written::complete(std::uint64_t, result<version> done) {
  of_.job.put_ended(of_, std::move(done));
}

void write_job::open_object::old_bytes::forget() { large_ = output_block(); }

write_job::block::block(context_state& state) : state_(state), small_(&state.accounts(), memory_use::encoded) {}
write_job::block::~block() { free(); }

void write_job::block::free() noexcept {
  small_.free();
  if (large_.bytes() > 0) state_.accounts().give(memory_use::encoded, large_.bytes());
  large_ = output_block();
}

result<> write_job::block::reserve(std::uint64_t bytes) {
  used = 0;
  if (bytes <= capacity()) return {};
  free();
  if (bytes <= kSmallBytes) {
    PENSTOCK_TRY(small_.reserve(bytes));
    return {};
  }
  PENSTOCK_TRY(state_.accounts().take(memory_use::encoded, bytes));
  auto taken = state_.outputs().take(bytes);
  if (!taken.ok()) {
    state_.accounts().give(memory_use::encoded, bytes);
    return std::move(taken).error();
  }
  large_ = std::move(*taken);
  return {};
}

write_job::write_job(context_state& state) noexcept : state_(&state) {}
write_job::~write_job() = default;

void write_job::begin(const source& from, const settings& with) {
  from_ = from;
  with_ = with;
  const store_traits traits = with.to->traits();
  versions_ = traits.versions;
  careful_ = with.fence != nullptr && with.fence->guard() != nullptr && versions_ && !traits.guards;
  inline_writes_ = traits.inline_writes;
  if (!inline_writes_ || !from.store->traits().inline_completion) stop_flights_ = std::stop_source();
  // A writer that continues late can only be refused where an object stands in its way.
  with_.write_empty_chunks = with_.write_empty_chunks || careful_;
  profiler_ = state_->recording();
  if (profiler_) write_number_ = profiler_->begin_write();
  if (with_.values != nullptr) with_.values->record_as({profiler_, write_number_});
  with_.workers = std::min(with_.workers, most_workers());
  while (workers_.size() < with_.workers) workers_.push_back(std::make_unique<worker_state>(&state_->accounts()));
  walk_.start(from_);
  std::uint64_t cell_bytes = from_.layout->chains()[0].decoded_bytes();
  total_bytes_ = cell_bytes == 0 || walk_.total_cells() <= ~std::uint64_t{0} / cell_bytes
                     ? walk_.total_cells() * cell_bytes
                     : ~std::uint64_t{0};
  finished_.store(false, std::memory_order_release);
}

// Fewer workers where the memory limit would not do for a large cell of each: decoded, through its stages, encoded.
unsigned write_job::most_workers() const {
  const codec_chain& chain = from_.layout->chains()[0];
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
  written_ = total_bytes_ = staged_bytes_ = 0;
  failure_.reset();
  stop_.store(false, std::memory_order_relaxed);
  done_bytes_ = 0;
  from_ = source();
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
    for (std::size_t i = 0; i < 3; ++i)
      if (each->scratch.stage(i).capacity() > kMaxKeptBytes) each->scratch.stage(i).free();
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

// What was done may have made work, or the end, for those who found none.
void write_job::wake_idle() {
  if (std::exchange(somebody_idles_, false)) wake();
}

// Half of the memory is for the objects that are open, the other half for what their cells still come to.
bool write_job::may_open() const noexcept {
  if (exhausted_ || opening_ || open_count_ - flights_ >= with_.workers) return false;
  if (open_count_ == 0) return true;
  const ledger& accounts = state_->accounts();
  return flights_ < state_->io_concurrency() &&
         accounts.held(memory_use::encoded) + held_old_bytes_ <= accounts.memory_limit() / 2;
}

// Comes and leaves with the lock, as all that takes it.
void write_job::open_next(guard& lock) {
  open_object& of = take_closed();
  opening_ = true;
  ++active_;
  lock.unlock();
  const bool any = walk_.next(of.touched);
  result<> listed = any ? list_cells(of) : result<>();
  lock.lock();
  opening_ = false;
  --active_;
  if (!any) {
    exhausted_ = true;
    close(of);
  } else if (!listed.ok()) {
    fail(of.key, std::move(listed).error());
  } else {
    const bool at_once = of.covered || (careful_ && of.replaced);
    of.what = at_once ? open_object::phase::encode : open_object::phase::load;
  }
}

// Whether a cell of an object in the phase `encode` may be given to a worker.
bool write_job::may_encode(const open_object& of) noexcept {
  if (of.waits_for_memory || (of.starts_over && of.encoding > 0)) return false;
  return of.starts_over || of.next < of.cells.size();
}

// Needs the lock. Forgets what the object was encoded to, in blocks that were as small as memory was short.
void write_job::start_over(open_object& of) {
  of.starts_over = false;
  of.blocks.clear();
  free_blocks_.clear();
  of.opening = ++openings_;  // no worker goes on with a block of before
  for (touched_cell& each : of.cells) each.encoded = false;
  of.unfinished = of.cells.size();
  of.next = 0;
}

void write_job::encode_some(guard& lock, open_object& of, unsigned worker) {
  if (of.starts_over) start_over(of);
  const std::uint64_t cell_bytes = std::max<std::uint64_t>(1, from_.layout->chains()[0].decoded_bytes());
  const auto most = static_cast<std::size_t>(std::max<std::uint64_t>(1, kTakeBytes / cell_bytes));
  const std::size_t begin = of.next;
  // What a redone object has encoded already stays.
  std::size_t count = 0, end = begin;
  for (; end < of.cells.size() && count < most; ++end) count += of.cells[end].encoded ? 0 : 1;
  of.next = end;
  const std::uint64_t ended_before = flights_ended_;
  ++active_;
  ++of.encoding;
  lock.unlock();
  std::optional<error> bad;
  std::size_t encoded = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = begin; i < end && !stopping(); ++i) {
    touched_cell& cell = of.cells[i];
    if (cell.encoded) continue;
    const std::uint64_t begin_ns = now();
    cell.by_source = false;
    auto done = encode_cell(of, cell, worker);
    if (!done.ok()) {
      bad.emplace(std::move(done).error().note("encoding " + from_.layout->describe(cell.cell)));
      break;
    }
    // The source has recorded what it encoded: this worker waited for it.
    if (!cell.by_source)
      record(stage::encode, worker, cell.cell, begin_ns, from_.layout->chains()[cell.chain].decoded_bytes(),
             cell.bytes.size());
    ++encoded;
    if (!cell.counted) bytes += from_.layout->chains()[cell.chain].decoded_bytes();
    cell.counted = true;
  }
  done_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  lock.lock();
  --active_;
  --of.encoding;
  of.unfinished -= encoded;
  if (bad) {
    // What is in flight gives its memory back.
    const bool comes_back = flights_ > 0 || flights_ended_ != ended_before;
    if (bad->code() != errc::resource_exhausted || !comes_back) return fail(of.key, std::move(*bad));
    of.waits_for_memory = flights_ > 0;
    of.starts_over = true;
    return;
  }
  if (of.unfinished == 0) of.what = open_object::phase::commit;
}

// Takes an object from those that have no worker. Leaves without the lock.
void write_job::begin_work(guard& lock, open_object& of) {
  of.what = open_object::phase::busy;
  ++active_;
  lock.unlock();
}

void write_job::commit(guard& lock, open_object& of, unsigned worker) {
  begin_work(lock, of);
  of.worker = worker;
  of.flight_ns = now();
  auto ready = assemble(of, worker);
  if (ready.ok() && *ready && !inline_writes_) {
    lock.lock();
    --active_;
    of.what = open_object::phase::flight;
    ++flights_;
    lock.unlock();
    with_.to->write({&**ready, 1}, of.writer, stop_flights_.get_token());
    lock.lock();
    return;
  }
  result<> done;
  std::unique_ptr<staged_object> begun;
  if (!ready.ok()) {
    done = std::move(ready).error();
  } else if (*ready) {
    auto outcome = put(of, **ready);
    if (outcome.ok()) {
      begun = std::move(*outcome);
    } else {
      done = std::move(outcome).error();
    }
  }
  const std::uint64_t bytes = done.ok() ? of.assembled.bytes : 0;
  record(stage::commit, worker, of.object, of.flight_ns, bytes, bytes);
  lock.lock();
  --active_;
  if (begun) {
    staged_.push_back({std::move(begun), std::move(of.touched), of.object, of.key, bytes, of.tries});
    staged_bytes_ += bytes;
    close(of);
    return;
  }
  ended(of, std::move(done));
}

// An object's put or erase has ended; on any thread.
void write_job::put_ended(open_object& of, result<version> done) {
  // Also after a failure: what the store did then is not known.
  if (from_.uid != 0) state_->indexes().drop(from_.uid, of.object);
  const std::uint64_t bytes = done.ok() ? of.assembled.bytes : 0;
  record(stage::commit, of.worker, of.object, of.flight_ns, bytes, bytes);
  const guard lock(mutex_);
  --flights_;
  ++flights_ended_;
  for (const auto& each : objects_) each->waits_for_memory = false;
  const bool stopped = cancelled_ && !done.ok() && done.error().code() == errc::cancelled;
  if (stopped) {
    close(of);
  } else {
    ended(of, done.ok() ? result<>() : result<>(std::move(done).error()));
  }
  wake_idle();
}

// Needs the lock: an object is done, or begins again, or fails.
void write_job::ended(open_object& of, result<> outcome) {
  if (outcome.ok()) {
    ++written_;
    close(of);
    return;
  }
  if (outcome.error().code() != errc::version_changed) {
    fail(of.key, std::move(outcome).error());
  } else if (++of.tries > kMaxTries) {
    fail(of.key,
         error(errc::conflict, fmt::format("'{}' kept changing while it was written, {} times", of.key, of.tries)));
  }
  of.what = open_object::phase::load;
}

// Names all staged objects.
void write_job::publish(guard& lock, unsigned worker) {
  std::vector<staged> batch = std::exchange(staged_, {});
  staged_bytes_ = 0;
  ++active_;
  ++publishing_;
  lock.unlock();
  const std::uint64_t begin_ns = now();
  std::vector<std::unique_ptr<staged_object>> objects;
  objects.reserve(batch.size());
  for (staged& each : batch) objects.push_back(std::move(each.object));
  std::vector<result<version>> outcomes = with_.to->publish(objects);
  objects.clear();
  std::uint64_t bytes = 0;
  for (const staged& each : batch) {
    bytes += each.bytes;
    if (from_.uid != 0) state_->indexes().drop(from_.uid, each.id);
  }
  record(stage::commit, worker, batch.front().id, begin_ns, bytes, bytes);
  lock.lock();
  --active_;
  --publishing_;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (outcomes[i].ok()) {
      ++written_;
    } else if (outcomes[i].error().code() == errc::version_changed) {
      ++batch[i].tries;
      again_.push_back(std::move(batch[i]));
    } else {
      fail(batch[i].key, std::move(outcomes[i]).error());
    }
  }
}

// Begins an object that was staged and changed by others before it was published. What it was encoded to is gone.
void write_job::reopen(guard& lock) {
  staged which = std::move(again_.back());
  again_.pop_back();
  open_object& of = take_closed();
  of.touched = std::move(which.touched);
  ++active_;
  lock.unlock();
  result<> listed = list_cells(of);
  lock.lock();
  --active_;
  of.tries = which.tries;
  for (touched_cell& each : of.cells) each.counted = true;  // in the progress, the first time
  if (!listed.ok()) {
    fail(of.key, std::move(listed).error());
  } else {
    of.what = open_object::phase::load;
  }
}

// An open object that has nothing in it yet.
write_job::open_object& write_job::take_closed() {
  auto free = std::find_if(objects_.begin(), objects_.end(),
                           [](const auto& each) { return each->what == open_object::phase::closed; });
  if (free == objects_.end()) free = objects_.insert(objects_.end(), std::make_unique<open_object>(*this));
  (*free)->what = open_object::phase::busy;
  (*free)->opening = ++openings_;
  ++open_count_;
  return **free;
}

void write_job::close(open_object& of) {
  of.what = open_object::phase::closed;
  of.cells.clear();
  of.next = of.unfinished = 0;
  of.waits_for_memory = of.starts_over = false;
  of.tries = 0;
  of.old = read_done();
  of.answer.reset();
  hold_old_bytes(of, 0);
  of.existed = of.blind = false;
  of.reader.forget();
  of.indexes.clear();
  for (auto& each : of.blocks) {
    each->used = 0;
    free_blocks_.push_back(std::move(each));
  }
  of.blocks.clear();
  --open_count_;
}

void write_job::record(stage what, unsigned worker, std::uint64_t operation, std::uint64_t begin_ns,
                       std::uint64_t bytes_in, std::uint64_t bytes_out) const {
  if (profiler_)
    profiler_->record({what, worker, write_number_, operation, begin_ns, profiler_->now(), bytes_in, bytes_out});
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
  flights.request_stop();  // without the lock: what is stopped may complete here
}

result<> write_job::outcome() const {
  const guard lock(mutex_);
  const auto written = [&] {
    return fmt::format("{} of {} objects were written before", written_, walk_.total_objects());
  };
  if (failure_) {
    error out = failure_->clone();
    return std::move(out).note(written());
  }
  // An object that was being put when the write was cancelled may have been the last.
  if (cancelled_ && written_ < walk_.total_objects())
    return error(errc::cancelled, "the write was cancelled").note(written());
  return {};
}

// --- one object, without the lock ---

namespace {

// For what the object is to become before it was read: every index says that its object is absent.
class nothing_known final : public index_lookup {
 public:
  const index_entry* find(const index_key&) const override { return &absent_; }

 private:
  index_entry absent_;
};

class table_lookup final : public index_lookup {
 public:
  explicit table_lookup(const index_table& table) noexcept : table_(table) {}
  const index_entry* find(const index_key& key) const override { return table_.find(0, key); }

 private:
  const index_table& table_;
};

// Whether cell `id` has room for elements that the grid's array has not.
bool reaches_beyond(const chunk_grid& grid, chunk_id id) noexcept {
  dim_vector<std::uint64_t> at;
  grid.coordinates(id, at);
  for (std::size_t d = 0; d < grid.rank(); ++d)
    if (grid.axis(d).valid_length(at[d]) < grid.axis(d).codec_length(at[d])) return true;
  return false;
}

part slice_of(part object, const byte_range& range) noexcept {
  if (range.whole()) return object;
  if (range.length > object.size()) return {};
  const auto length = static_cast<std::size_t>(range.length);
  if (range.from_end) return object.last(length);
  if (range.offset > object.size() - length) return {};
  return object.subspan(static_cast<std::size_t>(range.offset), length);
}

}  // namespace

// Fills in the cells that the walk found, and whether the old object is needed.
result<> write_job::list_cells(open_object& of) {
  const chunk_layout& layout = *from_.layout;
  of.object = of.touched.object;
  of.tries = 0;
  layout.key(of.object, of.key);
  of.key.insert(0, from_.prefix);
  of.cells.resize(of.touched.cells.size());
  placement where;
  bool whole = of.touched.valid_cells == of.cells.size();
  for (std::size_t i = 0; i < of.cells.size(); ++i) {
    touched_cell& each = of.cells[i];
    each = touched_cell();
    each.cell = of.touched.cells[i];
    if (!place_cell(from_, each.cell, where)) return error(errc::internal, "a cell that the selection does not touch");
    each.whole = is_whole_cell(from_, each.cell, where);
    each.edge = with_.edges != nullptr && reaches_beyond(layout.grid(), each.cell);
    whole = whole && each.whole;
  }
  of.replaced = whole;
  of.covered = whole && !careful_ && (with_.edges == nullptr || !reaches_beyond(layout.write_grid(), of.object));
  of.next = 0;
  of.unfinished = of.cells.size();
  of.existed = of.blind = false;
  return locate(of, nullptr);
}

// Finds the touched cells in the old object, or only which chain each has.
result<> write_job::locate(open_object& of, const part* old) {
  const chunk_layout& layout = *from_.layout;
  of.located.assign(of.cells.size(), chunk_extent());
  std::vector<index_request> missing;
  const nothing_known nothing;
  const table_lookup known(of.indexes);
  of.indexes.clear();
  for (unsigned round = 0;; ++round) {
    missing.clear();
    const index_lookup& lookup = old == nullptr ? static_cast<const index_lookup&>(nothing) : known;
    PENSTOCK_TRY(layout.locate(of.touched.cells, lookup, of.located, missing));
    if (missing.empty()) break;
    if (old == nullptr || round == kMaxIndexRounds)
      return error(errc::internal, "the layout asks for an index in circles");
    for (const index_request& each : missing) {
      PENSTOCK_ASSIGN(index_ptr parsed, layout.parse(each, slice_of(*old, each.range), old->size()));
      of.indexes.insert(0, each.key).block = std::move(parsed);
    }
  }
  for (std::size_t i = 0; i < of.cells.size(); ++i) {
    touched_cell& cell = of.cells[i];
    const chunk_extent& found = of.located[i];
    cell.chain = found.chain;
    cell.present = old != nullptr && found.state != presence::absent;
    cell.old = found.range;
    of.is_cell = found.state == presence::unknown;
  }
  return {};
}

// What was encoded from an older object is done again; cells that were covered whole keep their bytes.
void write_job::begin_again(open_object& of) const {
  of.unfinished = 0;
  for (touched_cell& each : of.cells) {
    each.encoded = each.encoded && each.whole && !each.edge && !each.unchanged;
    of.unfinished += each.encoded ? 0 : 1;
  }
  of.next = 0;
}

// Begins to look at the old object. Of one whose elements are all replaced, its version may be all that is needed.
void write_job::load(guard& lock, open_object& of, unsigned worker) {
  begin_work(lock, of);
  pause_before(of.tries, reinterpret_cast<std::uintptr_t>(&of) + worker + of.object);
  of.worker = worker;
  of.old = read_done();
  of.existed = of.blind = false;
  if (!of.replaced) return ask(lock, of, true);
  if (versions_) return ask(lock, of, false);
  const auto enough = needs_no_bytes(of);
  if (enough.ok() && !*enough) return ask(lock, of, true);
  loaded(lock, of, enough.ok() ? result<>() : result<>(enough.error().clone()));
}

// Asks the store for the old object's bytes, or for its version. Comes without the lock and leaves with it, and without
// the object: its answer may have arrived, and another worker may have it.
void write_job::ask(guard& lock, open_object& of, bool for_bytes) {
  of.asked_for_bytes = for_bytes;
  of.flight_ns = now();
  byte_read read;
  read.key = of.key;
  read.buffer = &of.reader;
  if (for_bytes) {
    read.max_bytes = most_old_bytes(of);
  } else {
    read.range.length = 0;
  }
  lock.lock();
  // What will arrive counts now: many objects may be asked for before the first of them is here.
  if (for_bytes) hold_old_bytes(of, std::min(read.max_bytes, state_->accounts().memory_limit() / 2));
  of.what = open_object::phase::flight;
  ++flights_;
  --active_;
  lock.unlock();
  from_.store->read({&read, 1}, of.reader, stop_flights_.get_token());
  lock.lock();
}

// The store's answer, on any thread.
void write_job::arrived(open_object& of, result<read_done> done) {
  const guard lock(mutex_);
  hold_old_bytes(of, done.ok() ? done->bytes.size() : 0);
  of.answer.emplace(std::move(done));
  of.what = open_object::phase::answered;
  --flights_;
  wake_idle();
}

// Needs the lock.
void write_job::hold_old_bytes(open_object& of, std::uint64_t bytes) noexcept {
  held_old_bytes_ -= of.old_bytes_held;
  held_old_bytes_ += of.old_bytes_held = bytes;
}

void write_job::take_answer(guard& lock, open_object& of, unsigned worker) {
  begin_work(lock, of);
  of.worker = worker;
  if (profiler_) profiler_->record_request(of.old_bytes_held);
  if (of.asked_for_bytes) {
    record(stage::fetch, worker, of.object, of.flight_ns, of.old_bytes_held, 0);
    return loaded(lock, of, take_bytes(of));
  }
  const auto enough = take_version(of);
  if (enough.ok() && !*enough) return ask(lock, of, true);
  loaded(lock, of, enough.ok() ? result<>() : result<>(enough.error().clone()));
}

// Of an object whose elements are all replaced: its version, and whether that is all that is needed of it.
result<bool> write_job::take_version(open_object& of) {
  result<read_done> done = std::move(*of.answer);
  of.answer.reset();
  if (!done.ok() && done.error().code() != errc::not_found)
    return std::move(done).error().note(read_note(of.key, {0, 0, false}));
  if (!done.ok()) {
    of.blind = true;
    PENSTOCK_TRY(locate(of, nullptr));
    begin_again(of);
    return true;
  }
  if (!done->seen.known()) return false;
  of.old.seen = std::move(done->seen);
  PENSTOCK_ASSIGN(const bool enough, needs_no_bytes(of));
  if (!enough) of.old = read_done();
  return enough;
}

// Whether an object whose elements are all replaced, and whose version has been seen, needs no more of the old one.
result<bool> write_job::needs_no_bytes(open_object& of) {
  // In this order: elements that were written beyond the edge after the version was seen make the put fail, and those
  // before show as an append under way, or as a longer array.
  if (careful_) PENSTOCK_TRY(with_.fence->check());
  if (with_.edges != nullptr && !with_.edges->quiet()) return false;
  of.existed = of.blind = true;
  PENSTOCK_TRY(locate(of, nullptr));
  begin_again(of);
  return true;
}

// Finds in the old object what is to be changed.
result<> write_job::take_bytes(open_object& of) {
  result<read_done> done = std::move(*of.answer);
  of.answer.reset();
  if (done.ok()) {
    of.old = std::move(*done);
    of.existed = true;
  } else if (done.error().code() != errc::not_found) {
    return std::move(done).error().note(read_note(of.key, {}));
  }
  if (careful_) PENSTOCK_TRY(with_.fence->check());
  result<> located = locate(of, of.existed ? &of.old.bytes : nullptr);
  if (!located.ok()) return std::move(located).error().note(read_note(of.key, {}));
  begin_again(of);
  return {};
}

// All that is needed of the old object is known, or that failed. Leaves with the lock.
void write_job::loaded(guard& lock, open_object& of, result<> outcome) {
  lock.lock();
  --active_;
  if (!outcome.ok()) {
    fail(of.key, std::move(outcome).error());
  } else {
    of.what = of.unfinished == 0 ? open_object::phase::commit : open_object::phase::encode;
  }
}

// The most bytes that an old object is taken to have: its cells and its index, and as much again for holes.
std::uint64_t write_job::most_old_bytes(const open_object& of) const {
  const chunk_layout& layout = *from_.layout;
  const std::uint64_t cell_bytes = layout.chains()[of.cells[0].chain].max_encoded_bytes();
  if (of.is_cell) return cell_bytes;
  constexpr std::uint64_t kIndexBytes = 64, kMarginBytes = std::uint64_t{1} << 20;
  dim_vector<std::uint64_t> object, cell;
  layout.write_grid().coordinates(of.object, object);
  layout.grid().coordinates(of.cells[0].cell, cell);
  std::uint64_t bytes = 0;
  bool fits = checked_add(cell_bytes, kIndexBytes, bytes);
  for (std::size_t d = 0; d < object.size() && fits; ++d) {
    // Cells beyond the array's edge too: the array may have been larger.
    const std::uint64_t length = layout.write_grid().axis(d).codec_length(object[d]);
    const std::uint64_t step = layout.grid().axis(d).codec_length(cell[d]);
    fits = checked_mul(bytes, length / step + (length % step != 0), bytes);
  }
  fits = fits && checked_mul(bytes, 2, bytes) && checked_add(bytes, kMarginBytes, bytes);
  return fits ? bytes : byte_range::kAll;
}

// A block with room for `bytes`, and for up to that many more cells.
result<std::unique_ptr<write_job::block>> write_job::take_block(std::uint64_t bytes, std::uint64_t cells) {
  std::unique_ptr<block> out;
  {
    const guard lock(mutex_);
    const auto fits = std::find_if(free_blocks_.rbegin(), free_blocks_.rend(),
                                   [&](const auto& each) { return each->capacity() >= bytes; });
    const auto at =
        fits == free_blocks_.rend() ? free_blocks_.end() - (free_blocks_.empty() ? 0 : 1) : std::next(fits).base();
    if (at != free_blocks_.end()) {
      out = std::move(*at);
      free_blocks_.erase(at);
    }
  }
  if (!out) out = std::make_unique<block>(*state_);
  if (out->capacity() < bytes) {
    std::uint64_t size = 0;
    if (!checked_mul(bytes, cells, size) || size > kBlockBytes) size = std::max(bytes, kBlockBytes);
    auto taken = out->reserve(size);
    if (!taken.ok()) {
      const guard lock(mutex_);
      free_blocks_.clear();  // too small for this, and still counted
      taken = out->reserve(bytes);
    }
    if (!taken.ok()) return std::move(taken).error();
  }
  out->used = 0;
  return out;
}

// Room for one encoded cell; what is used of it is added to the worker's block by the caller.
result<std::span<std::byte>> write_job::room_for(open_object& of, std::uint64_t bytes, unsigned worker) {
  worker_state& mine = *workers_[worker];
  if (mine.current_opening != of.opening || mine.current->capacity() - mine.current->used < bytes) {
    std::uint64_t left = 0;
    {
      const guard lock(mutex_);
      left = of.cells.size() - of.next + 1;
    }
    PENSTOCK_ASSIGN(std::unique_ptr<block> made, take_block(bytes, left));
    mine.current = made.get();
    mine.current_opening = of.opening;
    const guard lock(mutex_);
    of.blocks.push_back(std::move(made));
  }
  return std::span(mine.current->data() + mine.current->used, static_cast<std::size_t>(bytes));
}

}  // namespace penstock::inline v0
