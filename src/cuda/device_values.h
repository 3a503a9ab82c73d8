#pragma once

#include <memory>
#include <utility>

#include <penstock/tensor.h>
#include "array/conversion.h"
#include "cuda/device_engine.h"
#include "engine/cell_source.h"

namespace penstock::inline v0::cuda {

/// Values in device memory that the host encodes: each cell's values are transferred through page-locked memory,
/// gathered (and converted) by the device if they are not adjacent there.
class device_values final : public cell_source {
 public:
  /// `how` converts the caller's elements to the array's; it may be no conversion.
  device_values(std::shared_ptr<device_engine> engine, const conversion& how) noexcept
      : engine_(std::move(engine)), how_(how) {}

  result<lent_values> take(const placement& where, buffer& spare) override;
  void give(const lent_values& values) noexcept override;

 private:
  std::shared_ptr<device_engine> engine_;
  conversion how_;
};

/// Copies device memory of any strides to host memory in C order, and waits.
result<> copy_to_host(device_engine& engine, const tensor_view& from, std::byte* to);

/// Queues on `stream` a copy of device memory with any strides to `to`, also in device memory, in C order.
result<> copy_on_device(device_engine& engine, const tensor_view& from, void* to, stream_ref stream);

}  // namespace penstock::inline v0::cuda
