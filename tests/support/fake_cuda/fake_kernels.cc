// The fake driver: modules and kernels, which run as their host form.

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "support/fake_cuda/fake_driver.h"

namespace penstock::test::fake {

driver_status module_load(module_ref* out, const void*) {
  PENSTOCK_CALLED("cuModuleLoadData");
  if (fake_driver::current_device_number() < 0) return kInvalidContext;
  *out = reinterpret_cast<module_ref>(fake_driver::context_of(fake_driver::current_device_number()));
  return kSuccess;
}

driver_status module_unload(module_ref) {
  PENSTOCK_CALLED("cuModuleUnload");
  return kSuccess;
}

driver_status module_get_function(function_ref* out, module_ref, const char* name) {
  PENSTOCK_CALLED("cuModuleGetFunction");
  for (const host_kernel& each : host_kernels()) {
    if (std::string_view(each.name) != name) continue;
    const std::lock_guard lock(self().mutex);
    self().functions.push_back(std::make_unique<fake_function>(fake_function{each}));
    *out = reinterpret_cast<function_ref>(self().functions.back().get());
    return kSuccess;
  }
  return kNotFound;
}

driver_status function_load(function_ref) {
  PENSTOCK_CALLED("cuFuncLoad");
  return kSuccess;
}

driver_status launch_kernel(function_ref function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                            unsigned block_y, unsigned block_z, unsigned, stream_ref stream, void** parameters,
                            void**) {
  PENSTOCK_CALLED("cuLaunchKernel");
  self().count("kernel");
  if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 || block_x > 1024 || block_y != 1 || block_z != 1)
    return kInvalidValue;
  const host_kernel kernel = reinterpret_cast<fake_function*>(function)->kernel;
  const auto* const given = static_cast<const std::byte*>(parameters[0]);
  auto copied = std::make_shared<std::vector<std::byte>>(given, given + kernel.parameter_bytes);
  const auto run = [kernel, copied, grid_x, block_x] {
    const fake_memory::access open(self().memory);
    kernel.run(copied->data(), grid_x, block_x);
    if (const auto then = self().then_of(kernel.name)) then(copied->data());
    self().count((std::string("ran ") + kernel.name).c_str());
  };
  return enqueue(stream, run, kernel.name);
}

}  // namespace penstock::test::fake
