#pragma once

// LZ4 frames (lz4_Frame_format.md): blocks that may repeat content of the blocks before them, with checksums. A warp
// decodes a part's frames one after the other; all lanes read their headers.

#include "cuda/decode/lz_formats.h"
#include "cuda/decode/xxh32.h"

namespace penstock::inline v0::device {

inline constexpr std::uint32_t kLz4Magic = 0x184D2204u, kSkippableMagic = 0x184D2A50u;

/// The contents of a frame's header.
struct lz4_header {
  std::uint32_t bytes;        ///< size of the header, with the magic number
  std::uint32_t block_bytes;  ///< the largest decoded size of a block
  std::uint64_t content_bytes;
  bool linked;  ///< a block may repeat bytes of the blocks before it
  bool block_checksums, content_checksum, has_content_bytes, dictionary;
};

/// Reads the header of a frame that begins with kLz4Magic; false: it is not valid in the format.
PENSTOCK_DEVICE bool read_lz4_header(byte_view from, lz4_header& out) {
  if (from.size < 7) return false;
  const std::uint32_t flags = from.begin[4], sizes = from.begin[5], size = sizes >> 4 & 7;
  if (flags >> 6 != 1 || (flags & 2) != 0 || (sizes & 0x8f) != 0 || size < 4) return false;
  out.linked = (flags & 32) == 0;
  out.block_checksums = (flags & 16) != 0;
  out.has_content_bytes = (flags & 8) != 0;
  out.content_checksum = (flags & 4) != 0;
  out.dictionary = (flags & 1) != 0;
  out.block_bytes = 1u << (8 + 2 * size);
  out.bytes = 7 + (out.has_content_bytes ? 8 : 0) + (out.dictionary ? 4 : 0);
  if (from.size < out.bytes) return false;
  out.content_bytes = 0;
  if (out.has_content_bytes) {
    const std::uint64_t high = load_bytes(from.begin + 10, 4);
    out.content_bytes = high << 32 | load_bytes(from.begin + 6, 4);
  }
  const byte_view described{from.begin + 4, out.bytes - 5};
  const std::uint32_t hash = xxh32::finish(described, xxh32::accumulate(described, 0), xxh32::accumulate(described, 1),
                                           xxh32::accumulate(described, 2), xxh32::accumulate(described, 3));
  return (hash >> 8 & 255) == from.begin[out.bytes - 1];
}

/// Decodes the blocks of one frame, from `at` on; `at` is then after the frame.
PENSTOCK_DEVICE chunk_status lz4_frame_blocks(const decode_part& part, const lz4_header& header, std::uint32_t& at,
                                              lz_output& out, lz_parts_shared& shared, warp lanes) {
  const auto* const source = pointer<const std::uint8_t>(part.source);
  const std::uint32_t start = out.at();
  out.begin_frame();
  for (;;) {
    if (part.source_bytes - at < 4) return chunk_status::corrupt_stream;
    const std::uint32_t word = load_bytes(source + at, 4), size = word & 0x7fffffffu;
    at += 4;
    if (word == 0) break;
    const std::uint32_t left = part.source_bytes - at, behind = header.block_checksums ? 4 : 0;
    if (size > header.block_bytes || size > left || left - size < behind) return chunk_status::corrupt_stream;
    if (header.block_checksums && load_bytes(source + at + size, 4) != xxh32_by_warp({source + at, size}, lanes))
      return chunk_status::wrong_checksum;
    if (!header.linked) out.begin_frame();
    if (word != size) {
      if (size > out.room()) return chunk_status::wrong_size;
      out.append(lanes, source + at, 1, size);
    } else {
      decode_part block = part;
      block.source += at;
      block.source_bytes = size;
      block.target_bytes = out.room() < header.block_bytes ? out.room() : header.block_bytes;
      block.parameter = static_cast<std::uint32_t>(lz_format::lz4_block);
      if (!lz_sequences(block, out, shared, lanes)) return chunk_status::corrupt_stream;
    }
    at += size + behind;
  }
  const std::uint32_t made = out.at() - start;
  if (header.has_content_bytes && header.content_bytes != made) return chunk_status::wrong_size;
  if (!header.content_checksum) return chunk_status::ok;
  if (part.source_bytes - at < 4) return chunk_status::corrupt_stream;
  out.finish(lanes);
  const std::uint32_t hash = xxh32_by_warp({pointer<const std::uint8_t>(part.target) + start, made}, lanes);
  at += 4;
  return hash == load_bytes(source + at - 4, 4) ? chunk_status::ok : chunk_status::wrong_checksum;
}

/// The work of one warp: the part with index `turn` in the wave's order.
PENSTOCK_DEVICE void lz4_frame_warp(const part_wave& wave, std::uint32_t turn, lz_parts_shared& shared, warp lanes) {
  const decode_part& part = pointer<const decode_part>(wave.parts)[pointer<const std::uint32_t>(wave.order)[turn]];
  const auto* const source = pointer<const std::uint8_t>(part.source);
  lz_output out(shared.output, pointer<std::uint8_t>(part.target), part.target_bytes, lanes);
  chunk_status status = chunk_status::ok;
  for (std::uint32_t at = 0; status == chunk_status::ok && at != part.source_bytes;) {
    const byte_view rest{source + at, part.source_bytes - at};
    if (rest.size < 8) {
      status = chunk_status::corrupt_stream;
      break;
    }
    const std::uint32_t magic = load_bytes(rest.begin, 4);
    if ((magic & 0xfffffff0u) == kSkippableMagic) {
      const std::uint32_t size = load_bytes(rest.begin + 4, 4);
      if (size > rest.size - 8) status = chunk_status::corrupt_stream;
      at += 8 + size;
      continue;
    }
    lz4_header header;
    if (magic != kLz4Magic || !read_lz4_header(rest, header) || header.dictionary) {
      status = chunk_status::corrupt_stream;
      break;
    }
    at += header.bytes;
    status = lz4_frame_blocks(part, header, at, out, shared, lanes);
  }
  out.finish(lanes);
  if (status == chunk_status::ok && out.room() != 0) status = chunk_status::wrong_size;
  if (status != chunk_status::ok) lanes.once_alone([&] { report(wave.statuses, part.chunk, status); });
}

}  // namespace penstock::inline v0::device
