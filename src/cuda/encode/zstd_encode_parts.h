#pragma once

// The structures and sizes that host and device exchange for zstd frames.

#include "cuda/encode/encode_parts.h"

namespace penstock::inline v0::device {

inline constexpr std::uint32_t kMostEncodedBlock = 128 * 1024;  ///< bytes of content (RFC 8878, 3.1.1.2.4)
inline constexpr std::uint32_t kZstdBlockHeader = 3;
inline constexpr std::uint32_t kZstdFrameBytes = 14;  ///< the longest header and a checksum

/// The number of blocks in a frame of `size` bytes.
constexpr std::uint32_t zstd_blocks_of(std::uint64_t size) {
  return size == 0 ? 1 : static_cast<std::uint32_t>((size - 1) / kMostEncodedBlock + 1);
}

/// The most bytes that this many bytes encode to.
constexpr std::uint64_t zstd_bound(std::uint64_t size) {
  return size + std::uint64_t{kZstdBlockHeader} * zstd_blocks_of(size) + kZstdFrameBytes;
}

/// Global memory that a warp needs to encode a frame alone, and for each block of frames that warps share. Both start
/// at multiples of 8, and may have any content.
inline constexpr std::uint64_t kZstdWorkspaceBytes = 340'784;
inline constexpr std::uint64_t kZstdBlockWorkspaceBytes = kZstdWorkspaceBytes + kMostEncodedBlock + 8;

/// The argument of the kernel that encodes one part with one warp, as a frame.
struct zstd_encode_wave {
  encode_wave parts;
  std::uint64_t workspaces;  ///< kZstdWorkspaceBytes for each part
  std::uint32_t checksum;    ///< 1: each frame ends with one
  std::uint32_t reserved;
};

/// The argument of the two kernels whose warps share frames; both run one warp for each block of each part.
struct zstd_encode_blocks_wave {
  encode_wave parts;          ///< all of one size; the target of a part that does not fit is unchanged
  std::uint64_t workspaces;   ///< kZstdBlockWorkspaceBytes for each block: written by the first kernel for the second
  std::uint32_t part_blocks;  ///< zstd_blocks_of(source_bytes), of every part
  std::uint32_t checksum;     ///< 1: each frame ends with one
};

}  // namespace penstock::inline v0::device
