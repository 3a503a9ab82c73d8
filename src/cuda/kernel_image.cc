#include "cuda/kernel_image.h"

#include "cuda/decode/fatbin.h"

namespace penstock::inline v0::cuda {

std::span<const std::byte> kernel_image() noexcept { return device::fatbin(); }

}  // namespace penstock::inline v0::cuda
