#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <penstock/context.h>
#include <penstock/result.h>
#include "base/mutex.h"
#include "cuda/driver.h"

namespace penstock::inline v0::cuda {

/// Device memory, and the event to wait for before it may be written to.
struct device_block {
  device_address address = 0;
  std::uint64_t bytes = 0;
  event_ref ready = nullptr;  ///< null: nothing
};

/// Memory of results, reused. Pointer and wait are returned together: earlier queued work may still read a returned
/// block, so its next writer must wait for `ready` on its stream.
///
/// Thread-safe. Nothing is allocated, and the driver is not called, for a size that was returned before.
///
/// With a peer's allocator the pool caches only events: memory is taken and returned in the order of one stream, which
/// waits for a block's last users before the block is returned to the peer.
class device_pool {
 public:
  device_pool(const driver& with, context_ref context, std::uint64_t kept_bytes) noexcept
      : driver_(with), context_(context), kept_limit_(kept_bytes) {}
  /// Before the first `take`. `stream` must exist until all blocks are returned.
  void use(std::shared_ptr<device_allocator> peer, int device, stream_ref stream) noexcept {
    peer_ = std::move(peer);
    device_ = device;
    peer_stream_ = stream;
  }
  ~device_pool();
  device_pool(const device_pool&) = delete;
  device_pool& operator=(const device_pool&) = delete;

  /// \error resource_exhausted  The device has no such memory, even after idle memory of the pool was released.
  result<device_block> take(std::uint64_t bytes);
  /// `ready` (the block's own event, made by `take` or here) must have been recorded after the last use that was
  /// queued; null: nothing is queued.
  void give(const device_block& block) noexcept;
  /// An event for `block`, created when first needed.
  result<event_ref> event_of(device_block& block);
  /// Returns idle memory to the device. Waits for queued work.
  void clear() noexcept;

  std::uint64_t held_bytes() const noexcept;
  std::uint64_t idle_bytes() const noexcept;

 private:
  const driver& driver_;
  const context_ref context_;
  const std::uint64_t kept_limit_;
  mutable mutex mutex_;
  std::vector<device_block> idle_ PENSTOCK_GUARDED_BY(mutex_);
  std::uint64_t held_ PENSTOCK_GUARDED_BY(mutex_) = 0, idle_bytes_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<device_allocator> peer_;
  int device_ = 0;
  stream_ref peer_stream_ = nullptr;
  std::vector<event_ref> idle_events_ PENSTOCK_GUARDED_BY(mutex_);

  void free(const device_block& block) noexcept PENSTOCK_REQUIRES(mutex_);
  result<device_block> take_of_peer(std::uint64_t bytes);
  void give_to_peer(const device_block& block) noexcept;
};

}  // namespace penstock::inline v0::cuda
