#pragma once

// zstd frames (RFC 8878, 3.1.1), each by one warp: a header with the content's size, blocks that can be encoded
// independently of each other, and an optional checksum. The same bytes in every run.

#include "cuda/decode/zstd_checksum.h"
#include "cuda/encode/zstd_encode_block.h"
#include "cuda/encode/zstd_encode_parts.h"

namespace penstock::inline v0::device {

inline constexpr std::uint32_t kZstdMagic = 0xfd2fb528u;
inline constexpr std::uint32_t kZstdWindow = 2 * kMostBlockBytes;
static_assert(kZstdWindow >= kMostBlockBytes + kMatchHistory);
static_assert(kMostEncodedBlock == kMostBlockBytes);
static_assert(sizeof(zstd_encode_workspace) == kZstdWorkspaceBytes);

enum class zstd_block_type : std::uint32_t { raw = 0, repeated = 1, compressed = 2 };

struct zstd_encode_shared {
  zstd_encode_block_shared block;
  std::uint64_t accumulators[4];
};

/// The bytes of a frame's header after the magic number, and their number. Up to 256 KiB, the content is the window;
/// more has a window of 256 KiB, which is more than the largest offset.
struct zstd_frame_header {
  std::uint64_t fields;
  std::uint32_t bytes;

  PENSTOCK_DEVICE zstd_frame_header(std::uint32_t size, bool checksum) {
    const std::uint32_t flag = checksum ? 4 : 0;
    if (size < 256) {
      fields = (flag | 0x20) | size << 8;
      bytes = 2;
    } else if (size < 65536 + 256) {
      fields = (flag | 0x60) | (size - 256) << 8;
      bytes = 3;
    } else if (size <= kZstdWindow) {
      fields = (flag | 0xa0) | static_cast<std::uint64_t>(size) << 8;
      bytes = 5;
    } else {
      constexpr std::uint32_t kDescriptor = (18 - 10) << 3;
      static_assert(1u << 18 == kZstdWindow);
      fields = (flag | 0x80) | kDescriptor << 8 | static_cast<std::uint64_t>(size) << 16;
      bytes = 6;
    }
  }

  PENSTOCK_DEVICE void write(byte_writer& out, warp lanes) const {
    out.number(kZstdMagic, 4, lanes);
    out.number(fields, bytes, lanes);
  }
};

/// Whether all bytes equal the first one.
PENSTOCK_DEVICE bool is_one_byte(const std::uint8_t* from, std::uint32_t size, warp lanes) {
  return size > 1 && common_bytes(from, 0, 1, size, lanes) == size - 1;
}

/// Writes one block with its header, in the shortest of the three forms.
PENSTOCK_DEVICE void write_zstd_block(const content_block& block, bool last, zstd_encode_workspace& workspace,
                                      zstd_encode_block_shared& shared, byte_writer& out, warp lanes) {
  std::uint8_t* const head = out.claim(kZstdBlockHeader);
  const std::uint8_t* const from = block.frame + block.begin;
  zstd_block_type type = zstd_block_type::raw;
  std::uint32_t size = block.size;
  if (is_one_byte(from, block.size, lanes)) {
    type = zstd_block_type::repeated;
    out.copy(from, 1, lanes);
  } else {
    byte_writer content = out;
    content.limit(block.size == 0 ? 0 : block.size - 1);
    encode_zstd_block(block, workspace, shared, content, lanes);
    if (content.fits()) {
      type = zstd_block_type::compressed;
      size = content.size() - out.size();
      out.claim(size);
    } else {
      out.copy(from, block.size, lanes);
    }
  }
  if (out.fits())
    byte_writer::put(head, (last ? 1u : 0u) | static_cast<std::uint32_t>(type) << 1 | size << 3, kZstdBlockHeader,
                     lanes);
}

PENSTOCK_DEVICE void write_zstd_checksum(byte_view content, std::uint64_t* accumulators, byte_writer& out, warp lanes) {
  lanes.each([&](int lane) {
    if (lane < 4) accumulators[lane] = xxh64::accumulate(content, lane);
  });
  out.number(static_cast<std::uint32_t>(xxh64::finish(content, accumulators)), 4, lanes);
}

/// Encodes `part` as one frame; returns its bytes, or kDoesNotFit.
PENSTOCK_DEVICE std::uint32_t encode_zstd(const encode_part& part, bool checksum, zstd_encode_workspace& workspace,
                                          zstd_encode_shared& shared, warp lanes) {
  const auto* const from = pointer<const std::uint8_t>(part.source);
  const std::uint32_t size = part.source_bytes;
  byte_writer out(pointer<std::uint8_t>(part.target), part.target_bytes);
  zstd_frame_header(size, checksum).write(out, lanes);
  for (std::uint32_t at = 0;;) {
    const content_block block{from, at, size - at < kMostBlockBytes ? size - at : kMostBlockBytes};
    at += block.size;
    write_zstd_block(block, at == size, workspace, shared.block, out, lanes);
    if (at == size || !out.fits()) break;
  }
  if (checksum) write_zstd_checksum({from, size}, shared.accumulators, out, lanes);
  return out.fits() ? out.size() : kDoesNotFit;
}

/// Run by one warp: encodes part `turn`.
PENSTOCK_DEVICE void encode_zstd_warp(const zstd_encode_wave& wave, std::uint32_t turn, zstd_encode_shared& shared,
                                      warp lanes) {
  const std::uint32_t made = encode_zstd(pointer<const encode_part>(wave.parts.parts)[turn], wave.checksum != 0,
                                         pointer<zstd_encode_workspace>(wave.workspaces)[turn], shared, lanes);
  lanes.once_alone([&] { pointer<std::uint32_t>(wave.parts.encoded_bytes)[turn] = made; });
}

}  // namespace penstock::inline v0::device
