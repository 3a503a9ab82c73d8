#pragma once

// The kernels of src/cuda/kernels, in the branches that only a device compiles.

#include <cstddef>
#include <string_view>

namespace emulator {

struct kernel {
  const char* name;  ///< as in the device module
  std::size_t argument_bytes;
  std::size_t shared_bytes;
  void (*lane)(const void* argument);  ///< the work of one thread
};

/// Null when no kernel has the name.
const kernel* find_kernel(std::string_view name);

}  // namespace emulator
