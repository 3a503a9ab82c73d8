#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <penstock/result.h>
#include "codec/worker_scratch.h"

namespace penstock::inline v0 {

/// A codec that makes any rows of a cell by themselves: rows along the slowest dimension of what it decodes to, in its
/// order. A chain then puts them where they belong while they are in the first level of the cache, and makes only those
/// that are wanted.
class row_codec {
 public:
  virtual ~row_codec() = default;
  /// Whether what it decodes to is so many rows of so many bytes.
  virtual bool has_rows(std::uint64_t rows, std::uint64_t row_bytes) const noexcept = 0;

  /// Decodes rows [first, first + count) of `encoded`, which is all of it, to the beginning of `out`.
  ///
  /// \param out  Room for so many rows, and no more; may be memory of the caller's array.
  /// \error corrupt_data  As `byte_codec::decode`.
  virtual result<> decode_rows(std::span<const std::byte> encoded, std::uint64_t first, std::uint64_t count,
                               std::span<std::byte> out, worker_scratch& scratch) const = 0;
};

}  // namespace penstock::inline v0
