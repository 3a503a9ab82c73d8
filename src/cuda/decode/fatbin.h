#pragma once

#include <cstddef>
#include <span>

namespace penstock::inline v0::device {

/// The kernels of `kernel_id` for every architecture, in the driver's format; empty if this build has none.
///
/// Static storage, aligned to 64 bytes.
std::span<const std::byte> fatbin() noexcept;

}  // namespace penstock::inline v0::device
