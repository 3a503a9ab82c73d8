#pragma once

// The literals stage: each Huffman stream of each block is decoded by its own lane, eight blocks per warp.

#include "cuda/decode/huffman_tree.h"

namespace penstock::inline v0::device {

inline constexpr int kLiteralBlocksPerWarp = 8;
inline constexpr int kLanesPerLiteralBlock = kLanes / kLiteralBlocksPerWarp;

struct zstd_literals_shared {
  huffman_table tables[kLiteralBlocksPerWarp];
  std::uint32_t words[kStagedWords][kLanes];
};

/// Decodes stream `stream` of `block` with `table`; `ring` is the lane's.
PENSTOCK_DEVICE bool decode_literal_stream(const zstd_wave& wave, const zstd_block& block, const huffman_table& table,
                                           std::uint32_t* ring, std::uint32_t stream) {
  const decode_part& part = pointer<const decode_part>(wave.parts)[block.part];
  const auto* const at = pointer<const std::uint8_t>(part.source) + block.literals;
  auto* const out = block.direct != kNotDirect ? pointer<std::uint8_t>(part.target) + block.direct
                                               : pointer<std::uint8_t>(wave.literals) + block.literals_buffer;
  if (block.streams == 1) {
    return stream != 0 || decode_huffman_stream({at, block.literals_encoded}, table, ring, out, block.literals_bytes);
  }
  // The jump table: the sizes of the first three streams (RFC 8878, 3.1.1.3.1.6).
  if (block.literals_encoded < 10) return false;
  std::uint32_t start = 6, size = 0;
  for (std::uint32_t i = 0; i <= stream && i < 3; ++i) {
    start += size;
    size = load_bytes(at + 2 * i, 2);
  }
  if (stream == 3) {
    start += size;
    size = start < block.literals_encoded ? block.literals_encoded - start : 0;
  }
  if (start > block.literals_encoded || size > block.literals_encoded - start) return false;
  const std::uint32_t quarter = (block.literals_bytes + 3) / 4;
  if (3 * quarter > block.literals_bytes) return false;
  const std::uint32_t count = stream < 3 ? quarter : block.literals_bytes - 3 * quarter;
  return decode_huffman_stream({at + start, size}, table, ring, out + quarter * stream, count);
}

/// The work of one warp: blocks `8 group` to `8 group + 7` of the wave's blocks with Huffman literals.
PENSTOCK_DEVICE void zstd_literals_warp(const zstd_wave& wave, std::uint32_t group, zstd_literals_shared& shared,
                                        warp lanes) {
  const auto block_of = [&](int lane) -> const zstd_block* {
    const std::uint32_t i = group * kLiteralBlocksPerWarp + static_cast<std::uint32_t>(lane / kLanesPerLiteralBlock);
    if (i >= wave.literal_block_count) return nullptr;
    return pointer<const zstd_block>(wave.blocks) + pointer<const std::uint32_t>(wave.literal_blocks)[i];
  };
  lanes.each([&](int lane) {
    const zstd_block* const block = block_of(lane);
    if (block == nullptr || lane % kLanesPerLiteralBlock != 0) return;
    const auto* const source = pointer<const std::uint8_t>(pointer<const decode_part>(wave.parts)[block->part].source);
    read_huffman_tree({source + block->tree, block->tree_bytes}, shared.tables[lane / kLanesPerLiteralBlock]);
  });
  lanes.each([&](int lane) {
    if (block_of(lane) == nullptr) return;
    // Lanes share a table's weights; each weight belongs to one lane.
    fill_huffman_table(shared.tables[lane / kLanesPerLiteralBlock],
                       static_cast<std::uint32_t>(lane % kLanesPerLiteralBlock), kLanesPerLiteralBlock);
  });
  lanes.each_alone([&](int lane) {
    const zstd_block* const block = block_of(lane);
    if (block == nullptr) return;
    const huffman_table& table = shared.tables[lane / kLanesPerLiteralBlock];
    const auto stream = static_cast<std::uint32_t>(lane % kLanesPerLiteralBlock);
    if (table.bits != 0 && decode_literal_stream(wave, *block, table, &shared.words[0][lane], stream)) return;
    report(wave.statuses, pointer<const decode_part>(wave.parts)[block->part].chunk, chunk_status::corrupt_literals);
  });
}

}  // namespace penstock::inline v0::device
