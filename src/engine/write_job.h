#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/executor.h"
#include "engine/object_walk.h"
#include "engine/profiler.h"

namespace penstock::inline v0 {

class cell_source;  // engine/cell_source.h
class codec_chain;
class context_state;
class write_fence;  // engine/write_fence.h
class edge_watch;

/// One write as a state machine: for each storage object gather, encode, assemble, commit.
///
/// Any number of workers advance it through `step`; each encodes any cell of any open object, and the one that encoded
/// an object's last cell commits it. A new object is opened only when every cell of the earlier ones has its worker.
/// There are therefore never more open objects than workers, which also bounds the encoded bytes.
///
/// If the store completes reads or writes later, no worker waits: an object whose old bytes are being read, or that is
/// being put, is in flight and needs no worker. As many are in flight as the context has requests (`io_concurrency`),
/// as far as their encoded and old bytes fit into half of the memory limit.
///
/// An object whose elements are not all replaced is read first, whole, with its version; cells that are covered in part
/// are decoded and changed, those that are not touched keep their bytes. The new object is put on condition of that
/// version. If it no longer holds, the object is processed again from its present bytes; encoded bytes of cells that
/// were covered as a whole are kept. A finished job is reused by a later write.
///
/// A store may take an object's bytes first and name it later (`store::stage`): such objects are published in batches,
/// and all of them before the job ends.
///
/// An object that reaches beyond the array's edge may hold elements that other writers appended since the array was
/// opened. With `edges` those are kept: the object is merged and put on condition, like an object that is written in
/// part. If no rows were appended, only the old version is requested, not the bytes.
///
/// With a `fence`, each put and erase takes effect only while the writer has its right. If the store checks guards, it
/// does that atomically with the write. Otherwise every object is put, fill value or not, on condition that it is
/// absent, or has a version that was seen while the writer still had its right. A later put of another writer is then
/// kept.
///
/// Work is taken under one lock and done outside of it. `step` only waits for a store that completes requests before it
/// returns.
class write_job final : public job {
 public:
  struct settings {
    unsigned workers = 1;
    store* to = nullptr;  ///< destination of the objects: the source's store
    bool durable = false;
    bool write_empty_chunks = false;  ///< also cells that equal the fill value
    cell_source* values = nullptr;    ///< if the source's `to` is not host memory: the interface to its values
    write_fence* fence = nullptr;     ///< null: no right to write is needed
    edge_watch* edges = nullptr;      ///< null: no other writer has elements beyond the array's edge
    bool skip_unchanged = false;      ///< objects whose cells keep their values are not put
    /// False: changes of other writers between the read and the put of an object are lost, as with stores without
    /// versions.
    bool conditional = true;
    /// Empty, or one for each source: 1 if its objects are replaced without their present content, even if the
    /// selection does not cover them. Borrowed.
    std::span<const std::uint8_t> replaced;
  };

  explicit write_job(context_state& state) noexcept;
  ~write_job() override;

  /// Prepares for a write; the job must be idle. The memory that `sources` refers to is borrowed until the write is
  /// done: each `to` is the address of the values. There is at least one source, all have the layout and the store of
  /// the first, and no two touch the same object.
  void begin(std::span<const source> sources, const settings& with);
  /// Drops the write and keeps reusable memory.
  void reset();

  progress step(unsigned worker) override;

  /// Begins no more objects or cells, and cancels the store's pending work: an object that is being put keeps its old
  /// value or gets its new one.
  void cancel() noexcept;
  bool done() const noexcept { return finished_.load(std::memory_order_acquire); }
  /// The outcome; only when done.
  result<> outcome() const;

  /// At most the number in the settings, and fewer if the memory limit is too small. No other worker may call `step`.
  unsigned workers() const noexcept { return with_.workers; }
  std::uint64_t done_bytes() const noexcept { return done_bytes_.load(std::memory_order_relaxed); }
  std::uint64_t total_bytes() const noexcept { return total_bytes_; }
  std::uint64_t total_cells() const noexcept { return total_cells_; }
  std::uint64_t total_objects() const noexcept { return total_objects_; }
  std::uint64_t written_objects() const noexcept { return written_; }

 private:
  struct touched_cell;  // write_job_parts.h, also for the others
  struct open_object;
  class block;
  struct worker_state;
  struct staged;
  using guard = std::unique_lock<std::mutex>;

  // The next step: write_job.cc. A function that takes `guard` is called and returns with the lock held, unless its
  // comment states otherwise.
  unsigned most_workers() const;
  bool may_open() const noexcept;
  void begin_work(guard& lock, open_object& of);
  std::uint64_t begin_flight(open_object& of);
  bool is_in_flight(const open_object& of, std::uint64_t flight) const;
  void wake_idle();
  bool stopping() const noexcept { return stop_.load(std::memory_order_relaxed); }
  void fail(std::string_view key, error what);

  // Which objects, and which of their cells: write_job_objects.cc.
  void open_next(guard& lock);
  bool find_next(open_object& of);
  void reopen(guard& lock);
  open_object& take_closed();
  void close(open_object& of);
  result<> list_cells(open_object& of);
  result<> locate(open_object& of, const part* old);
  void begin_again(open_object& of) const;

  // Reads of an object before it changes: write_job_old.cc.
  void load(guard& lock, open_object& of, unsigned worker);
  void ask(guard& lock, open_object& of, bool for_bytes);
  void arrived(open_object& of, result<read_done> done);
  void hold_old_bytes(open_object& of, std::uint64_t bytes) noexcept;
  void take_answer(guard& lock, open_object& of, unsigned worker);
  result<bool> take_version(open_object& of);
  result<bool> needs_no_bytes(open_object& of);
  result<> take_bytes(open_object& of);
  void loaded(guard& lock, open_object& of, result<> outcome);
  std::uint64_t most_old_bytes(const open_object& of) const;

  // Distribution of cells to workers, and memory of encoded cells: write_job_encode.cc.
  static bool may_encode(const open_object& of) noexcept;
  void encode_some(guard& lock, open_object& of, unsigned worker);
  void start_over(open_object& of);
  result<std::span<std::byte>> room_for(open_object& of, std::uint64_t bytes, unsigned worker);
  result<std::unique_ptr<block>> take_block(std::uint64_t bytes, std::uint64_t cells);

  // One cell: write_job_cells.cc.
  static bool encodes_elsewhere(const codec_chain& chain) noexcept;
  result<> encode_cell(open_object& of, touched_cell& cell, unsigned worker);
  result<bool> take_encoded(open_object& of, touched_cell& cell, unsigned worker);

  // The object is put: write_job_commit.cc.
  void commit(guard& lock, open_object& of, unsigned worker);
  result<std::optional<byte_write>> assemble(open_object& of, unsigned worker);
  result<std::unique_ptr<staged_object>> put(open_object& of, const byte_write& what);
  void put_ended(open_object& of, result<version> done);
  void ended(open_object& of, result<> outcome);
  void publish(guard& lock, unsigned worker);

  std::uint64_t now() const noexcept { return profiler_ ? profiler_->now() : 0; }
  void record(stage what, unsigned worker, std::uint64_t operation, std::uint64_t begin_ns, std::uint64_t bytes_in,
              std::uint64_t bytes_out) const;

  context_state* state_;
  std::vector<source> sources_;
  const chunk_layout* layout_ = nullptr;  // layout of all sources
  settings with_;
  bool versions_ = false;  // the store has them, and puts are conditional
  bool careful_ = false;   // there is a fence, and the store checks no guards
  bool inline_writes_ = true;
  std::stop_source stop_flights_{std::nostopstate};
  std::shared_ptr<profiler> profiler_;
  std::uint32_t write_number_ = 0;

  mutable std::mutex mutex_;   // protects all members below that are not atomic
  object_walk walk_;           // iteration over one source
  std::size_t source_at_ = 0;  // index of that source
  bool opening_ = false, exhausted_ = false;
  std::vector<std::unique_ptr<open_object>> objects_;
  std::vector<std::unique_ptr<block>> free_blocks_;
  std::size_t open_count_ = 0, active_ = 0, publishing_ = 0;
  std::uint64_t launches_ = 0;        // requests to the store so far
  std::uint64_t flights_ended_ = 0;   // puts and erases of this job so far
  std::size_t flights_ = 0;           // open objects with a pending request to the store
  std::uint64_t held_old_bytes_ = 0;  // old bytes of open objects
  std::vector<staged> staged_;        // stored objects that no key names yet
  std::vector<staged> again_;         // objects that other writers changed in the meantime
  std::uint64_t staged_bytes_ = 0;
  std::uint64_t written_ = 0, openings_ = 0;
  std::uint64_t total_bytes_ = 0, total_cells_ = 0, total_objects_ = 0;
  bool somebody_idles_ = false;

  std::vector<std::unique_ptr<worker_state>> workers_;
  std::optional<error> failure_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> finished_{true};
  bool cancelled_ = false;
  std::atomic<std::uint64_t> done_bytes_{0};
};

}  // namespace penstock::inline v0
