#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <penstock/device.h>
#include <penstock/plan.h>
#include "base/mutex.h"
#include "cuda/device_engine.h"
#include "cuda/device_read.h"

namespace penstock::inline v0 {

/// The state of a device tensor, shared by every capsule in which it was exported.
class device_tensor_state {
 public:
  device_tensor_state(std::shared_ptr<cuda::device_engine> engine, std::shared_ptr<const array_state> from)
      : engine_(std::move(engine)), from_(std::move(from)) {}
  ~device_tensor_state();
  device_tensor_state(const device_tensor_state&) = delete;
  device_tensor_state& operator=(const device_tensor_state&) = delete;

  /// The device's engine of the array's context.
  static result<std::shared_ptr<cuda::device_engine>> engine_of(context_state& state, int device);
  /// \error invalid_argument  Memory of another context than the engine's.
  static result<> check_context(const cuda::device_engine& engine, std::uintptr_t address);
  result<> begin(const resolved_selection& which, const std::optional<tensor_view>& out,
                 const device_read_options& options);
  /// Sets `view_` to `out`, or to memory of the pool.
  result<> take_memory(const extents& shape, const dtype& type, const std::optional<tensor_view>& out);
  /// Starts a read of sources whose targets are in `view_`.
  result<> begin(std::span<source> sources, std::shared_ptr<const void> keep_alive, std::string note,
                 const device_read_options& options);
  /// Queues a copy of the host's values at `from`, in C order, after the last use of the memory. `block`: the block of
  /// the engine's ring that they are in, which is returned after the copy; null: they are in ordinary memory, which is
  /// not read after the call.
  result<> fill(const std::byte* from, std::byte* block);
  /// Waits for that copy. Success if no copy was queued.
  result<> wait_for_fill();
  bool fill_is_complete() const;
  result<> order(stream_handle stream);
  result<> release(stream_handle stream);
  result<> order_on(stream_handle stream) PENSTOCK_REQUIRES(mutex_);
  /// As `order`, for a consumer that orders its own work: no stream waits.
  result<> mark_exported();
  /// Waits for the host's part of the read; if that fails, the caller's memory is not written to any longer.
  result<> wait_queued();
  /// Waits for the device if the memory is the caller's and no stream was ordered after the read: the caller may free
  /// or change it from now on.
  void settle() noexcept;
  cuda::event_ref end_event() const;

  std::shared_ptr<cuda::device_engine> engine_;
  std::shared_ptr<const array_state> from_;
  std::shared_ptr<cuda::device_read> read_;  // null: an empty selection, or memory without a read
  // Address 0: the memory is the caller's. `ready` is created and recorded with the mutex held; the rest does not
  // change.
  cuda::device_block block_;
  tensor_view view_;
  bool filled_ = false;  // `block_.ready` was recorded after a copy into the memory; then it is not null
  mutex mutex_;
  bool released_ PENSTOCK_GUARDED_BY(mutex_) = false;  // `block_.ready` was recorded after the last use
  std::atomic<bool> handed_{false};                    // consumers may have queued work on the memory
  cuda::timed_span* work_ = nullptr;                   // the caller's work, after it has begun
};

}  // namespace penstock::inline v0
