#pragma once

// The structures that host and device exchange for encoding, with the same bytes on both sides.

#include <cstdint>

namespace penstock::inline v0::device {

/// An independent unit of encoding: a chunk, or a block of one.
struct encode_part {
  std::uint64_t source;        ///< address of the bytes; any alignment
  std::uint64_t target;        ///< address of the encoded bytes; any alignment
  std::uint32_t source_bytes;  ///< readable bytes at `source`; no others are read
  std::uint32_t target_bytes;  ///< writable bytes at `target`; no others are written
};

inline constexpr std::uint32_t kDoesNotFit = 0xffffffffu;

/// The argument of the kernels that encode one part with one warp.
struct encode_wave {
  std::uint64_t parts;  ///< encode_part[part_count]
  /// u32[part_count]: the bytes that each part was encoded to; kDoesNotFit: the content of its target has no meaning.
  std::uint64_t encoded_bytes;
  std::uint32_t part_count;
  /// LZ4: 4 if each part begins with the size of its content, little-endian, as numcodecs writes it; else 0.
  std::uint32_t prefix_bytes;
};

/// The argument of the shuffle kernel: `blocks_per_part` thread blocks share a part.
struct shuffle_wave {
  std::uint64_t parts;  ///< encode_part[part_count]; target_bytes equals source_bytes
  std::uint32_t part_count;
  std::uint32_t blocks_per_part;
  std::uint32_t item_bytes;  ///< 1 to 65535
  std::uint32_t bits;        ///< 1: bits of items are shuffled, 0: bytes
};

}  // namespace penstock::inline v0::device
