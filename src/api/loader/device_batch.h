#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include <penstock/device.h>
#include <penstock/result.h>
#include "api/device_tensor_state.h"
#include "base/output_pool.h"

namespace penstock::inline v0 {

/// Values of a batch on their way to a device: host memory in which they are assembled, and memory of the device.
class device_batch {
 public:
  /// Page-locked memory if the engine has space for the values now, otherwise ordinary memory of `with`.
  /// \error resource_exhausted  The device or the host has too little memory.
  static result<device_batch> make(const std::shared_ptr<cuda::device_engine>& engine, context_state& with,
                                   const dtype& type, const extents& shape);
  device_batch(device_batch&& other) noexcept
      : engine_(std::move(other.engine_)),
        target_(std::move(other.target_)),
        block_(std::exchange(other.block_, nullptr)),
        ordinary_(std::move(other.ordinary_)) {}
  device_batch& operator=(device_batch&&) = delete;
  ~device_batch();

  std::byte* data() const noexcept { return block_ != nullptr ? block_ : ordinary_.data(); }
  /// Queues the copy. The host memory belongs to it from then on.
  result<device_tensor> send();

 private:
  device_batch() = default;

  std::shared_ptr<cuda::device_engine> engine_;
  std::shared_ptr<device_tensor_state> target_;
  std::byte* block_ = nullptr;  // block of the engine's ring
  output_block ordinary_;
};

}  // namespace penstock::inline v0
