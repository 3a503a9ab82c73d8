#pragma once

// The headers of zstd frames, which the host reads before the device decodes their data.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <penstock/result.h>

#include "cuda/decode/descriptors.h"

namespace penstock::inline v0::device {

/// Larger contents are left to the host: offsets have 27 bits on the device.
inline constexpr std::uint64_t kMostZstdBytes = 1u << 27;

/// The frames and blocks of one or more parts. Indexes count from the beginning of the vectors.
struct zstd_index {
  std::vector<zstd_frame> frames;
  std::vector<zstd_block> blocks;
  std::uint64_t literal_bytes = 0;  ///< of the literal buffer
  std::uint64_t sequences = 0;

  void clear();
};

/// Appends the frames and blocks of `bytes`, which decode to `decoded_bytes`, as those of part `part`.
///
/// Reads a few bytes of every block; time and memory are bounded by the encoded size, because a block with content
/// takes at least four bytes. Skippable frames, and blocks without content, are omitted. After an error `index` is
/// unchanged.
///
/// \error corrupt_data  The headers contradict the format or `decoded_bytes`.
/// \error unsupported   A dictionary, or more than `kMostZstdBytes`.
/// Source: RFC 8878, section 3.1.
result<> scan_zstd(std::span<const std::byte> bytes, std::uint64_t decoded_bytes, std::uint32_t part,
                   zstd_index& index);

}  // namespace penstock::inline v0::device
