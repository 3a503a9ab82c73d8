#pragma once

#include <cstddef>

#include <penstock/dtype.h>
#include <penstock/shape.h>

namespace penstock::inline v0 {

/// Whether every element of a strided block is the fill value, so that the block need not be stored.
///
/// Compares bits, but all NaNs are equal, whatever their signs and payloads; in complex numbers, this applies to each
/// part. -0.0 is not 0.0. For real numbers zarr-python does the same; it treats complex zeros of either sign as equal,
/// which would lose the sign. Numbers of less than 8 bits are compared in these bits, whatever the other bits of their
/// byte are. Structures and raw bytes are compared as bytes. Not for dtypes of variable length.
/// `counts` in elements, `steps` in bytes (any sign, and 0). An empty block is equal.
bool equals_fill(const std::byte* data, const strides& steps, const extents& counts, const std::byte* fill,
                 const dtype& type) noexcept;

}  // namespace penstock::inline v0
