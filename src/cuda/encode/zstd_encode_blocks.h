#pragma once

// Frames that several warps share, for chunks of more than one block. One kernel encodes the blocks, each by a warp
// into its own workspace; a second one copies them to their places. The bytes are those that one warp makes.

#include "cuda/encode/zstd_encode.h"

namespace penstock::inline v0::device {

/// A block's memory in both kernels; at a multiple of 8.
struct zstd_block_workspace {
  zstd_encode_workspace encoder;
  std::uint32_t encoded_bytes;
  std::uint8_t encoded[kMostBlockBytes + kZstdBlockHeader + 1];
};
static_assert(sizeof(zstd_block_workspace) == kZstdBlockWorkspaceBytes);

struct zstd_join_shared {
  std::uint64_t accumulators[4];
};

/// Run by one warp of the first kernel: block `turn`.
PENSTOCK_DEVICE void encode_zstd_block_warp(const zstd_encode_blocks_wave& wave, std::uint32_t turn,
                                            zstd_encode_block_shared& shared, warp lanes) {
  const encode_part& part = pointer<const encode_part>(wave.parts.parts)[turn / wave.part_blocks];
  const std::uint32_t begin = turn % wave.part_blocks * kMostBlockBytes, left = part.source_bytes - begin;
  const content_block block{pointer<const std::uint8_t>(part.source), begin,
                            left < kMostBlockBytes ? left : kMostBlockBytes};
  zstd_block_workspace& workspace = pointer<zstd_block_workspace>(wave.workspaces)[turn];
  byte_writer out(workspace.encoded, sizeof workspace.encoded);
  write_zstd_block(block, left <= kMostBlockBytes, workspace.encoder, shared, out, lanes);
  lanes.once_alone([&] { workspace.encoded_bytes = out.size(); });
}

/// Run by one warp of the second kernel: copies block `turn` to its place in the frame. The warps of the first and the
/// last block add the header and the checksum.
PENSTOCK_DEVICE void join_zstd_block_warp(const zstd_encode_blocks_wave& wave, std::uint32_t turn,
                                          zstd_join_shared& shared, warp lanes) {
  const std::uint32_t index = turn / wave.part_blocks, first = index * wave.part_blocks, end = first + wave.part_blocks;
  const encode_part& part = pointer<const encode_part>(wave.parts.parts)[index];
  const auto* const workspaces = pointer<const zstd_block_workspace>(wave.workspaces);
  per_lane<std::uint64_t> before, all;
  lanes.each_alone([&](int lane) {
    before[lane] = all[lane] = 0;
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = first + static_cast<std::uint32_t>(lane); i < end; i += kLanes) {
      all[lane] += workspaces[i].encoded_bytes;
      if (i < turn) before[lane] += workspaces[i].encoded_bytes;
    }
  });
  const auto add = [](std::uint64_t a, std::uint64_t b) { return a + b; };
  lanes.scan(before, add);
  lanes.scan(all, add);
  const zstd_frame_header header(part.source_bytes, wave.checksum != 0);
  const std::uint64_t made = 4 + header.bytes + lanes.from(all, kLanes - 1) + (wave.checksum != 0 ? 4 : 0);
  const bool fits = made <= part.target_bytes;
  if (turn == first) {
    lanes.once_alone([&] {
      pointer<std::uint32_t>(wave.parts.encoded_bytes)[index] = fits ? static_cast<std::uint32_t>(made) : kDoesNotFit;
    });
  }
  if (!fits) return;
  byte_writer out(pointer<std::uint8_t>(part.target), part.target_bytes);
  if (turn == first) {
    header.write(out, lanes);
  } else {
    out.claim(static_cast<std::uint32_t>(4 + header.bytes + lanes.from(before, kLanes - 1)));
  }
  out.copy(workspaces[turn].encoded, workspaces[turn].encoded_bytes, lanes);
  if (turn + 1 == end && wave.checksum != 0)
    write_zstd_checksum({pointer<const std::uint8_t>(part.source), part.source_bytes}, shared.accumulators, out, lanes);
}

}  // namespace penstock::inline v0::device
