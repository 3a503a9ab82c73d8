#pragma once

// The steps that the device takes to decode a chunk.

#include <cstdint>

#include "cuda/decode/descriptors.h"

namespace penstock::inline v0::device {

enum class step_kind : std::uint8_t {
  zstd,
  lz4,        ///< as numcodecs frames it: four bytes of size, one block
  lz4_block,  ///< the block alone
  lz4_frame,  ///< one or several; the host decodes those with dictionaries
  snappy,
  blosc,             ///< any compressor and shuffle
  bitshuffle_plain,  ///< HDF5's filter: `settings` elements a block (0: the filter's default) of `item_bytes`
  bitshuffle_lz4,    ///< the same, compressed block by block
  bitshuffle_zstd,
  zlib,
  gzip,
  deflate,
  zlib_or_more,  ///< zlib as in TIFF: bytes beyond the chunk's size are ignored
  lzw,           ///< both of TIFF's kinds
  packbits,      ///< as in TIFF
  crc32c,        ///< four bytes after the others; only as the first step. Verified if checksums are
  byte_swap,
  shuffle,
  bitshuffle,
  reverse_bits,  ///< of each byte
  unpack_bits,   ///< `settings` are kHighestBitFirst and its neighbours
  delta,         ///< `settings` are a delta_layout
  rows,          ///< of TIFF: `rows`
};

/// One step of a chain in decoding order: the first step reads the encoded bytes.
struct device_step {
  step_kind kind;
  std::uint32_t item_bytes = 1;  ///< byte_swap, shuffle, bitshuffle: 1 to 65535
  std::uint32_t settings = 0;
  row_layout rows = {};

  friend bool operator==(const device_step&, const device_step&) = default;
};

}  // namespace penstock::inline v0::device
