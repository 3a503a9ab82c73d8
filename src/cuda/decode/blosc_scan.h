#pragma once

// The headers of a Blosc 1 frame, which the host reads before the device decodes its splits.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <penstock/result.h>

#include "cuda/decode/descriptors.h"

namespace penstock::inline v0::device {

enum class blosc_compressor : std::uint8_t { blosclz = 0, lz4 = 1, snappy = 2, zlib = 3, zstd = 4 };

/// A range of a frame that was compressed separately. Offsets are relative to the frame and to the content.
struct blosc_split {
  std::uint32_t source, source_bytes;
  std::uint32_t target, target_bytes;
  bool stored;  ///< stored without compression
};

/// A block of a frame: bytes that were shuffled together.
struct blosc_block {
  std::uint32_t start, bytes;
};

struct blosc_frame {
  blosc_compressor compressor = blosc_compressor::blosclz;
  transform_kind shuffle = transform_kind::copy;  ///< copy: not shuffled
  std::uint32_t item_bytes = 1;
  std::vector<blosc_split> splits;
  std::vector<blosc_block> blocks;  ///< empty if no block is shuffled
};

/// Reads the headers of a frame that decodes to `decoded_bytes`.
///
/// \error corrupt_data  They contradict the format or `decoded_bytes`.
/// \error unsupported   A frame of so many small blocks that the host decodes it better.
/// Source: c-blosc, README_CHUNK_FORMAT.rst.
result<blosc_frame> scan_blosc(std::span<const std::byte> bytes, std::uint64_t decoded_bytes);

}  // namespace penstock::inline v0::device
