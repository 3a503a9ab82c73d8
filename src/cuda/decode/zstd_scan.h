#pragma once

// What the host reads of zstd frames before the device decodes them: headers, never data.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <penstock/result.h>

#include "cuda/decode/descriptors.h"

namespace penstock::inline v0::device {

/// More decoded bytes than this are left to the host: offsets have 27 bits on the device.
inline constexpr std::uint64_t kMostZstdBytes = 1u << 27;

/// The frames and blocks of one or more parts. Indexes count from the front of the vectors.
struct zstd_index {
  std::vector<zstd_frame> frames;
  std::vector<zstd_block> blocks;
  std::uint64_t literal_bytes = 0;  ///< of the literal buffer
  std::uint64_t sequences = 0;

  void clear();
};

/// Appends the frames and blocks of `bytes`, which decode to `decoded_bytes`, as those of part `part`.
///
/// Reads a few bytes of every block; time and memory are bounded by the encoded bytes, of which a block that decodes to
/// anything takes four or more. Skippable frames, and blocks that decode to nothing, are left out. After an error
/// `index` is as before.
///
/// \error corrupt_data  The headers contradict the format or `decoded_bytes`.
/// \error unsupported   A dictionary, or more than `kMostZstdBytes`.
/// Source: RFC 8878, section 3.1.
result<> scan_zstd(std::span<const std::byte> bytes, std::uint64_t decoded_bytes, std::uint32_t part,
                   zstd_index& index);

}  // namespace penstock::inline v0::device
