#pragma once

// The sequences stage: a block's FSE tables are built and its sequences decoded by one lane, eight blocks a warp.

#include "cuda/decode/fse_table.h"
#include "cuda/decode/warp.h"

namespace penstock::inline v0::device {

inline constexpr int kSequenceBlocksPerWarp =
    8;  ///< few lanes a warp, more warps: what differs between lanes costs all
inline constexpr std::uint32_t kMostBlockBytes = 128 * 1024;

enum sequence_table : int { kLiteralLengths = 0, kOffsets = 1, kMatchLengths = 2 };

/// The tables of one block.
struct sequence_tables {
  fse_entry literal_lengths[512];
  fse_entry match_lengths[512];
  fse_entry offsets[256];
  std::int16_t counts[kMostFseSymbols];
  std::uint32_t reserved;  ///< keeps the tables of a warp on different banks
};

/// What a length code stands for: the number of extra bits above 24 bits of base.
struct zstd_sequences_shared {
  sequence_tables tables[kSequenceBlocksPerWarp];
  std::uint32_t literal_codes[36];
  std::uint32_t match_codes[53];
};

PENSTOCK_DEVICE std::uint32_t symbols_of(int table) {
  return table == kLiteralLengths ? 36 : table == kOffsets ? 32 : 53;
}
PENSTOCK_DEVICE int most_log_of(int table) { return table == kOffsets ? 8 : 9; }
PENSTOCK_DEVICE std::uint32_t mode_of(const zstd_block& block, int table) {
  return (block.modes >> (6 - 2 * table)) & 3u;
}

/// Fills the tables of length codes (RFC 8878, 3.1.1.3.2.1.1), a share of each lane.
PENSTOCK_DEVICE void fill_length_codes(zstd_sequences_shared& shared, int lane) {
  for (std::uint32_t code = static_cast<std::uint32_t>(lane); code < 36; code += kLanes) {
    std::uint32_t base = code, bits = 0;
    if (code >= 16) {
      const std::uint8_t extra[20] = {1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
      base = 16;
      for (std::uint32_t i = 0; i < code - 16; ++i) base += 1u << extra[i];
      bits = extra[code - 16];
    }
    shared.literal_codes[code] = bits << 24 | base;
  }
  for (std::uint32_t code = static_cast<std::uint32_t>(lane); code < 53; code += kLanes) {
    std::uint32_t base = code + 3, bits = 0;
    if (code >= 32) {
      const std::uint8_t extra[21] = {1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
      base = 35;
      for (std::uint32_t i = 0; i < code - 32; ++i) base += 1u << extra[i];
      bits = extra[code - 32];
    }
    shared.match_codes[code] = bits << 24 | base;
  }
}

/// The distributions that need no description (RFC 8878, 3.1.1.3.2.2).
PENSTOCK_DEVICE_CALL int predefined_counts(int table, std::int16_t* counts) {
  const signed char lengths[36] = {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1,  1,  2,  2,
                                   2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1};
  const signed char matches[53] = {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                                   1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                                   1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1};
  const signed char offsets[32] = {1, 1, 1, 1, 1, 1, 2, 2, 2,  1,  1,  1,  1,  1, 1, 1,
                                   1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, 0, 0, 0};
  const std::uint32_t symbols = symbols_of(table);
  for (std::uint32_t i = 0; i < symbols; ++i)
    counts[i] = table == kLiteralLengths ? lengths[i] : table == kOffsets ? offsets[i] : matches[i];
  return table == kOffsets ? 5 : 6;
}

/// A block's sequences section while it is read.
struct sequence_section {
  byte_view left;  ///< what follows the tables read so far
  int logs[3];
};

PENSTOCK_DEVICE byte_view sequence_bytes(const zstd_wave& wave, const zstd_block& block) {
  const auto* const source = pointer<const std::uint8_t>(pointer<const decode_part>(wave.parts)[block.part].source);
  return {source + block.sequences, block.content + block.content_bytes - block.sequences};
}

/// Reads the description at the front of `left` and builds table `table` from it when `out` is not null; false:
/// damaged.
PENSTOCK_DEVICE_CALL bool read_sequence_table(byte_view& left, std::uint32_t mode, int table, std::int16_t* counts,
                                              fse_entry* out, int* log) {
  std::uint32_t bytes = 0;
  const std::uint32_t symbols = symbols_of(table);
  if (mode == 0) {
    if (out == nullptr) return true;
    *log = predefined_counts(table, counts);
    build_fse_table(counts, symbols, *log, out);
  } else if (mode == 1) {
    bytes = 1;
    if (left.size < 1 || left.begin[0] >= symbols) return false;
    if (out != nullptr) {
      *log = 0;
      out[0] = fse_constant(left.begin[0]);
    }
  } else if (mode == 2) {
    const fse_description description = read_fse_description(left, symbols, most_log_of(table), counts);
    if (description.bytes == 0) return false;
    bytes = description.bytes;
    if (out != nullptr) {
      *log = description.log;
      build_fse_table(counts, symbols, description.log, out);
    }
  }
  left.begin += bytes;
  left.size -= bytes;
  return true;
}

/// Builds the three tables of `block`, from its own section or from that of an earlier block; false: damaged.
PENSTOCK_DEVICE_CALL bool build_sequence_tables(const zstd_wave& wave, std::uint32_t index, sequence_tables& tables,
                                                sequence_section& section) {
  const auto* const blocks = pointer<const zstd_block>(wave.blocks);
  section.left = sequence_bytes(wave, blocks[index]);
  for (int table = 0; table < 3; ++table) {
    fse_entry* const out = table == kLiteralLengths ? tables.literal_lengths
                           : table == kOffsets      ? tables.offsets
                                                    : tables.match_lengths;
    const std::uint32_t from = blocks[index].table_block[table];
    if (from == index) {
      if (!read_sequence_table(section.left, mode_of(blocks[index], table), table, tables.counts, out,
                               &section.logs[table]))
        return false;
      continue;
    }
    byte_view left = sequence_bytes(wave, blocks[from]);
    for (int t = 0; t <= table; ++t)
      if (!read_sequence_table(left, mode_of(blocks[from], t), t, tables.counts, t == table ? out : nullptr,
                               &section.logs[table]))
        return false;
  }
  return true;
}

inline constexpr std::uint32_t kSymbolicOffset = 1u << 27;  ///< see zstd_sequence

/// The repeat offset that `symbolic` stands for, given those at the start of its block; 0 when it is none.
PENSTOCK_DEVICE std::uint32_t resolve_offset(std::uint32_t offset, const std::uint32_t* repeats) {
  if ((offset & kSymbolicOffset) == 0) return offset;
  const std::uint32_t which = (offset >> 25) & 3u, less = offset & ((1u << 25) - 1);
  const std::uint32_t repeat = which == 0 ? repeats[0] : which == 1 ? repeats[1] : repeats[2];
  return repeat > less ? repeat - less : 0;
}

/// The three repeat offsets (RFC 8878, 3.1.1.5), known or symbolic.
struct repeat_offsets {
  std::uint32_t first = kSymbolicOffset, second = kSymbolicOffset | 1u << 25, third = kSymbolicOffset | 2u << 25;

  /// The offset of a sequence whose offset value is `value`, 1 or more.
  PENSTOCK_DEVICE std::uint32_t use(std::uint32_t value, bool no_literals) {
    std::uint32_t offset;
    if (value > 3) {
      offset = value - 3;
      third = second;
      second = first;
      first = offset;
      return offset;
    }
    const std::uint32_t which = value + (no_literals ? 1 : 0);
    if (which == 1) return first;
    if (which == 2) {
      offset = second;
    } else {
      // One less than a symbolic offset is one more in its low bits; one less than 1 is 0, which the caller refuses.
      offset = which == 3 ? third : (first & kSymbolicOffset) != 0 ? first + 1 : first - 1;
      third = second;
    }
    second = first;
    first = offset;
    return offset;
  }
};

/// Decodes the sequences of block `index`; false: damaged.
PENSTOCK_DEVICE bool decode_sequences(const zstd_wave& wave, std::uint32_t index, sequence_tables& tables,
                                      const zstd_sequences_shared& shared) {
  const zstd_block& block = pointer<const zstd_block>(wave.blocks)[index];
  sequence_section section;
  backward_bits bits;
  if (!build_sequence_tables(wave, index, tables, section) || !bits.start(section.left)) return false;
  const int literal_log = section.logs[kLiteralLengths], offset_log = section.logs[kOffsets],
            match_log = section.logs[kMatchLengths];
  std::uint32_t literal_state = bits.take(literal_log);
  std::uint32_t offset_state = bits.take(offset_log);
  std::uint32_t match_state = bits.take(match_log);
  auto* const out = pointer<zstd_sequence>(wave.sequences) + block.sequences_buffer;
  repeat_offsets repeats;
  std::uint32_t literal_bytes = 0, match_bytes = 0;
  for (std::uint32_t left = block.sequence_count;;) {
    const fse_entry literal_entry = tables.literal_lengths[literal_state], offset_entry = tables.offsets[offset_state],
                    match_entry = tables.match_lengths[match_state];
    const std::uint32_t literal_code = shared.literal_codes[fse_symbol(literal_entry)];
    const std::uint32_t match_code = shared.match_codes[fse_symbol(match_entry)];
    const std::uint32_t offset_code = fse_symbol(offset_entry);
    if (offset_code > 27) return false;  // further than any target reaches
    bits.refill();
    const std::uint32_t offset_value = (1u << offset_code) + bits.take(static_cast<int>(offset_code));
    bits.refill();
    const std::uint32_t match = (match_code & 0xffffffu) + bits.take(static_cast<int>(match_code >> 24));
    const std::uint32_t literals = (literal_code & 0xffffffu) + bits.take(static_cast<int>(literal_code >> 24));
    const std::uint32_t offset = repeats.use(offset_value, literals == 0);
    literal_bytes += literals;
    match_bytes += match;
    // Each sequence makes at least three bytes, so damaged blocks end here as well.
    if (offset == 0 || (offset_value > 3 && offset >= kSymbolicOffset)) return false;
    if (literal_bytes > block.literals_bytes || block.literals_bytes + match_bytes > block.size) return false;
    *(out + (block.sequence_count - left)) =
        literals | static_cast<std::uint64_t>(match) << 18 | static_cast<std::uint64_t>(offset) << 36;
    if (--left == 0) break;
    bits.refill();
    literal_state = fse_next(literal_entry, literal_log, bits);
    match_state = fse_next(match_entry, match_log, bits);
    offset_state = fse_next(offset_entry, offset_log, bits);
  }
  if (!bits.exhausted_exactly()) return false;
  pointer<zstd_block_result>(wave.results)[index] = {match_bytes, {repeats.first, repeats.second, repeats.third}};
  return true;
}

/// What one warp does: eight of the wave's blocks with sequences.
PENSTOCK_DEVICE void zstd_sequences_warp(const zstd_wave& wave, std::uint32_t group, zstd_sequences_shared& shared,
                                         warp lanes) {
  lanes.each([&](int lane) { fill_length_codes(shared, lane); });
  lanes.each([&](int lane) {
    const std::uint32_t i = group * kSequenceBlocksPerWarp + static_cast<std::uint32_t>(lane);
    if (lane >= kSequenceBlocksPerWarp || i >= wave.sequence_block_count) return;
    const std::uint32_t index = pointer<const std::uint32_t>(wave.sequence_blocks)[i];
    if (decode_sequences(wave, index, shared.tables[lane], shared)) return;
    const std::uint32_t part = pointer<const zstd_block>(wave.blocks)[index].part;
    report(wave.statuses, pointer<const decode_part>(wave.parts)[part].chunk, chunk_status::corrupt_sequences);
  });
}

}  // namespace penstock::inline v0::device
