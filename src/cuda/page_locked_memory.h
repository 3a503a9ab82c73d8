#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/driver.h"

namespace penstock::inline v0::cuda {

/// Host memory that the device reads and writes, and into which the system reads files.
struct page_locked_memory {
  std::byte* data = nullptr;  ///< null: no memory could be allocated
  std::uint64_t bytes = 0;
  bool is_ours = false;  ///< registered with the driver, not allocated by it
};

/// Memory that the driver allocates or, if the system cannot read a file into that (EFAULT in sandboxes that ignore the
/// driver's mappings), ordinary memory, registered with the driver. The context is current.
page_locked_memory take_page_locked(const driver& with, std::uint64_t bytes) noexcept;
/// The context is current, and nothing uses the memory.
void give_page_locked(const driver& with, const page_locked_memory& memory) noexcept;

}  // namespace penstock::inline v0::cuda
