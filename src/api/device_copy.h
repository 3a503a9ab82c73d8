#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <penstock/result.h>
#include <penstock/tensor.h>
#include "cuda/device_engine.h"

namespace penstock::inline v0 {

/// Memory of a device's pool, with a copy of values that is queued on a stream.
class device_copy {
 public:
  explicit device_copy(std::shared_ptr<cuda::device_engine> engine) noexcept : engine_(std::move(engine)) {}
  device_copy(const device_copy&) = delete;
  device_copy& operator=(const device_copy&) = delete;
  /// If the copy is on the engine's own stream, waits for it: the owner of the values may free them after this.
  ~device_copy();

  /// Queues a copy of `from`, device memory with `bytes` bytes of elements and any strides, after the work on `on`.
  /// \error resource_exhausted  The device has no memory for it.
  /// \error  As `device_engine::check_stream`; the driver's.
  result<> queue(const tensor_view& from, std::uint64_t bytes, cuda::stream_ref on);
  /// Waits for the copy without using a core. `may_go_on` is called repeatedly.
  /// \error cancelled  It returned false. \error  The driver's.
  result<> wait(const std::function<bool()>& may_go_on) const;
  /// The copy, in C order.
  std::byte* data() const noexcept { return reinterpret_cast<std::byte*>(block_.address); }
  cuda::device_engine& engine() const noexcept { return *engine_; }

 private:
  std::shared_ptr<cuda::device_engine> engine_;
  cuda::device_block block_;
  bool is_on_ours_ = false;
};

}  // namespace penstock::inline v0
