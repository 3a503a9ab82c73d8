// How a read_job plans its next batch, and reads the indexes that the plan needs.

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "base/thrown.h"
#include "engine/context_state.h"
#include "engine/index_io.h"
#include "engine/read_job.h"
#include "engine/read_job_parts.h"

namespace penstock::inline v0 {
// The indexes of this read, then cached ones of earlier reads.
class read_job::known_indexes final : public plan_indexes {
 public:
  explicit known_indexes(read_job& job) noexcept : job_(job) {}

  const index_entry* find(std::uint32_t source, const index_key& key) override {
    if (const index_entry* found = job_.table_.find(source, key)) return found;
    const index_entry* const root = job_.table_.find(source, {key.object, 0});
    index_entry kept;
    if (!find_cached(job_.state_->indexes(), job_.sources_[source].uid, key, root, kept)) return nullptr;
    index_entry& entry = job_.table_.insert(source, key);
    entry = std::move(kept);
    return &entry;
  }

 private:
  read_job& job_;
};

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

  auto outcome = caught("the layout", [&]() -> result<planner::outcome> {
    const timed_stage timing = time(stage::plan, 0, 0);
    known_indexes known(*this);
    auto next = planner_.next(known, made.plan, missing_, missing_source_);
    if (next.ok() && *next == planner::outcome::needs_indexes) name_missing();
    return next;
  });

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
        fail(error(errc::internal, fmt::format("the layout requested an index {} times", rounds_)));
        return;
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

// The keys of missing indexes, and the versions that they must have. Called by the planner's worker, without the lock.
void read_job::name_missing() {
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
    byte_read read = request_for(which);
    read.buffer = &mine;
    mine.arrived.reset();
    {
      timed_stage timing = time(stage::index, worker, which);
      timing.moved(read.max_bytes, 0);
      mine.read_from(*from.store, read, stop_source_.get_token());
    }
    finish_index(lock, which, worker, mine.take());
    return;
  }
  std::array<byte_read, kRequestsAtOnce> batch;
  std::array<std::uint64_t, kRequestsAtOnce> launches{};
  std::size_t count = 0;
  while (count < kRequestsAtOnce && next_index_ < index_count_) {
    const std::size_t which = next_index_++;
    byte_read& read = batch[count] = request_for(which);
    launches[count++] = launch(read, nullptr, which, read.max_bytes);
  }
  lock.unlock();
  try {
    from.store->read(std::span(batch).first(count), *this, stop_source_.get_token());
  } catch (const std::exception& thrown) {
    refuse(std::span(batch).first(count), launches, thrown_error("the store", thrown));
  }
  lock.lock();
  --active_;
}

// Called without the lock and returns with it held, as finish_fetch does.
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
    table_is_old_ = true;  // look up everything again
    rounds_ = 0;
  } else if (with_.failures != nullptr) {
    table_.insert(missing_source_, request.key).failed = true;  // its cells are skipped
    fail_cell(missing_source_, kWholeObject, std::move(entry).error());
  } else {
    fail(std::move(entry).error());
  }
}

}  // namespace penstock::inline v0
