#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <vector>

#include "base/executor.h"
#include "base/fork_local.h"
#include "codec/worker_scratch.h"
#include "engine/cell_cache.h"
#include "engine/cell_sink.h"
#include "engine/index_cache.h"
#include "engine/profiler.h"
#include "engine/timed_stage.h"
#include "plan/placement.h"
#include "plan/planner.h"

namespace penstock::inline v0 {

class context_state;
class idle_reads;
struct read_worker;  // read_job_parts.h

/// Marks a whole object whose index has failed, in place of a cell.
inline constexpr cell_id kWholeObject = ~cell_id{0};

/// A failed cell, in a read that continues after failures (`check`).
struct cell_failure {
  std::uint32_t source;
  cell_id cell;
  error what;
};

/// One read as a state machine: plan a batch, read its indexes, fetch, decode, fill, repeat.
///
/// Any number of workers advance it through `step`; with one worker it is the inline engine, with a pool the parallel
/// one, under a seeded executor a test of every schedule. Completions of stores only enqueue. A finished job is reused
/// by a later read: it keeps its plans, tables, buffers and codec contexts, so that a warm read allocates nothing.
///
/// Work is taken under one lock and done outside of it. `wake` is called with the lock held, so no wake can follow
/// the end of the job.
class read_job final : public job, private completion_sink {
 public:
  struct settings {
    unsigned workers = 1;
    unsigned io_concurrency = 64;
    plan_limits limits;
    std::vector<cell_failure>* failures = nullptr;  ///< not null: decode all, cache nothing, report each bad cell here
    std::size_t max_failures = 0;
    std::shared_ptr<cell_sink> sink;         ///< receives the cells; null: they are decoded into host memory
    std::shared_ptr<item_arena> arena;       ///< for items of variable length; null: each worker's own, cell by cell
    std::span<std::uint8_t> missing;         ///< empty, or one flag for each source: 1 if its first object is absent
    bool waits_for_target = false;           ///< nothing is decoded before `give_target`; one source, without a target
    std::string note;                        ///< added to the error, for reads that end far from their caller
    std::shared_ptr<const void> keep_alive;  ///< released at the end of the read
  };

  /// \param home  A ticket returns the job there after its read; empty: the job is not used again.
  explicit read_job(context_state& state, std::weak_ptr<idle_reads> home = {}) noexcept;
  ~read_job() override;
  std::shared_ptr<idle_reads> home() const noexcept { return home_.lock(); }

  /// Prepares for a read; the job must be idle. The memory that `sources` refers to is borrowed until the read is done.
  void begin(std::span<const source> sources, settings with);
  /// Drops the read and keeps reusable memory.
  void reset();

  /// Reads a single cell on the calling thread, if its location needs no index that is not cached and the store
  /// completes inside of `read`. The job must be idle, and is afterwards.
  ///
  /// Returns false if this fast path does not apply or failed. The caller then runs the general path, which reports the
  /// error; the target's contents are unspecified.
  bool read_one_cell(const source& from, const std::shared_ptr<item_arena>& arena);

  /// The same for a few cells that earlier partial reads have cached: it only checks with the store, once for each
  /// object, that they are up to date, and copies.
  bool read_kept_cells(const source& from);

  progress step(unsigned worker) override;

  /// For `waits_for_target`: the memory of the elements, once.
  void give_target(std::byte* to);
  /// Stops issuing requests; those in flight are waited for.
  void cancel() noexcept;
  /// A sink may continue: wakes idle workers.
  void nudge();
  bool done() const noexcept { return finished_.load(std::memory_order_acquire); }
  /// The outcome; only when done.
  result<> outcome() const;
  void wait();
  bool wait_for(std::chrono::nanoseconds timeout);
  void on_done(std::function<void()> then);
  /// Of a read in the background that another process began, before a fork: its workers do not exist in this one, and
  /// they may hold its lock. Only `done` and, if that is true, `outcome` may be called.
  bool is_of_parent() const noexcept { return begun_at_ != 0 && begun_at_ != fork_clock::now(); }

  /// Sums of the read that began last.
  recorded_read recorded_as() const { return {profiler_, read_number_}; }

  std::uint64_t done_bytes() const noexcept { return done_bytes_.load(std::memory_order_relaxed); }
  std::uint64_t total_bytes() const noexcept { return planner_.total_bytes(); }
  std::uint64_t total_cells() const noexcept { return planner_.total_cells(); }
  std::uint64_t failed_cells() const noexcept { return failed_cells_; }
  std::uint64_t absent_cells() const noexcept { return absent_cells_.load(std::memory_order_relaxed); }
  std::uint64_t encoded_bytes() const noexcept { return encoded_bytes_.load(std::memory_order_relaxed); }

 private:
  // A plan batch that is being processed.
  struct piece {
    read_plan plan;
    // One for each decode, or fewer: its cell, if all cells of its fetch are cached and only need a check.
    std::vector<std::shared_ptr<const kept_cell>> kept;
    std::size_t next_fetch = 0;
    std::size_t unfinished = 0;
    bool in_use = false;
  };
  using worker_state = read_worker;
  struct flight;  // read_job_parts.h
  class known_indexes;

  using guard = std::unique_lock<std::mutex>;

  // The next step, and the end: read_job.cc. A function that takes `guard` returns with the lock held; comments state
  // which of them are called without it.
  bool stopping() const noexcept { return stop_.load(std::memory_order_relaxed); }
  bool is_held() noexcept;
  bool may_fetch(bool held) const noexcept;
  bool may_plan() const noexcept;
  bool is_exhausted() const noexcept;
  void advance_sink(guard& lock, bool last);
  bool count_redo(const std::string& key);
  void fail(error what);
  void fail_cell(std::uint32_t source, cell_id cell, error what);
  void finish(guard& lock);
  worker_state& first_worker();
  timed_stage time(stage what, unsigned worker, std::uint64_t operation) const noexcept {
    return {profiler_.get(), read_number_, what, worker, operation};
  }
  /// Records a stage that ends now and began at `begin_ns`, maybe on another thread.
  void timed(stage what, unsigned worker, std::uint64_t begin_ns, std::uint64_t operation, std::uint64_t bytes_in,
             std::uint64_t bytes_out) const;

  // Plan, and the indexes that it needs: read_job_plan.cc.
  void run_planner(guard& lock);
  void name_missing();
  void issue_index(guard& lock, unsigned worker);
  void finish_index(guard& lock, std::size_t which, unsigned worker, result<read_done> done);
  void note_missing(std::uint32_t source) const noexcept {
    if (source < with_.missing.size()) with_.missing[source] = 1;
  }

  // Requests in flight: read_job_requests.cc.
  bool may_send() const noexcept;
  bool take_buffer();
  void issue_fetch(guard& lock, unsigned worker);
  std::optional<error> request_of(const piece& of, const fetch_op& op, placement& where, byte_read& out) const;
  std::uint64_t likely_bytes(const piece& of, const fetch_op& op, const byte_read& read) const noexcept;
  std::uint64_t launch(byte_read& read, piece* of, std::size_t which, std::uint64_t bytes);
  void refuse(std::span<const byte_read> sent, std::span<const std::uint64_t> launches, const error& why);
  void complete(std::uint64_t tag, result<read_done> done) override;
  void arrive(std::uint64_t tag, result<read_done> done);
  void take_arrived(guard& lock, unsigned worker);

  // Decode, scatter, fill: read_job_cells.cc.
  void finish_fetch(guard& lock, piece& of, std::size_t which, unsigned worker, result<read_done>&& done);
  result<> find_in_object(const piece& of, const fetch_op& op, unsigned worker, const read_done& done);
  std::span<const decode_op> decodes_of(const piece& of, const fetch_op& op, unsigned worker) const noexcept;
  result<> decode_fetch(const piece& of, const fetch_op& op, unsigned worker, read_done& done);
  result<> sink_fetch(const piece& of, const fetch_op& op, unsigned worker, const read_done& done);
  result<> decode_cell(const piece& of, const fetch_op& op, const decode_op& what, std::span<const std::byte> bytes,
                       const read_done& done, unsigned worker);
  result<> decode_for_all(const source& from, const decode_op& what, std::span<const std::byte> bytes, unsigned worker);
  static result<> decode_whole(const codec_chain& chain, std::span<const std::byte> bytes, std::byte* room,
                               worker_state& mine);
  static void scatter_to_all(const source& from, cell_id cell, const codec_chain& chain, const std::byte* items,
                             worker_state& mine);
  void fill_cell(const source& from, cell_id cell, unsigned worker);

  // Cells that earlier reads have cached: read_job_kept.cc.
  bool is_current(const source& from, object_id object, const version& seen);
  bool has_version(const store& in, const version& seen, bool pinned);
  void find_kept(piece& of, const fetch_op& op);
  static bool is_kept(const piece& of, const fetch_op& op) noexcept {
    return op.decode_count != 0 && op.first_decode < of.kept.size() && of.kept[op.first_decode] != nullptr;
  }
  static void forget_kept(piece& of, const fetch_op& op) noexcept;
  void drop_kept(const piece& of, const fetch_op& op);
  void take_kept(const piece& of, const fetch_op& op, unsigned worker);
  result<bool> decode_to_keep(const source& from, cell_id cell, const codec_chain& chain,
                              std::span<const std::byte> bytes, const read_done& done, worker_state& mine);

  context_state* state_;
  const std::weak_ptr<idle_reads> home_;
  std::vector<source> sources_;
  settings with_;
  std::size_t io_concurrency_ = 1;
  std::shared_ptr<profiler> profiler_;
  std::uint32_t read_number_ = 0;
  std::stop_source stop_source_{std::nostopstate};
  std::uint64_t begun_at_ = 0;  // the fork clock, for a read in the background; 0 for others

  mutable std::mutex mutex_;  // protects all members below that are not atomic
  std::condition_variable ended_;
  planner planner_;
  index_table table_;
  bool table_is_old_ = false;  // clear before the next batch
  bool planning_ = false;
  bool exhausted_ = false;
  unsigned rounds_ = 0;  // index reads for one batch
  unsigned redos_ = 0;
  std::vector<std::pair<std::uint32_t, cell_id>> redo_cells_;

  std::vector<index_request> missing_;  // the planner's while planning_, else that of the current round
  std::uint32_t missing_source_ = 0;
  std::string one_key_;  // key that read_one_cell reads
  std::vector<std::string> missing_keys_;
  std::vector<version> missing_versions_;
  std::size_t next_index_ = 0, index_count_ = 0, indexes_wanted_ = 0;

  std::vector<std::unique_ptr<piece>> pieces_;
  piece* current_ = nullptr;  // the piece whose fetches are being issued

  std::vector<std::unique_ptr<flight>> flights_;
  std::vector<std::uint64_t> free_flights_;
  std::vector<std::uint64_t> arrived_;
  std::size_t in_flight_ = 0, active_ = 0;
  std::uint64_t flight_bytes_ = 0, launches_ = 0;
  bool somebody_idles_ = false;

  /// Of a read in the background: null until the worker's first step, then borrowed from the context.
  std::vector<std::unique_ptr<worker_state>> workers_;
  std::optional<error> failure_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> finished_{true};
  bool cancelled_ = false;
  std::byte* target_ = nullptr;            // given, for the next step
  read_buffer* sink_buffer_ = nullptr;     // memory of the sink for the next request
  bool advancing_ = false, sunk_ = false;  // a worker is in the sink's advance; all cells were passed to it
  std::vector<std::function<void()>> then_;
  std::atomic<std::uint64_t> done_bytes_{0}, absent_cells_{0}, encoded_bytes_{0};
  std::uint64_t failed_cells_ = 0;
};

}  // namespace penstock::inline v0
