#pragma once

#include <cstddef>

#include <penstock/dtype.h>
#include <penstock/shape.h>

namespace penstock::inline v0 {

enum class memory_space : std::uint8_t { host, cuda };

/// A borrowed, strided, typed block of memory that a read fills.
///
/// Shape: `extents`; unit of `strides`: bytes, any sign. The caller owns the memory and keeps it until the read is
/// done. Elements must not overlap.
struct tensor_view {
  std::byte* data = nullptr;
  dtype type;
  penstock::extents extents;
  penstock::strides strides;
  memory_space space = memory_space::host;

  /// A C-order view of `data`, which holds product(extents) elements.
  static tensor_view contiguous(void* data, dtype type, const penstock::extents& shape) noexcept {
    return {static_cast<std::byte*>(data), type, shape, c_order_strides(shape, type.item_bytes()), memory_space::host};
  }
};

}  // namespace penstock::inline v0
