#pragma once

// The sequences stage: one lane builds a block's FSE tables and decodes its sequences, eight blocks per warp.

#include "cuda/decode/fse_table.h"
#include "cuda/decode/warp.h"

namespace penstock::inline v0::device {

inline constexpr int kSequenceBlocksPerWarp =
    8;  ///< few lanes per warp, more warps: divergence between lanes costs all of them
inline constexpr std::uint32_t kMostBlockBytes = 128 * 1024;

enum sequence_table : int { kLiteralLengths = 0, kOffsets = 1, kMatchLengths = 2 };

/// A state's entry. Byte 0: the number of bits that the next state reads from the stream; byte 1: the number of extra
/// bits of the state's code; from bit 16, the bits before the extra bits, and from bit 23, those before the next
/// state's bits. Every base of RFC 8878, 3.1.1.3.2.1.1, is such a prefix (that of a match length without its 3), and so
/// is every state's base: one shift computes both. Bytes can be summed, because shifts use only their five lowest bits.
using sequence_entry = std::uint32_t;

PENSTOCK_DEVICE sequence_entry make_entry(std::uint32_t extra_bits, std::uint32_t front) {
  return extra_bits << 8 | front << 16;
}
PENSTOCK_DEVICE sequence_entry make_next(std::uint32_t bits, std::uint32_t front) { return bits | front << 23; }
PENSTOCK_DEVICE std::uint32_t extra_bits(sequence_entry entry) { return entry >> 8; }  ///< in its lowest five bits
PENSTOCK_DEVICE std::uint32_t value_front(sequence_entry entry) { return entry >> 16 & 31u; }
PENSTOCK_DEVICE std::uint32_t state_front(sequence_entry entry) { return entry >> 23; }

using sequence_bits = backward_bits_of<staged_words>;

PENSTOCK_DEVICE std::uint32_t take_value(sequence_entry entry, sequence_bits& bits) {
  return bits.append_to(value_front(entry), static_cast<int>(extra_bits(entry) & 31u));
}
PENSTOCK_DEVICE std::uint32_t take_state(sequence_entry entry, sequence_bits& bits) {
  return bits.append_to(state_front(entry), static_cast<int>(entry & 31u));
}

/// Memory for a block's three tables of the largest size: arrays with a few bits rounded away have such tables in every
/// block, so a warp with less memory would decode its blocks in turns. One more entry: the tables of lanes are in
/// different banks.
inline constexpr std::uint32_t kSequenceEntries = (1u << 9) + (1u << 8) + (1u << 9) + 1;
inline constexpr std::uint32_t kMostSequenceSymbols = 54;  ///< one more than exist: other banks for other lanes

struct zstd_sequences_shared {
  sequence_entry entries[kSequenceBlocksPerWarp][kSequenceEntries];
  std::int16_t counts[kSequenceBlocksPerWarp][3][kMostSequenceSymbols];
  std::uint32_t words[kStagedWords][kLanes];
};

PENSTOCK_DEVICE std::uint32_t symbols_of(int table) {
  return table == kLiteralLengths ? 36 : table == kOffsets ? 32 : 53;
}
PENSTOCK_DEVICE int most_log_of(int table) { return table == kOffsets ? 8 : 9; }
PENSTOCK_DEVICE std::uint32_t mode_of(const zstd_block& block, int table) {
  return (block.modes >> (6 - 2 * table)) & 3u;
}

/// The number of extra bits of a code, and the bits before them.
PENSTOCK_DEVICE sequence_entry entry_of_code(int table, std::uint32_t code) {
  if (table == kOffsets) return make_entry(code, 1);
  // From here on, lengths double every few codes; before, each length has its own code.
  const std::uint8_t literals[20] = {1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  const std::uint8_t matches[21] = {1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  const std::uint32_t plain = table == kLiteralLengths ? 16 : 32;
  if (code < plain) return make_entry(0, code);
  const std::uint8_t* const extra = table == kLiteralLengths ? literals : matches;
  std::uint32_t base = plain;
  for (std::uint32_t i = 0; i < code - plain; ++i) base += 1u << extra[i];
  return make_entry(extra[code - plain], base >> extra[code - plain]);
}

/// The predefined distributions (RFC 8878, 3.1.1.3.2.2).
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

/// A block's sequences section after its tables are described, before they are built.
struct sequence_section {
  byte_view bits;  ///< the bytes after the tables
  int logs[3];
};

PENSTOCK_DEVICE byte_view sequence_bytes(const zstd_wave& wave, const zstd_block& block) {
  const auto* const source = pointer<const std::uint8_t>(pointer<const decode_part>(wave.parts)[block.part].source);
  return {source + block.sequences, block.content + block.content_bytes - block.sequences};
}

/// Reads the description at the beginning of `left`: counts, or the only symbol if `log` is 0. False: damaged.
PENSTOCK_DEVICE_CALL bool read_sequence_table(byte_view& left, std::uint32_t mode, int table, std::int16_t* counts,
                                              int* log) {
  std::uint32_t bytes = 0;
  const std::uint32_t symbols = symbols_of(table);
  if (mode == 0) {
    *log = predefined_counts(table, counts);
  } else if (mode == 1) {
    bytes = 1;
    if (left.size < 1 || left.begin[0] >= symbols) return false;
    *log = 0;
    counts[0] = left.begin[0];
  } else if (mode == 2) {
    const fse_description description = read_fse_description(left, symbols, most_log_of(table), counts);
    if (description.bytes == 0) return false;
    bytes = description.bytes;
    *log = description.log;
  }
  left.begin += bytes;
  left.size -= bytes;
  return true;
}

/// Reads the descriptions of the three tables of block `index`, from its own section or from that of an earlier block;
/// false: damaged.
PENSTOCK_DEVICE_CALL bool read_sequence_section(const zstd_wave& wave, std::uint32_t index,
                                                std::int16_t (*counts)[kMostSequenceSymbols],
                                                sequence_section& section) {
  const auto* const blocks = pointer<const zstd_block>(wave.blocks);
  section.bits = sequence_bytes(wave, blocks[index]);
  for (int table = 0; table < 3; ++table) {
    const std::uint32_t from = blocks[index].table_block[table];
    if (from == index) {
      if (!read_sequence_table(section.bits, mode_of(blocks[index], table), table, counts[table], &section.logs[table]))
        return false;
      continue;
    }
    byte_view left = sequence_bytes(wave, blocks[from]);
    for (int t = 0; t <= table; ++t)  // those before it are first
      if (!read_sequence_table(left, mode_of(blocks[from], t), t, counts[table], &section.logs[table])) return false;
  }
  return true;
}

PENSTOCK_DEVICE_CALL void build_sequence_table(int table, std::int16_t* counts, int log, sequence_entry* out) {
  if (log == 0) {
    out[0] = entry_of_code(table, static_cast<std::uint32_t>(counts[0]));
    return;
  }
  build_fse_table(counts, symbols_of(table), log, out, [&](std::uint32_t code, std::uint32_t next) {
    const int kept = highest_bit(next);  // bits of the state that are not from the stream
    return entry_of_code(table, code) | make_next(static_cast<std::uint32_t>(log - kept), next - (1u << kept));
  });
}

inline constexpr std::uint32_t kSymbolicOffset = 1u << 27, kNothingLess = (1u << 25) - 1;  ///< see zstd_sequence

/// The repeat offset for `symbolic`, given those at the start of its block; 0 if it is not valid.
PENSTOCK_DEVICE std::uint32_t resolve_offset(std::uint32_t offset, const std::uint32_t* repeats) {
  if ((offset & kSymbolicOffset) == 0) return offset;
  const std::uint32_t which = (offset >> 25) & 3u, less = ~offset & kNothingLess;
  const std::uint32_t repeat = which == 0 ? repeats[0] : which == 1 ? repeats[1] : repeats[2];
  return repeat > less ? repeat - less : 0;
}

/// The three repeat offsets (RFC 8878, 3.1.1.5), known or symbolic.
struct repeat_offsets {
  std::uint32_t first = kSymbolicOffset | kNothingLess, second = first | 1u << 25, third = first | 2u << 25;

  /// The offset of a sequence whose offset value is `value`, 1 or more. Without branches, so that lanes do not diverge.
  PENSTOCK_DEVICE std::uint32_t use(std::uint32_t value, bool no_literals) {
    // 0 to 3: the first, the second, the third, one less than the first. A new offset has 2 or more: it moves all
    // three.
    const std::uint32_t which = no_literals ? value : value - 1;
    std::uint32_t offset = which == 0 ? first : second;
    offset = which >= 2 ? third : offset;
    offset = which == 3 ? first - 1 : offset;  // 1 minus 1 is 0, which the caller refuses
    offset = value > 3 ? value - 3 : offset;
    third = which >= 2 ? second : third;
    second = which == 0 ? second : first;
    first = offset;
    return offset;
  }
};

/// Decodes the sequences of block `index` with its tables, which are adjacent; false: damaged.
/// \param ring  See `staged_words`.
PENSTOCK_DEVICE bool decode_sequences(const zstd_wave& wave, std::uint32_t index, const sequence_section& section,
                                      const sequence_entry* tables, std::uint32_t* ring) {
  sequence_bits bits(ring);
  if (!bits.start(section.bits)) return false;
  const sequence_entry* const literal_table = tables;
  const sequence_entry* const offset_table = literal_table + (1u << section.logs[kLiteralLengths]);
  const sequence_entry* const match_table = offset_table + (1u << section.logs[kOffsets]);
  sequence_entry literal_entry = literal_table[bits.take(section.logs[kLiteralLengths])];
  sequence_entry offset_entry = offset_table[bits.take(section.logs[kOffsets])];
  sequence_entry match_entry = match_table[bits.take(section.logs[kMatchLengths])];
  bits.refill();
  // Copied, because for the compiler the stores below could change what `block` refers to.
  const zstd_block& block = pointer<const zstd_block>(wave.blocks)[index];
  const std::uint32_t most_literals = block.literals_bytes, most_bytes = block.size;
  auto* const out = computed_once(pointer<zstd_sequence>(wave.sequences) + block.sequences_buffer);
  repeat_offsets repeats;
  std::uint32_t literal_bytes = 0, match_bytes = 0, all_sums = 0, most_value = 0, least_offset = 1, counts = 0;
  const std::uint32_t count = block.sequence_count;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t ahead = bits.ahead();
    counts = literal_entry + match_entry + offset_entry;
    const std::uint32_t all_bits = add_bytes(0, counts, 0x0101u);
    // Computed as if all bits were in `ahead`, which they nearly always are, so that the check delays nothing. Shifts
    // use five bits of the sums of the counts: 32 becomes 0, and then no bits remain to be read.
    const std::uint32_t to_match = extra_bits(offset_entry), to_literals = to_match + extra_bits(match_entry);
    const std::uint32_t to_literal_state = to_literals + extra_bits(literal_entry);
    const std::uint32_t to_match_state = to_literal_state + literal_entry,
                        to_offset_state = to_match_state + match_entry;
    const auto value = [&](sequence_entry entry, std::uint32_t at) {
      return shift_in_modulo(value_front(entry), shift_in_modulo(ahead, 0, at), extra_bits(entry));
    };
    const auto state = [&](sequence_entry entry, std::uint32_t at) {
      return shift_in_modulo(state_front(entry), shift_in_modulo(ahead, 0, at), entry);
    };
    std::uint32_t offset_value = value(offset_entry, 0), match = value(match_entry, to_match),
                  literals = value(literal_entry, to_literals);
    std::uint32_t literal_state = state(literal_entry, to_literal_state),
                  match_state = state(match_entry, to_match_state), offset_state = state(offset_entry, to_offset_state);
    if (all_bits > 32) {
      offset_value = take_value(offset_entry, bits);
      match = take_value(match_entry, bits);
      literals = take_value(literal_entry, bits);
      literal_state = take_state(literal_entry, bits);
      match_state = take_state(match_entry, bits);
      offset_state = take_state(offset_entry, bits);
    } else {
      bits.skip(all_bits);
    }
    // Loads for the next sequence, so that its operations do not wait. States are always within their table, whatever
    // the bits are.
    literal_entry = literal_table[literal_state];
    offset_entry = offset_table[offset_state];
    match_entry = match_table[match_state];
    bits.refill();
    match += 3;
    const std::uint32_t offset = repeats.use(offset_value, literals == 0);
    literal_bytes += literals;
    match_bytes += match;
    // Verified after the last sequence: a damaged block is decoded to its end, into its own memory.
    all_sums |= literal_bytes | match_bytes;
    most_value = most_value > offset_value ? most_value : offset_value;
    least_offset = least_offset < offset ? least_offset : offset;
    // A product, because the addition of the other fields is part of it.
    out[i] =
        static_cast<std::uint64_t>(match) * (1u << 18) + (static_cast<std::uint64_t>(offset << 4) << 32 | literals);
  }
  // Sums grow by less than 2^18, so that one that exceeds 2^32 has had a bit of 2^18 or more.
  const bool too_long =
      all_sums >= 1u << 18 || literal_bytes > most_literals || most_literals + match_bytes > most_bytes;
  // Offsets that look symbolic without being repeats are longer than any target.
  const bool bad_offset = least_offset == 0 || most_value >= kSymbolicOffset + 3;
  // The last sequence has no next states: reading their bits went beyond the start of the stream.
  if (too_long || bad_offset || !bits.exhausted_exactly(counts & 255u)) return false;
  pointer<zstd_block_result>(wave.results)[index] = {match_bytes, {repeats.first, repeats.second, repeats.third}};
  return true;
}

/// Decodes the sequences of block `index` in lane `lane`'s share of the memory; false: damaged.
PENSTOCK_DEVICE bool decode_sequence_block(const zstd_wave& wave, std::uint32_t index, int lane,
                                           zstd_sequences_shared& shared) {
  sequence_section section;
  if (!read_sequence_section(wave, index, shared.counts[lane], section)) return false;
  sequence_entry* to = shared.entries[lane];
  for (int table = 0; table < 3; ++table) {
    build_sequence_table(table, shared.counts[lane][table], section.logs[table], to);
    to += 1u << section.logs[table];
  }
  return decode_sequences(wave, index, section, shared.entries[lane], &shared.words[0][lane]);
}

/// The work of one warp: eight of the wave's blocks with sequences.
PENSTOCK_DEVICE void zstd_sequences_warp(const zstd_wave& wave, std::uint32_t group, zstd_sequences_shared& shared,
                                         warp lanes) {
  lanes.each_alone([&](int lane) {
    const std::uint32_t i = group * kSequenceBlocksPerWarp + static_cast<std::uint32_t>(lane);
    if (lane >= kSequenceBlocksPerWarp || i >= wave.sequence_block_count) return;
    const std::uint32_t index = pointer<const std::uint32_t>(wave.sequence_blocks)[i];
    if (decode_sequence_block(wave, index, lane, shared)) return;
    const std::uint32_t part = pointer<const zstd_block>(wave.blocks)[index].part;
    report(wave.statuses, pointer<const decode_part>(wave.parts)[part].chunk, chunk_status::corrupt_sequences);
  });
}

}  // namespace penstock::inline v0::device
