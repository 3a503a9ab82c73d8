#pragma once

#include <penstock/result.h>
#include "cuda/decode/launch.h"
#include "cuda/driver.h"

namespace penstock::inline v0::cuda {

/// All kernels of one context, loaded. Borrows the driver; the context is current in every call.
class kernel_module {
 public:
  explicit kernel_module(const driver& with) noexcept : driver_(with) {}
  kernel_module(const kernel_module&) = delete;
  kernel_module& operator=(const kernel_module&) = delete;

  /// Loads every kernel now: a kernel that is loaded by its first launch may wait for all queued work of the context.
  ///
  /// \error unsupported, invalid_argument  As `kernel_image::load`; the fake driver of the tests needs no kernels.
  /// \error unsupported  The driver is too old for them, or they are for other devices. A note names the file that they
  /// are from, or the driver's version.
  /// \error  Other failures of the driver, with the same note.
  result<> load();
  void unload() noexcept;

  function_ref move() const noexcept { return move_; }
  function_ref gather() const noexcept { return gather_; }
  function_ref decoder(device::kernel_id kernel) const noexcept { return decoders_[static_cast<int>(kernel)]; }

 private:
  const driver& driver_;
  module_ref module_ = nullptr;
  function_ref move_ = nullptr, gather_ = nullptr;
  function_ref decoders_[device::kKernels] = {};
};

}  // namespace penstock::inline v0::cuda
