#pragma once

// What host and device say to each other about encoding: plain structures, the same bytes on both sides.

#include <cstdint>

namespace penstock::inline v0::device {

/// One thing to encode that stands alone: a chunk, or a block of one.
struct encode_part {
  std::uint64_t source;        ///< address of the bytes; any alignment
  std::uint64_t target;        ///< address of the encoded bytes; any alignment
  std::uint32_t source_bytes;  ///< readable bytes at `source`; not one more is read
  std::uint32_t target_bytes;  ///< room at `target`; not one more is written
};

inline constexpr std::uint32_t kDoesNotFit = 0xffffffffu;

/// The argument of the kernels that encode one part by one warp.
struct encode_wave {
  std::uint64_t parts;  ///< encode_part[part_count]
  std::uint64_t
      encoded_bytes;  ///< u32[part_count]: what became of each; kDoesNotFit: the target's content means nothing
  std::uint32_t part_count;
  std::uint32_t reserved;
};

}  // namespace penstock::inline v0::device
