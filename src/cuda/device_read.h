#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <penstock/plan.h>
#include "array/conversion.h"
#include "base/mutex.h"
#include "cuda/chain_split.h"
#include "cuda/device_engine.h"
#include "engine/cell_sink.h"
#include "engine/read_job.h"

namespace penstock::inline v0::cuda {

/// The limits with which a read of `sources` into device memory is planned. If the bytes are transferred to the device
/// as they were read, a request is longer than on the host, which decodes it from its cache.
/// \param page_locked_bytes  The most bytes that the ring may hold.
plan_limits limits_of(std::span<const source> sources, std::uint64_t page_locked_bytes, unsigned workers);

/// One read into device memory, from its beginning to the last query of its outcome.
///
/// As a sink it receives fetched cells from a read_job, decodes on the host those that the device cannot, and passes
/// the others to the engine. When the job ends, everything is queued on the device. `order` (on a stream) and
/// `synchronize` (on the host) wait until the device is done.
class device_read final : public cell_sink, public std::enable_shared_from_this<device_read> {
 public:
  /// \param starts  Events to wait for before the first write; the read returns them.
  /// \param memory  The same for the memory that is written to; it remains its pool's. Null: none.
  static result<std::shared_ptr<device_read>> make(std::shared_ptr<device_engine> engine, context_state& state,
                                                   std::vector<event_ref> starts, event_ref memory = nullptr);
  ~device_read() override;

  /// Converts every element to type `to`; strides of the sources' targets are in bytes of that type. Called before
  /// `start`.
  /// \error As `conversion_of`.
  result<> convert(std::span<const source> sources, const dtype& to);
  /// Starts the job on the context's threads. The limits of `settings` are the read's own.
  /// \error resource_exhausted  The system has no thread for the read, which can only be destroyed then.
  result<> start(std::span<const source> sources, read_job::settings settings, context_state& state);

  bool queued() const noexcept { return job_->done(); }
  /// Waits until everything is queued on the device: for storage and for host work, not for the device.
  /// \error A failure on the host.
  result<> wait_queued();
  bool wait_queued_for(std::chrono::nanoseconds timeout) { return job_->wait_for(timeout); }
  /// Makes `stream` wait for the read, without waiting on the host for the device.
  result<> order(stream_ref stream);
  /// Waits for the device.
  /// \error corrupt_data  Cells that failed on the device: how many, and one of them by name.
  result<> synchronize();
  /// Waits until nothing of this read writes to its target any longer, whatever its outcome is, which this does not
  /// query.
  void settle() noexcept;
  /// Whether the device is done, too, or has failed.
  bool complete();
  void cancel() noexcept { job_->cancel(); }
  /// Called once everything is queued: other libraries now have the memory, and may never query the outcome of the
  /// read.
  void hand_on();
  /// Errors of this read are reported by `outcome()` only, until `leave`. Call it before the export.
  void claim_outcome() noexcept { claimed_.store(true, std::memory_order_relaxed); }
  /// Called once everything is queued: the owner of the outcome was destroyed. Not left to the destructor: a worker may
  /// still hold the read.
  void leave();
  /// The outcome was queried, or will not be.
  void look() noexcept;
  std::uint64_t done_bytes() const noexcept { return job_->done_bytes(); }
  std::uint64_t total_bytes() const noexcept { return job_->total_bytes(); }
  std::uint64_t total_cells() const noexcept { return job_->total_cells(); }
  void on_queued(std::function<void()> then) { job_->on_done(std::move(then)); }
  /// Null: the read has no end on the device.
  event_ref end_event() const noexcept { return slot_->used ? slot_->done : nullptr; }
  const recorded_read& recorded_as() const noexcept { return recorded_as_; }
  device_engine& engine() const noexcept { return *engine_; }

 private:
  struct request_buffer;
  explicit device_read(std::shared_ptr<device_engine> engine, context_state& state);

  bool has_room() const noexcept override;
  bool can_advance() const noexcept override;
  read_buffer* take_buffer(std::uint64_t likely_bytes) override;
  void give_buffer(read_buffer* buffer) noexcept override;
  result<> take(const fetched_cells& what, read_buffer* buffer, worker_scratch& scratch) override;
  result<> fill(std::uint32_t source_number, const source& from, cell_id cell) override;
  result<bool> advance(bool last) override;
  result<bool> hand_over_kept();
  void abandon() noexcept override { abandoned_.store(true, std::memory_order_relaxed); }

  // A cell for the host; the batch of its encoded bytes is returned after the last one.
  struct refused_cell {
    std::shared_ptr<parcel> from;
    std::size_t refusal = 0;
  };
  struct kept_fill {
    std::uint32_t source = 0;
    cell_id cell = 0;
    std::size_t place = 0;  // the first one that has no space yet
  };
  // The conversion of the elements of one source.
  struct becoming {
    conversion how;
    alignas(16) std::byte fill[16] = {};
  };
  const device_chain& chain_of(const source& from, std::uint16_t chain);
  const device_chain& host_chain_of(const codec_chain& chain, const std::string& reason);
  void keep_refused(std::unique_ptr<parcel> what);
  result<> add_cell(parcel& into, const fetched_cells& what, const decode_op& op, placement& where,
                    worker_scratch& scratch);
  void finish_cell(parcel& into, parcel_cell& cell, const source& from, placement& where, bool direct) const;
  result<bool> submit(parcel& what, bool ends = false);
  result<bool> submit_fills(kept_fill& what);
  result<> host_part(parcel& into, parcel_cell& cell, std::size_t made, const device_chain& split,
                     std::span<const std::byte> encoded, std::uint32_t worker, worker_scratch& scratch);
  result<> hand_over(std::unique_ptr<parcel> what, bool ends = false);
  result<> take_cells(const fetched_cells& what, request_buffer* arrived, worker_scratch& scratch);
  result<> join(const fetched_cells& what, worker_scratch& scratch);
  result<> hand_over_joined();
  /// Adds the notes that name the cell of an error.
  error name_cell(error what, const failure_note& cell) const;
  static error name_request(error what, const fetched_cells& of, const decode_op& op);
  result<> decode_refused(worker_scratch& scratch);
  std::unique_ptr<parcel> take_parcel();
  void give_parcel(std::unique_ptr<parcel> what) noexcept;
  std::function<error(const failure_report&)> describe_later() const;
  void listen();
  result<> host_outcome();

  std::shared_ptr<device_engine> engine_;
  context_state* state_;
  std::shared_ptr<read_job> job_;
  recorded_read recorded_as_;  // before the first worker runs
  read_slot* slot_ = nullptr;  // owned by the engine
  std::vector<source> sources_;
  std::vector<becoming> becomes_;  // for each source; empty: nothing is converted
  std::string note_;
  std::shared_ptr<const void> keep_alive_;

  mutex joining_;  // taken before `mutex_`
  // Collects small requests until it is full or the read ends; its bytes are in ordinary memory.
  std::unique_ptr<parcel> joined_ PENSTOCK_GUARDED_BY(joining_);

  mutex mutex_;
  std::vector<std::unique_ptr<request_buffer>> buffers_ PENSTOCK_GUARDED_BY(mutex_);
  std::vector<request_buffer*> free_buffers_ PENSTOCK_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<parcel>> free_parcels_ PENSTOCK_GUARDED_BY(mutex_);
  std::deque<std::unique_ptr<parcel>> kept_ PENSTOCK_GUARDED_BY(mutex_);
  std::vector<kept_fill> kept_fills_ PENSTOCK_GUARDED_BY(mutex_);
  std::vector<refused_cell> refused_ PENSTOCK_GUARDED_BY(mutex_);
  // One of each codec chain.
  std::vector<std::unique_ptr<device_chain>> chains_ PENSTOCK_GUARDED_BY(mutex_), host_chains_
      PENSTOCK_GUARDED_BY(mutex_);
  worker_scratch advance_scratch_;  // for the one worker that is in `advance`
  bool owns_threads_ = false;       // it runs on threads of the context
  std::uint64_t small_bytes_ = 0;   // requests up to this size share batches
  bool through_host_ = false;       // requests' bytes are never transferred unchanged
  std::atomic<bool> abandoned_{false}, has_refused_{false}, listening_{false};
  std::atomic<bool> handed_on_{false}, claimed_{false}, looked_{false};
  std::atomic<std::uint64_t> tried_{0};         // value of `freed` when something did not fit
  std::atomic<std::size_t> waiting_{0};         // batches and fills that wait for space
  std::atomic<std::uint64_t> wanted_bytes_{0};  // of page-locked memory, for a request that waits for it
};

}  // namespace penstock::inline v0::cuda
