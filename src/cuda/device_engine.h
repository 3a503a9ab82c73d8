#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <penstock/result.h>
#include "base/fork_local.h"
#include "base/mutex.h"
#include "cuda/cell_scan.h"
#include "cuda/completion_queue.h"
#include "cuda/device_pool.h"
#include "cuda/device_tables.h"
#include "cuda/device_wave.h"
#include "cuda/driver.h"
#include "cuda/kernel_module.h"
#include "cuda/page_locked_ring.h"
#include "cuda/parcel.h"
#include "cuda/read_slots.h"
#include "cuda/timed_spans.h"
#include "cuda/wave_arena.h"
#include "engine/device_service.h"
#include "engine/profiler.h"

namespace penstock::inline v0 {
class read_job;
}

namespace penstock::inline v0::cuda {

struct device_options {
  std::uint64_t page_locked_bytes = 0;          ///< 0: 256 MiB
  std::uint64_t device_memory_bytes = 0;        ///< except for results; 0: an eighth of all, at most 6 GiB
  const device::nvcomp* nvcomp = nullptr;       ///< decodes the codecs that it supports; null: this library decodes all
  std::shared_ptr<device_allocator> allocator;  ///< for results; null: the engine's pool
};

/// One device of one context: streams, waves, page-locked memory, and the order of work on the streams.
///
/// Streams, none of which is ordered with the legacy stream: one for copies to the device, two for decoding, one for
/// kernels that run in parallel with them, four for the ends of reads, two for writes. Direct copies to the target use
/// their read's end stream, which may wait for the caller; the copy stream never does. Every order between streams is
/// an event that is named where it is recorded. One thread polls for the events that free resources of the host, and
/// wakes the reads; no stream ever waits for the host.
///
/// Thread-safe. Driver calls are made under one lock; headers of cells are read without it. When a call of the driver
/// fails in the middle of a wave, the engine is broken: every later read fails with that error, until the context is
/// cleared.
class device_engine final : public device_service, public std::enable_shared_from_this<device_engine> {
 public:
  /// \error unsupported  No driver, or a build without device code. \error invalid_argument  No such device.
  static result<std::shared_ptr<device_engine>> make(int ordinal, const device_options& options);
  ~device_engine() override;

  const driver& api() const noexcept { return driver_; }
  context_ref context() const noexcept { return context_; }
  int ordinal() const noexcept { return ordinal_; }
  std::uint64_t memory_limit() const noexcept { return memory_limit_; }
  const kernel_module& kernels() const noexcept { return kernels_; }
  page_locked_ring& ring() noexcept { return ring_; }
  device_pool& results() noexcept { return pool_; }
  device_usage usage() const override;
  bool clear() override;
  result<> outcome() override { return outcome_of_handed(true); }

  /// The engine's resources for a read, from its begin to its end.
  /// \param starts  Events to wait for before the first write; owned by the engine from now on.
  /// \param memory  The same for the memory that is written to; it remains its pool's. Null: none.
  result<read_slot*> begin_read(std::vector<event_ref> starts, event_ref memory);
  void end_read(read_slot* slot) noexcept;
  /// The first failure of a wave that had cells of the read. Its own failures are in the slot's record.
  result<> outcome_of_waves(const read_slot& slot);
  /// Other libraries have the memory of the read that owns the slot: unless its outcome is queried, `outcome_of_handed`
  /// reports it. `describe` turns a record of failures into an error, without the read.
  void watch(read_slot* slot, std::function<error(const failure_report&)> describe);
  void unwatch(read_slot* slot) noexcept;
  /// Failures of watched reads, each reported once. `wait`: of all of them, otherwise of those that are known to have
  /// ended.
  result<> outcome_of_handed(bool wait);
  /// Refuses a stream of the caller that captures a graph. A stream that waits for work of a capture joins it: ours
  /// would record their work for the graph, and not do it.
  /// \error invalid_argument  It captures.
  result<> check_stream(stream_ref stream) const;
  /// An event that is recorded on `stream` now, and that a read can wait for.
  /// \error As `check_stream`; the driver's.
  result<event_ref> take_event_at(stream_ref stream);
  void give_event(event_ref event) noexcept;

  /// The device reads encoded bytes directly from the ring's blocks; nothing copies them. Requires coherent memory, and
  /// that the device's decompression engine, which may need memory of its own, is not in use.
  bool reads_in_place() const noexcept { return reads_in_place_; }
  /// The same for an engine that does not exist yet. Also false if the device does not exist.
  static bool would_read_in_place(int ordinal, const device::nvcomp* library);
  /// Whether the open wave has blocks of the ring, for which a thread may wait.
  bool open_wave_has_blocks() const noexcept { return open_has_blocks_.load(std::memory_order_relaxed); }
  /// Lets the device start to decode them.
  result<> close_for_blocks();

  /// Queues the batch's copies, reads the headers of its cells and adds the cells to waves, as many as they need.
  /// Returns false if no wave is free for the cells from `what.next` on; the caller tries again after `nudge`. If
  /// `what.refused` has cells, the block stays with the batch.
  /// \param ends  `finish` follows at once.
  /// \error resource_exhausted  One cell alone, `what.failed`, is larger than a wave.
  result<bool> submit(read_slot& read, parcel& what, bool ends = false);
  /// Takes back the block of a batch that will not be submitted (again), after the copies from it.
  void drop(read_slot& read, parcel& what) noexcept;
  /// The same for a block without a batch.
  void give_block(std::byte* block) noexcept;
  /// Adds fills to the open wave. Returns false as `submit` does.
  result<bool> submit_fill(read_slot& read, const placement& where, std::span<const std::byte> item);
  /// Closes the waves that have cells of this read, and queues its end. May wait for other reads' headers.
  result<> finish(read_slot& read);

  /// Records in `event` the end of a read (null: none) and, if its memory was exported, of everything that other
  /// libraries queued so far. Returns false if that is not possible.
  bool record_end(event_ref event, event_ref end_of_read, bool handed);
  /// Waits for everything that was queued on the device, by any library.
  /// \error The driver's: a failed kernel, or the capture of a graph under way, in which nothing was waited for.
  result<> wait_for_all();
  /// Queues on `stream` a copy of an item's units, in C order from its `to` on. Returns how many kernels that takes: 0
  /// if the driver's copy does it.
  result<std::uint64_t> copy(const move_item& item, std::span<const move_axis> axes, stream_ref stream);
  /// Queues a copy of host memory to `to`, on a stream of results, after the last use of `to` and before everything
  /// that waits for its event from now on. `block`: the block of the ring that `from` is in, the engine's from now on;
  /// null: ordinary memory, which the driver has read on return.
  result<> fill(const std::byte* from, std::uint64_t bytes, const device_block& to, std::byte* block);
  /// The stream that values to be written are ordered on: their producer makes it wait for them.
  stream_ref write_stream() const noexcept { return write_[0]; }
  /// From now on, `gather` reads its input only after the work that is queued on `write_stream` and on `stream`.
  /// \error As `check_stream`; the driver's.
  result<> begin_write(std::optional<stream_ref> stream);
  /// Copies units [first, first + count) of an item, which are in C order from its `to` on, to host memory, and waits.
  result<> gather(const move_item& item, std::span<const move_axis> axes, std::uint64_t first, std::uint64_t count,
                  std::byte* to);

  /// Whether this process was forked from the engine's: the engine's threads and device do not exist here, and its
  /// locks may be held.
  bool is_of_parent() const noexcept { return generation_ != fork_clock::now(); }
  bool is_broken() {
    const mutex_lock lock(mutex_);
    return broken_.has_value();
  }

  /// Processes everything that has ended on the device.
  void collect() noexcept override;
  void settle() noexcept override;
  /// Marks where work of a read or write begins on a stream. Returns null if nothing is recorded or the driver failed.
  timed_span* begin_span(const recorded_read& of, stage what, std::uint32_t worker, stream_ref stream) noexcept;
  /// Marks the end of the caller's work on a read's values; if `stream` is null, it is not recorded.
  void end_work(timed_span* span, std::uint64_t bytes, stream_ref stream) noexcept;
  /// Marks the begin of launches of a kernel, for a write whose other work has a span.
  timed_span* begin_kernel(const recorded_read& of, const char* name, std::uint64_t launches,
                           stream_ref stream) noexcept;
  /// Marks the end of a span that `record_span` records or drops. `span` may be null in both.
  void mark_end(timed_span* span, stream_ref stream) noexcept;
  /// Records a span whose end has been waited for, with its bytes; drops it if `complete` is false.
  void record_span(timed_span* span, std::uint64_t bytes_in, std::uint64_t bytes_out, bool complete = true) noexcept;
  /// Increases whenever something was freed: requests that did not fit may fit now.
  std::uint64_t freed() const noexcept { return freed_.load(std::memory_order_acquire); }
  /// Reads that are woken when something ends; the job must exist until it is removed.
  void add_listener(read_job* job);
  void remove_listener(read_job* job) noexcept;

 private:
  static constexpr unsigned kDecodeStreams = 2;
  static constexpr unsigned kResultStreams = 4;
  static constexpr unsigned kWaves = 3;
  static constexpr unsigned kWriteStreams = 2;

  // The streams by their numbers in the completion queue.
  static constexpr unsigned kCopyNumber = 0, kFirstDecodeNumber = 1, kFirstResultNumber = 1 + kDecodeStreams;

  device_engine(const driver& with, int ordinal, device_number device, context_ref context,
                const device_options& options);
  result<> start();
  std::vector<stream_ref> streams() const;
  result<> check(driver_status status, std::string_view call) PENSTOCK_REQUIRES(mutex_);
  void break_with(const error& what) PENSTOCK_REQUIRES(mutex_);
  void tell_freed() noexcept PENSTOCK_EXCLUDES(listeners_mutex_);
  result<> healthy() const PENSTOCK_REQUIRES(mutex_);
  result<read_slot*> take_slot() PENSTOCK_REQUIRES(mutex_);
  void release_starts(read_slot& read) noexcept PENSTOCK_REQUIRES(mutex_);
  result<event_ref> new_event() PENSTOCK_REQUIRES(mutex_);
  result<> make_events() PENSTOCK_REQUIRES(mutex_);
  result<> queue_fill(const std::byte* from, std::uint64_t bytes, const device_block& to, std::byte* block)
      PENSTOCK_EXCLUDES(mutex_);
  result<> queue_gather(const move_item& item, std::span<const move_axis> axes, std::uint64_t first,
                        std::uint64_t count, std::byte* to, unsigned which) PENSTOCK_REQUIRES(mutex_);

  bool reads_in_place(const parcel& what) const noexcept { return reads_in_place_ && what.block != nullptr; }
  std::uint64_t encoded_room(const parcel& what, const parcel_cell& cell) const noexcept;
  void hold_block(device_wave& wave, const parcel& what) PENSTOCK_REQUIRES(mutex_);
  void release_wave(device_wave& wave) noexcept PENSTOCK_REQUIRES(mutex_);
  result<device_wave*> open_wave(std::uint64_t encoded_bytes, std::uint64_t scratch_bytes, std::uint64_t likely_cells)
      PENSTOCK_REQUIRES(mutex_);
  result<bool> make_room_for_tables(device_wave& wave, std::uint64_t needed) PENSTOCK_REQUIRES(mutex_);
  result<bool> stage_cells(read_slot& read, parcel& what) PENSTOCK_REQUIRES(mutex_);
  // Queues bytes [begin, end) of a batch, with its cells from `what.next` up to `last`.
  struct cell_run {
    std::uint64_t begin, end;
    std::size_t last;
    std::size_t cells;
    std::uint64_t raw_bytes, scratch_bytes;
  };
  cell_run run_that_fits(const parcel& what, const device_wave& wave, std::size_t most_cells) const;
  result<bool> stage_run(read_slot& read, parcel& what, device_wave& wave, const cell_run& run)
      PENSTOCK_REQUIRES(mutex_);
  result<bool> take_run(read_slot& read, const parcel& what, device_wave& wave, const cell_run& run,
                        const cell_scan& scan) PENSTOCK_REQUIRES(mutex_);
  std::unique_ptr<cell_scan> take_scan() PENSTOCK_REQUIRES(mutex_);
  result<> leave_to_host(parcel& what, std::uint64_t needed) PENSTOCK_REQUIRES(mutex_);
  result<> close_wave() PENSTOCK_REQUIRES(mutex_);
  result<> queue_wave(device_wave& wave) PENSTOCK_REQUIRES(mutex_);
  bool is_closing_for(const read_slot& read) const PENSTOCK_REQUIRES(mutex_);
  result<> launch(device_wave& wave, const wave_layout& layout) PENSTOCK_REQUIRES(mutex_);
  result<> launch_decoders(device_wave& wave, stream_ref stream, bool timed) PENSTOCK_REQUIRES(mutex_);
  result<> order(stream_ref first, stream_ref then) PENSTOCK_REQUIRES(mutex_);
  result<> mark_launch(device_wave& wave, stream_ref stream) PENSTOCK_REQUIRES(mutex_);
  result<> decode_by_library(const device::kernel_launch& launch, stream_ref stream) PENSTOCK_REQUIRES(mutex_);
  result<> copy_plain(read_slot& read, parcel& what) PENSTOCK_REQUIRES(mutex_);
  result<> wait_for_ordinary(const parcel& what, stream_ref stream) PENSTOCK_REQUIRES(mutex_);
  result<> copy_runs(parcel& what, stream_ref stream) PENSTOCK_REQUIRES(mutex_);
  void note_reached() noexcept PENSTOCK_REQUIRES(mutex_);
  // Alternates.
  unsigned take_result_stream() noexcept PENSTOCK_REQUIRES(mutex_) { return next_result_++ % kResultStreams; }
  unsigned end_of(read_slot& read) PENSTOCK_REQUIRES(mutex_);
  result<> release_block(read_slot& read, parcel& what) PENSTOCK_REQUIRES(mutex_);
  result<> release_copied() PENSTOCK_REQUIRES(mutex_);
  void push_copied(event_ref event) PENSTOCK_REQUIRES(mutex_);
  result<> wait_for_starts(const read_slot& read, stream_ref stream) PENSTOCK_REQUIRES(mutex_);
  result<> wait_for_start(read_slot& read, stream_ref stream, unsigned which) PENSTOCK_REQUIRES(mutex_);
  static wave_share& share_of(device_wave& wave, read_slot& read);
  static bool has_share(const device_wave& wave, const read_slot& read) noexcept;

  const driver& driver_;
  const int ordinal_;
  const device_number device_;
  const std::uint64_t generation_ = fork_clock::now();
  const context_ref context_;
  const std::uint64_t memory_limit_, staging_bytes_;
  const device::nvcomp* const nvcomp_;
  page_locked_ring ring_;
  device_pool pool_;
  kernel_module kernels_{driver_};

  // Created by `start` and never replaced.
  stream_ref copy_ = nullptr;
  stream_ref peer_ = nullptr;    // of another library's allocator, in whose order it works; null: none
  stream_ref beside_ = nullptr;  // for kernels parallel to those of the decode streams
  stream_ref decode_[kDecodeStreams] = {}, result_[kResultStreams] = {}, write_[kWriteStreams] = {};
  device::library_use by_library_;
  bool reads_in_place_ = false;
  bool reads_ordinary_later_ = false;  // the driver may read ordinary memory after a copy from it was queued

  mutable mutex mutex_;  // also guards the order of calls on the streams
  condition closed_;     // a wave that was closing is queued, or will never be
  std::optional<error> broken_ PENSTOCK_GUARDED_BY(mutex_);
  unsigned next_decode_ PENSTOCK_GUARDED_BY(mutex_) = 0, next_result_ PENSTOCK_GUARDED_BY(mutex_) = 0,
                        next_write_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  // The memory that a write's stream gathers into, in its order.
  wave_memory staging_[kWriteStreams] PENSTOCK_GUARDED_BY(mutex_);
  event_ref order_ PENSTOCK_GUARDED_BY(mutex_) = nullptr;  // recorded and waited for at once
  timed_spans spans_ PENSTOCK_GUARDED_BY(mutex_){driver_, ordinal_};
  wave_arena::counted_bytes wave_bytes_;
  wave_arena waves_ PENSTOCK_GUARDED_BY(mutex_);
  device_wave* open_ PENSTOCK_GUARDED_BY(mutex_) = nullptr;
  std::vector<device_wave*> closing_ PENSTOCK_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<cell_scan>> idle_scans_ PENSTOCK_GUARDED_BY(mutex_);
  device_wave* last_[kDecodeStreams] PENSTOCK_GUARDED_BY(mutex_) = {};  // last wave queued on each stream
  read_slots slots_ PENSTOCK_GUARDED_BY(mutex_){driver_};
  std::vector<event_ref> free_events_ PENSTOCK_GUARDED_BY(mutex_);
  // Blocks whose copies are queued on `copy_`, until the next event there.
  std::vector<std::byte*> copied_ PENSTOCK_GUARDED_BY(mutex_);
  // Reused.
  std::vector<completion> reached_ PENSTOCK_GUARDED_BY(mutex_);
  std::vector<device_address> run_targets_ PENSTOCK_GUARDED_BY(mutex_), run_sources_ PENSTOCK_GUARDED_BY(mutex_);
  std::vector<std::size_t> run_bytes_ PENSTOCK_GUARDED_BY(mutex_);
  bool batch_refused_ PENSTOCK_GUARDED_BY(mutex_) = false;  // copies are no longer queued in batches

  mutex listeners_mutex_;
  std::vector<read_job*> listeners_ PENSTOCK_GUARDED_BY(listeners_mutex_);
  std::atomic<std::uint64_t> freed_{0};
  std::atomic<bool> open_has_blocks_{false};
  completion_queue completions_{driver_};  // last member: its thread uses the others
};

}  // namespace penstock::inline v0::cuda
