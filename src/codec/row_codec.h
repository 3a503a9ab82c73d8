#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <penstock/result.h>
#include "codec/worker_scratch.h"

namespace penstock::inline v0 {

/// A codec that can decode rows of a cell separately: rows along the slowest dimension of its output, in order. A chain
/// then copies them to their destination while they are in the first level of the cache, and decodes only the selected
/// ones.
class row_codec {
 public:
  virtual ~row_codec() = default;
  /// Whether its output is this many rows of this many bytes.
  virtual bool has_rows(std::uint64_t rows, std::uint64_t row_bytes) const noexcept = 0;

  /// Decodes rows [first, first + count) of `encoded`, which is all of it, to the beginning of `out`.
  ///
  /// \param out  Memory for exactly these rows; may be memory of the caller's array.
  /// \error corrupt_data  As `byte_codec::decode`.
  virtual result<> decode_rows(std::span<const std::byte> encoded, std::uint64_t first, std::uint64_t count,
                               std::span<std::byte> out, worker_scratch& scratch) const = 0;
};

}  // namespace penstock::inline v0
