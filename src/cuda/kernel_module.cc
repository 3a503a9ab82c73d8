#include "cuda/kernel_module.h"

#include <fmt/format.h>

#include "cuda/kernel_image.h"
#include "cuda/move/move.h"

namespace penstock::inline v0::cuda {
namespace {

// Whether the driver cannot run the code on this device: it is too old, or the code is for other devices.
bool cannot_run(driver_status status) {
  return status == kInvalidImage || status == kNoBinaryForDevice || status == kInvalidPtx || status == kNoPtxCompiler ||
         status == kUnsupportedPtx;
}

}  // namespace

result<> kernel_module::load() {
  auto image = kernel_image::load();
  const bool built_without = !image.ok() && image.error().code() == errc::unsupported;
  if (!image.ok() && !(built_without && driver_.simulated)) return std::move(image).error();
  const char nothing[16] = "no device code";
  const void* const bytes = image.ok() ? static_cast<const void*>(image->bytes().data()) : nothing;
  const auto all = [&]() -> result<> {
    const driver_status status = driver_.module_load(&module_, bytes);
    if (cannot_run(status)) return error(errc::unsupported, driver_.failure(status, "cuModuleLoadData").message());
    PENSTOCK_TRY(driver_.check(status, "cuModuleLoadData"));
    const auto find = [&](function_ref& out, const char* name) -> result<> {
      PENSTOCK_TRY(driver_.check(driver_.module_get_function(&out, module_, name),
                                 fmt::format("cuModuleGetFunction of {}", name)));
      if (driver_.function_load == nullptr) return {};
      return driver_.check(driver_.function_load(out), fmt::format("cuFuncLoad of {}", name));
    };
    PENSTOCK_TRY(find(move_, kMoveKernel));
    PENSTOCK_TRY(find(gather_, kGatherKernel));
    for (int i = 0; i < device::kKernels; ++i)
      PENSTOCK_TRY(find(decoders_[i], device::kernel_name(static_cast<device::kernel_id>(i))));
    return {};
  };
  auto loaded = all();
  if (loaded.ok()) return loaded;
  if (image.ok() && !image->file().empty())
    return std::move(loaded).error().note(fmt::format("loading PENSTOCK_CUDA_KERNELS: '{}'", image->file()));
  return std::move(loaded).error().note(fmt::format(
      "the driver supports CUDA {}.{}: device code needs the version of CUDA that it was built with, or a later one",
      driver_.version / 1000, driver_.version % 1000 / 10));
}

void kernel_module::unload() noexcept {
  if (module_ != nullptr) driver_.module_unload(module_);
  module_ = nullptr;
}

}  // namespace penstock::inline v0::cuda
