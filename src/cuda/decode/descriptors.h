#pragma once

// The structures that the host passes to the device: plain, with the same bytes on both sides. Addresses are device
// addresses as integers (host addresses if a kernel's host form runs).

#include <cstdint>

namespace penstock::inline v0::device {

/// The status of a chunk: a 32-bit word that is zeroed before the wave's first kernel. The first failure is kept.
enum class chunk_status : std::uint32_t {
  ok = 0,
  corrupt_literals = 1,   ///< a Huffman table or stream contradicts the format
  corrupt_sequences = 2,  ///< an FSE table or the sequences' bits contradict the format
  corrupt_match = 3,      ///< a match reaches before the start of its frame
  wrong_size = 4,         ///< decodes to another size than the chunk's
  wrong_checksum = 5,     ///< a checksum in the encoded bytes does not match the decoded ones
  corrupt_stream = 6,     ///< any other contradiction: ends early, bad header
  library_failed = 7,     ///< another library's decoder failed, for a reason other than the bytes
};

/// An independent unit of decoding: a whole chunk, or a split of a Blosc block.
struct decode_part {
  std::uint64_t source;        ///< address of the encoded bytes; any alignment
  std::uint64_t target;        ///< address of the decoded bytes; any alignment
  std::uint32_t source_bytes;  ///< readable bytes at `source`; the device reads no others
  std::uint32_t target_bytes;  ///< exact number of bytes to produce
  std::uint32_t chunk;         ///< index of its status word
  std::uint32_t parameter;     ///< additional input of its codec
};

/// One zstd frame of a part. Skippable frames have none.
struct zstd_frame {
  std::uint32_t first_block;   ///< index in the wave's blocks
  std::uint32_t blocks;        ///< at least 1
  std::uint32_t content_size;  ///< decoded bytes, from its header; kUnknownSize if that has none
  std::uint32_t checksum;      ///< low 32 bits of the content's XXH64
  std::uint32_t part;          ///< index in the wave's parts
  std::uint32_t has_checksum;  ///< 0 or 1
};

inline constexpr std::uint32_t kUnknownSize = 0xffffffffu;

inline constexpr std::uint32_t kNotDirect = 0xffffffffu;

/// One zstd block. Offsets count from its part's first byte; `*_block` are indexes in the wave's blocks.
struct zstd_block {
  std::uint32_t part;
  std::uint32_t content;           ///< offset of its content (raw bytes, the RLE byte, or the literals section)
  std::uint32_t content_bytes;     ///< encoded bytes of the content
  std::uint32_t size;              ///< raw and RLE: decoded bytes. Compressed: most decoded bytes that its frame allows
  std::uint32_t literals;          ///< offset of the literals: raw bytes, the RLE byte, or the Huffman streams
  std::uint32_t literals_encoded;  ///< bytes of the Huffman streams, jump table included
  std::uint32_t literals_bytes;    ///< decoded literals
  std::uint32_t tree;              ///< offset of the Huffman tree description that the streams use
  std::uint32_t tree_bytes;        ///< readable bytes there
  std::uint32_t sequences;         ///< offset after the modes byte: tables, then bits up to the content's end
  std::uint32_t sequence_count;    ///< 0: literals only
  std::uint32_t table_block[3];    ///< literal lengths, offsets, match lengths: the block that describes the table
  std::uint64_t literals_buffer;   ///< Huffman literals: offset in the wave's literal buffer, a multiple of 16
  std::uint64_t sequences_buffer;  ///< index of the first sequence in the wave's sequence buffer
  std::uint8_t type;               ///< 0 raw, 1 RLE, 2 compressed
  std::uint8_t literals_type;      ///< 0 raw, 1 RLE, 2 Huffman with a tree, 3 Huffman with an earlier tree
  std::uint8_t streams;            ///< Huffman: 1 or 4
  std::uint8_t modes;              ///< the modes byte of its sequences section
  /// Offset of its content in the part's target, if it is known and another kernel than the execute stage writes it:
  /// raw blocks are copied, literals without sequences decoded in place. Otherwise kNotDirect.
  std::uint32_t direct;
};

/// The sequence stage's result for a block, which the execute stage reads.
struct zstd_block_result {
  std::uint32_t match_bytes;  ///< sum of the match lengths
  std::uint32_t repeats[3];   ///< repeat offsets at its end, as `zstd_sequence` writes offsets
};

/// Literal length, match length and offset in 18, 18 and 28 bits, from the lowest.
///
/// An offset with bit 27 set refers to one of the frame's repeat offsets at the block's start (bits 25 and 26), minus
/// the number of which bits 0 to 24 are the complement: a block's sequences are decoded before those of the earlier
/// blocks, and one offset less is one less in this form, too.
using zstd_sequence = std::uint64_t;

/// The argument of the four zstd kernels.
struct zstd_wave {
  std::uint64_t parts;            ///< decode_part[part_count]
  std::uint64_t frames;           ///< zstd_frame[frame_count], by part
  std::uint64_t blocks;           ///< zstd_block[], by frame
  std::uint64_t first_frames;     ///< u32[part_count + 1]: a part's frames
  std::uint64_t literal_blocks;   ///< u32[literal_block_count]: blocks with Huffman literals
  std::uint64_t sequence_blocks;  ///< u32[sequence_block_count]: blocks with sequences
  std::uint64_t checked_frames;   ///< u32[checked_frame_count]: frames whose checksum is verified
  std::uint64_t order;            ///< u32[part_count]: parts, heaviest first
  std::uint64_t results;          ///< zstd_block_result[], workspace
  std::uint64_t frame_starts;     ///< u32[frame_count], workspace: where a frame's content starts in its part's target
  std::uint64_t literals;         ///< bytes, workspace
  std::uint64_t sequences;        ///< zstd_sequence[], workspace
  std::uint64_t statuses;         ///< u32[], by chunk
  std::uint32_t part_count;
  std::uint32_t frame_count;
  std::uint32_t literal_block_count;
  std::uint32_t sequence_block_count;
  std::uint32_t checked_frame_count;
  std::uint32_t reserved;
};

/// The argument of the kernels that decode each part with one warp.
struct part_wave {
  std::uint64_t parts;     ///< decode_part[part_count]
  std::uint64_t order;     ///< u32[part_count]: heaviest first
  std::uint64_t statuses;  ///< u32[], by chunk
  std::uint32_t part_count;
  std::uint32_t reserved;
};

enum class lz_format : std::uint32_t { lz4_block = 0, snappy = 1, blosclz = 2, packbits = 3 };
/// `zlib_or_more`: the stream may decode to more than the part's size, and any bytes may follow it.
enum class deflate_format : std::uint32_t { raw = 0, zlib = 1, gzip = 2, zlib_or_more = 3 };

/// The check of a part that another library decoded: its part's parameter.
enum class content_check : std::uint32_t { none = 0, adler32 = 1, crc32 = 2 };

/// The argument of the kernel that runs after another library's decoder: one warp per part.
struct library_wave {
  std::uint64_t parts;         ///< decode_part[part_count]: whole streams, with zlib's or gzip's trailer
  std::uint64_t outcomes;      ///< i32[part_count]: the library's statuses
  std::uint64_t actual_bytes;  ///< u64[part_count]: the decoded size of each
  std::uint64_t statuses;      ///< u32[], by chunk
  std::uint32_t part_count;
  std::uint32_t reserved;
};

/// The operation of the transform kernel on a part, in bits 16 and up of its `parameter`. The low 16 bits are the size
/// of an item in bytes.
enum class transform_kind : std::uint32_t {
  copy = 0,
  unshuffle = 1,     ///< byte i of every item together; bytes after the last whole item are unchanged
  unbitshuffle = 2,  ///< bit i of every item together, over whole multiples of 8 items; the rest is unchanged
  byte_swap = 3,     ///< item bytes 1 to 16; `source` may be `target`
  reverse_bits = 4,  ///< of each byte
  unpack_bits = 5,   ///< each bit becomes a byte; the parameter's low bits are packed_bits_*
};

inline constexpr std::uint32_t kHighestBitFirst = 1;     ///< of unpack_bits
inline constexpr std::uint32_t kPaddingInFirstByte = 2;  ///< this byte has the number of padding bits
inline constexpr std::uint32_t kPaddingInLastByte = 4;

constexpr std::uint32_t transform_parameter(transform_kind kind, std::uint32_t item_bytes) {
  return static_cast<std::uint32_t>(kind) << 16 | item_bytes;
}

/// The argument of the transform kernel: `blocks_per_part` thread blocks share a part. Parts of a chunk that failed are
/// skipped.
struct transform_wave {
  std::uint64_t parts;     ///< decode_part[part_count]; source_bytes equals target_bytes, except for unpack_bits
  std::uint64_t statuses;  ///< u32[], by chunk
  std::uint32_t part_count;
  std::uint32_t blocks_per_part;
};

inline constexpr std::uint32_t kMostPicked = 32;

/// The layout of numbers in the rows of a TIFF strip or tile, and the selection of samples.
struct row_layout {
  std::uint32_t rows, width;  ///< in pixels
  std::uint32_t samples;      ///< number in a pixel, as stored: 1 to 255
  std::uint32_t item_bytes;   ///< bytes of a sample: 1, 2, 4 or 8; without a predictor 16, too
  std::uint32_t unit_bytes;   ///< size of what has a byte order: half of a complex number
  std::uint32_t predictor;    ///< 1 none, 2 differences, 3 differences of bytes in planes
  std::uint32_t big_endian;   ///< 0 or 1; ignored for predictor 3
  std::uint32_t wanted;       ///< number of selected samples in a pixel: 1 to kMostPicked
  std::uint8_t picked[kMostPicked];

  constexpr std::uint64_t stored_bytes() const {
    return static_cast<std::uint64_t>(rows) * width * samples * item_bytes;
  }
  constexpr std::uint64_t made_bytes() const { return static_cast<std::uint64_t>(rows) * width * wanted * item_bytes; }
  friend bool operator==(const row_layout&, const row_layout&) = default;
};

/// The argument of the rows kernel: `warps_per_part` thread blocks of one warp share a part.
struct rows_wave {
  std::uint64_t parts;     ///< decode_part[part_count]
  std::uint64_t statuses;  ///< u32[], by chunk
  std::uint32_t part_count;
  std::uint32_t warps_per_part;
  row_layout rows;
};

}  // namespace penstock::inline v0::device
