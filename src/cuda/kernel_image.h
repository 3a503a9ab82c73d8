#pragma once

#include <cstddef>
#include <span>

namespace penstock::inline v0::cuda {

/// The compressed fatbin of all kernels; empty in a build without nvcc.
std::span<const std::byte> kernel_image() noexcept;

}  // namespace penstock::inline v0::cuda
