#include "engine/read_job.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/nvtx.h"
#include "engine/context_state.h"
#include "engine/index_io.h"
#include "engine/read_job_parts.h"

namespace penstock::inline v0 {
namespace {

/// A read gives up when it had to plan changed objects again so many times more often than a request went well: it is
/// getting nowhere.
constexpr unsigned kMaxRedos = 64;
/// Requests given to a store at once, where it completes them later.
constexpr std::size_t kBatch = 16;
/// Encoded bytes in flight at stores that complete later.
constexpr std::uint64_t kMaxFlightBytes = std::uint64_t{32} << 20;
/// Pieces of plan that are carried out at the same time.
constexpr std::size_t kMaxPieces = 4;
/// ... where there are many sources, whose pieces are often a single request.
constexpr std::size_t kMaxSourcePieces = 64;
/// A worker's buffers above this size are not kept for the next read.
constexpr std::uint64_t kMaxKeptBufferBytes = std::uint64_t{8} << 20;

/// What an encoder may add to values that it cannot make shorter, beside a small part of them.
constexpr std::uint64_t kLittleMore = 1024;

}  // namespace

// What this read knows, then what earlier reads left behind.
class read_job::known_indexes final : public plan_indexes {
 public:
  explicit known_indexes(read_job& job) noexcept : job_(job) {}

  const index_entry* find(std::uint32_t source, const index_key& key) override {
    if (const index_entry* found = job_.table_.find(source, key)) return found;
    const std::uint64_t uid = job_.sources_[source].uid;
    index_entry kept;
    if (uid == 0 || !job_.state_->indexes().find(uid, key, kept)) return nullptr;
    if (key.node != 0) {
      // A node below the root is only good with the root of the same version.
      const index_entry* root = job_.table_.find(source, {key.object, 0});
      if (root == nullptr || !(root->seen == kept.seen)) return nullptr;
    }
    index_entry& entry = job_.table_.insert(source, key);
    entry = std::move(kept);
    entry.cached = true;
    return &entry;
  }

 private:
  read_job& job_;
};

read_job::read_job(context_state& state) noexcept : state_(&state) {}
read_job::~read_job() = default;

void read_job::begin(std::span<const source> sources, settings with) {
  sources_.assign(sources.begin(), sources.end());
  with_ = std::move(with);
  io_concurrency_ = std::max(1U, with_.io_concurrency);
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
  flights_.clear();  // beside a wait for storage, a buffer's allocation is nothing; idle jobs should hold little
  free_flights_.clear();
  for (auto& each : workers_) {
    if (each->encoded.capacity() > kMaxKeptBufferBytes) each->encoded.free();
    if (each->decoded.capacity() > kMaxKeptBufferBytes) each->decoded.free();
    for (std::size_t i = 0; i < 3; ++i)
      if (each->scratch.stage(i).capacity() > kMaxKeptBufferBytes) each->scratch.stage(i).free();
  }
}

job::progress read_job::step(unsigned worker) {
  guard lock(mutex_);
  if (done()) return progress::done;
  cell_sink* const sink = with_.sink.get();
  const bool may_issue = (in_flight_ == 0 || (in_flight_ < io_concurrency_ && flight_bytes_ < kMaxFlightBytes)) &&
                         (sink == nullptr || sink->has_room());
  const bool has_arrived = !arrived_.empty();
  // Requests go before what has arrived: so others are on their way while it is decoded.
  if (!has_arrived && sink != nullptr && !advancing_ && !sunk_ && sink->can_advance()) {
    advance_sink(lock, false);
  } else if (!stopping() && next_index_ < index_count_ && may_issue) {
    issue_index(lock, worker);
  } else if (!stopping() && current_ != nullptr && may_issue && take_buffer()) {
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
    // A sink that was asked for a buffer just now, and had none, may have something to do.
    somebody_idles_ = true;
    return progress::idle;
  }
  // What was done may have made work, or the end, for those who found none.
  if (somebody_idles_) {
    somebody_idles_ = false;
    wake();
  }
  return progress::worked;
}

bool read_job::is_exhausted() const noexcept {
  return exhausted_ && redo_cells_.empty() && current_ == nullptr && indexes_wanted_ == 0;
}

bool read_job::may_plan() const noexcept {
  if (planning_ || current_ != nullptr || indexes_wanted_ != 0 || (exhausted_ && redo_cells_.empty())) return false;
  const auto used = std::count_if(pieces_.begin(), pieces_.end(), [](const auto& each) { return each->in_use; });
  return static_cast<std::size_t>(used) < (sources_.size() > kMaxPieces ? kMaxSourcePieces : kMaxPieces);
}

// Comes and goes with the lock.
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
    // The end of the read is still to be told to the device, unless that is what failed.
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

void read_job::run_planner(guard& lock) {
  planning_ = true;
  ++active_;
  if (table_is_old_) table_.clear();
  table_is_old_ = false;
  for (const auto& [source, cell] : redo_cells_) planner_.redo(source, cell);
  redo_cells_.clear();
  exhausted_ = false;
  auto free = std::find_if(pieces_.begin(), pieces_.end(), [](const auto& each) { return !each->in_use; });
  if (free == pieces_.end()) free = pieces_.insert(pieces_.end(), std::make_unique<piece>());
  piece& made = **free;
  lock.unlock();

  const std::uint64_t begin_ns = profiler_ ? profiler_->now() : 0;
  known_indexes known(*this);
  auto outcome = planner_.next(known, made.plan, missing_, missing_source_);
  timed(stage::plan, 0, begin_ns, 0, 0, 0);

  lock.lock();
  planning_ = false;
  --active_;
  if (!outcome.ok()) {
    fail(std::move(outcome).error());
    return;
  }
  switch (*outcome) {
    case planner::outcome::piece:
      table_is_old_ = true;
      rounds_ = 0;
      made.next_fetch = 0;
      if (!state_->cells().empty()) made.kept.resize(std::max(made.kept.size(), made.plan.decodes.size()));
      made.unfinished = made.plan.fetches.size();
      made.in_use = made.unfinished != 0;
      if (made.in_use) current_ = &made;
      break;
    case planner::outcome::needs_indexes: {
      if (++rounds_ > kMaxIndexRounds) {
        fail(error(errc::internal, fmt::format("the layout asked for an index {} times", rounds_)));
        return;
      }
      const source& from = sources_[missing_source_];
      missing_keys_.resize(std::max(missing_keys_.size(), missing_.size()));
      missing_versions_.resize(std::max(missing_versions_.size(), missing_.size()));
      for (std::size_t i = 0; i < missing_.size(); ++i) {
        from.layout->key(missing_[i].key.object, missing_keys_[i]);
        missing_keys_[i].insert(0, from.prefix);
        const index_entry* root =
            missing_[i].key.node == 0 ? nullptr : table_.find(missing_source_, {missing_[i].key.object, 0});
        missing_versions_[i] = root == nullptr ? version() : root->seen;
      }
      next_index_ = 0;
      index_count_ = indexes_wanted_ = missing_.size();
      break;
    }
    case planner::outcome::finished:
      exhausted_ = true;
      break;
  }
}

void read_job::issue_index(guard& lock, unsigned worker) {
  const source& from = sources_[missing_source_];
  const auto request_for = [&](std::size_t which) {
    byte_read read;
    read.key = missing_keys_[which];
    read.range = missing_[which].range;
    read.expected = &missing_versions_[which];
    read.max_bytes = missing_[which].max_bytes;
    return read;
  };
  ++active_;
  if (from.store->traits().inline_completion) {
    const std::size_t which = next_index_++;
    lock.unlock();
    worker_state& mine = *workers_[worker];
    const std::uint64_t begin_ns = profiler_ ? profiler_->now() : 0;
    byte_read read = request_for(which);
    read.buffer = &mine;
    mine.arrived.reset();
    from.store->read({&read, 1}, mine, stop_source_.get_token());
    timed(stage::index, worker, begin_ns, which, read.max_bytes, 0);
    finish_index(lock, which, worker, mine.take());
    return;
  }
  std::array<byte_read, kBatch> batch;
  std::size_t count = 0;
  while (count < kBatch && next_index_ < index_count_) {
    const std::size_t which = next_index_++;
    byte_read& read = batch[count++] = request_for(which);
    launch(read, nullptr, which, read.max_bytes);
  }
  lock.unlock();
  from.store->read(std::span(batch).first(count), *this, stop_source_.get_token());
  lock.lock();
  --active_;
}

// The sink's buffer for the request that is issued next. False: there is no room for its bytes yet. Needs the lock.
bool read_job::take_buffer() {
  const fetch_op& op = current_->plan.fetches[current_->next_fetch];
  if (!with_.sink || op.what == request::none) return true;
  std::uint64_t likely = op.decode_count == 0 ? 0 : op.range.length;
  if (op.decode_count != 0 && op.range.whole()) {
    const codec_chain& chain =
        sources_[current_->plan.source].layout->chains()[current_->plan.decodes[op.first_decode].chain];
    likely = std::min(chain.max_encoded_bytes(), chain.decoded_bytes() + chain.decoded_bytes() / 64 + kLittleMore);
  }
  sink_buffer_ = with_.sink->take_buffer(likely);
  return sink_buffer_ != nullptr;
}

void read_job::issue_fetch(guard& lock, unsigned worker) {
  piece& of = *current_;
  const source& from = sources_[of.plan.source];
  const auto next = [&] {
    const std::size_t which = of.next_fetch++;
    if (of.next_fetch == of.plan.fetches.size()) current_ = nullptr;
    return which;
  };
  ++active_;
  if (of.plan.fetches[of.next_fetch].what == request::none || from.store->traits().inline_completion) {
    const std::size_t which = next();
    const fetch_op& op = of.plan.fetches[which];
    find_kept(of, op);
    read_buffer* const sunk = std::exchange(sink_buffer_, nullptr);
    lock.unlock();
    if (op.what == request::none) {
      finish_fetch(lock, of, which, worker, read_done());
      return;
    }
    worker_state& mine = *workers_[worker];
    mine.sunk = sunk;
    byte_read read;
    if (auto bad = request_of(of, op, mine.where, read)) {
      finish_fetch(lock, of, which, worker, std::move(*bad));
      return;
    }
    const std::uint64_t begin_ns = profiler_ ? profiler_->now() : 0;
    read.buffer = sunk != nullptr ? sunk : &mine;
    mine.arrived.reset();
    {
      const nvtx_scope range(nvtx_name::disk);
      from.store->read({&read, 1}, mine, stop_source_.get_token());
    }
    auto done = mine.take();
    timed(stage::fetch, worker, begin_ns, which, done.ok() ? done->bytes.size() : 0, 0);
    finish_fetch(lock, of, which, worker, std::move(done));
    return;
  }
  std::array<byte_read, kBatch> batch;
  std::size_t count = 0;
  std::optional<std::pair<std::size_t, error>> refused;
  while (count < kBatch && current_ == &of && of.plan.fetches[of.next_fetch].what != request::none && !refused &&
         (in_flight_ == 0 || (in_flight_ < io_concurrency_ && flight_bytes_ < kMaxFlightBytes)) &&
         (sink_buffer_ != nullptr || take_buffer())) {
    const std::size_t which = next();
    byte_read& read = batch[count];
    find_kept(of, of.plan.fetches[which]);
    if (auto bad = request_of(of, of.plan.fetches[which], workers_[worker]->where, read)) {
      refused.emplace(which, std::move(*bad));
      workers_[worker]->sunk = std::exchange(sink_buffer_, nullptr);
      break;
    }
    ++count;
    launch(read, &of, which, likely_bytes(of, of.plan.fetches[which], read));
  }
  lock.unlock();
  if (count != 0) from.store->read(std::span(batch).first(count), *this, stop_source_.get_token());
  if (refused) {
    finish_fetch(lock, of, refused->first, worker, std::move(refused->second));
  } else {
    lock.lock();
    --active_;
  }
}

// Counts a request that completes later and gives it a buffer and a tag. Needs the lock.
void read_job::launch(byte_read& read, piece* of, std::size_t which, std::uint64_t bytes) {
  if (free_flights_.empty()) {
    free_flights_.push_back(flights_.size());
    flights_.push_back(std::make_unique<flight>(&state_->accounts()));
  }
  const std::uint64_t tag = free_flights_.back();
  free_flights_.pop_back();
  flight& out = *flights_[tag];
  out.of = of;
  out.which = which;
  out.counted_bytes = bytes;
  out.begin_ns = profiler_ ? profiler_->now() : 0;
  read.buffer = &out;
  if (of != nullptr) out.sunk = std::exchange(sink_buffer_, nullptr);
  if (out.sunk != nullptr) read.buffer = out.sunk;
  out.range = nvtx_start(nvtx_name::disk);
  read.tag = tag;
  ++in_flight_;
  flight_bytes_ += bytes;
}

void read_job::complete(std::uint64_t tag, result<read_done> done) {
  const guard lock(mutex_);
  flights_[tag]->arrived.emplace(std::move(done));
  nvtx_end(std::exchange(flights_[tag]->range, 0));
  arrived_.push_back(tag);
  somebody_idles_ = false;
  wake();
}

void read_job::take_arrived(guard& lock, unsigned worker) {
  const std::uint64_t tag = arrived_.back();
  arrived_.pop_back();
  flight& from = *flights_[tag];
  result<read_done> done = std::move(*from.arrived);
  from.arrived.reset();
  ++active_;
  lock.unlock();
  if (profiler_ && done.ok())
    timed(from.of ? stage::fetch : stage::index, worker, from.begin_ns, from.which, done->bytes.size(), 0);
  if (from.of == nullptr) {
    finish_index(lock, from.which, worker, std::move(done));
  } else {
    workers_[worker]->sunk = from.sunk;
    from.sunk = nullptr;
    finish_fetch(lock, *from.of, from.which, worker, std::move(done));
  }
  --in_flight_;
  flight_bytes_ -= from.counted_bytes;
  free_flights_.push_back(tag);
}

// Comes without the lock and leaves with it, as finish_fetch does.
void read_job::finish_index(guard& lock, std::size_t which, unsigned, result<read_done> done) {
  const source& from = sources_[missing_source_];
  const index_request& request = missing_[which];
  if (profiler_) profiler_->record_request(done.ok() ? done->bytes.size() : 0);
  auto entry = take_index(from, request, missing_keys_[which], std::move(done));
  if (entry.ok() && entry->block && keeps_index(from, *entry)) state_->indexes().insert(from.uid, request.key, *entry);
  if (!entry.ok() && entry.error().code() == errc::version_changed && from.uid != 0)
    state_->indexes().drop(from.uid, request.key.object);

  lock.lock();
  --active_;
  --indexes_wanted_;
  if (entry.ok()) {
    if (!entry->block && request.key.node == 0) note_missing(missing_source_);
    table_.insert(missing_source_, request.key) = std::move(*entry);
  } else if (entry.error().code() == errc::version_changed) {
    if (!table_is_old_) count_redo(missing_keys_[which]);
    table_is_old_ = true;  // look everything up again
    rounds_ = 0;
  } else if (with_.failures != nullptr) {
    table_.insert(missing_source_, request.key);  // its cells are left out; the index itself is the failure
    fail_cell(missing_source_, kWholeObject, std::move(entry).error());
  } else {
    fail(std::move(entry).error());
  }
}

void read_job::finish_fetch(guard& lock, piece& of, std::size_t which, unsigned worker, result<read_done>&& done) {
  const fetch_op& op = of.plan.fetches[which];
  const plan_object& object = of.plan.objects[op.object];
  const source& from = sources_[of.plan.source];
  if (profiler_ && op.what != request::none) profiler_->record_request(done.ok() ? done->bytes.size() : 0);

  bool again = false;
  std::optional<error> bad;
  if (!done.ok() && is_kept(of, op)) drop_kept(of, op);
  if (op.what == request::object && done.ok() && !find_in_object(of, op, worker, *done).ok()) {
    again = true;  // not as its index says: that alone is asked for, and judged
  } else if (done.ok()) {
    encoded_bytes_.fetch_add(done->bytes.size(), std::memory_order_relaxed);
    auto decoded = decode_fetch(of, op, worker, *done);
    if (!decoded.ok()) {
      bad.emplace(std::move(decoded).error());
    } else {
      for (std::uint32_t i = 0; i < op.fill_count && !stopping(); ++i)
        fill_cell(from, of.plan.fills[op.first_fill + i].cell, worker);
    }
  } else if (done.error().code() == errc::not_found && op.may_be_absent) {
    for (std::uint32_t i = 0; i < op.decode_count; ++i)
      fill_cell(from, of.plan.decodes[op.first_decode + i].cell, worker);
    note_missing(of.plan.source);
  } else if (done.error().code() == errc::corrupt_data && op.what == request::object) {
    again = true;  // longer than its cells need
  } else if (object.pinned &&
             (done.error().code() == errc::not_found || done.error().code() == errc::version_changed)) {
    const bool gone = done.error().code() == errc::not_found;
    bad.emplace(errc::conflict,
                fmt::format("'{}' {} since the array was opened", object.key, gone ? "is gone" : "has changed"));
    if (op.decode_count != 0) bad->note(from.layout->describe(of.plan.decodes[op.first_decode].cell));
    bad->note(read_note(object.key, op.range));
  } else if ((done.error().code() == errc::not_found && object.has_index) ||
             done.error().code() == errc::version_changed) {
    again = true;  // an index named these bytes, and they are gone: plan again from what is there now
    if (from.uid != 0) state_->indexes().drop(from.uid, object.object);
  } else {
    bad.emplace(std::move(done).error());
    if (op.decode_count != 0) {
      std::string cells = from.layout->describe(of.plan.decodes[op.first_decode].cell);
      if (op.decode_count > 1) cells += fmt::format(" and {} more", op.decode_count - 1);
      bad->note(std::move(cells));
    }
    bad->note(read_note(object.key, op.range));
  }
  forget_kept(of, op);
  if (done.ok()) done->keep_alive.reset();
  if (read_buffer*& sunk = workers_[worker]->sunk; sunk != nullptr) {
    with_.sink->give_buffer(sunk);
    sunk = nullptr;
  }

  lock.lock();
  --active_;
  if (!again && redos_ != 0) --redos_;
  // One change spoils many requests of a piece: it counts once for each time that the planner has to look again.
  if (again && (op.what == request::object || !redo_cells_.empty() || count_redo(object.key))) {
    for (std::uint32_t i = 0; i < op.decode_count; ++i)
      redo_cells_.emplace_back(of.plan.source, of.plan.decodes[op.first_decode + i].cell);
    for (std::uint32_t i = 0; i < op.fill_count; ++i)
      redo_cells_.emplace_back(of.plan.source, of.plan.fills[op.first_fill + i].cell);
  }
  if (bad && with_.failures != nullptr && op.decode_count != 0) {
    for (std::uint32_t i = 0; i < op.decode_count; ++i)
      fail_cell(of.plan.source, of.plan.decodes[op.first_decode + i].cell, bad->clone());
  } else if (bad) {
    fail(std::move(*bad));
  }
  if (--of.unfinished == 0) of.in_use = false;
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
  const auto sink = std::move(with_.sink);  // holds the job in its turn
  with_.sink.reset();
  if (keep_alive) {
    // It may be the last owner of the context, and a ticket may hold this job for longer: what is booked in the
    // context's ledger has to go back before.
    workers_.clear();
    flights_.clear();
  }
  wake();
  ended_.notify_all();
  lock.unlock();
  for (auto& each : then) each();
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
  const guard lock(mutex_);
  if (failure_) return failure_->clone();
  if (cancelled_) return error(errc::cancelled, "the read was cancelled");
  return {};
}

void read_job::wait() {
  guard lock(mutex_);
  ended_.wait(lock, [&] { return done(); });
}

bool read_job::wait_for(std::chrono::nanoseconds timeout) {
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
