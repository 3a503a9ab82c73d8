#pragma once

// A block's sequences section (RFC 8878, 3.1.1.3.2). Three lanes make the three tables and walk through their states;
// all lanes write the bits.

#include "cuda/decode/zstd_sequences.h"
#include "cuda/encode/fse_encode.h"

namespace penstock::inline v0::device {

/// A sequence in the form in which it is stored until its block is written.
struct packed_sequence {
  std::uint64_t value;  ///< literals, match length less 3 (18 bits each), and offset value

  PENSTOCK_DEVICE static packed_sequence of(std::uint32_t literals, std::uint32_t match, std::uint32_t offset_value) {
    return {literals | static_cast<std::uint64_t>(match - 3) << 18 | static_cast<std::uint64_t>(offset_value) << 36};
  }
  /// The number that table `table` has a code for.
  PENSTOCK_DEVICE std::uint32_t field(int table) const {
    if (table == kOffsets) return static_cast<std::uint32_t>(value >> 36);
    return static_cast<std::uint32_t>(value >> (table == kLiteralLengths ? 0 : 18)) & ((1u << 18) - 1);
  }
};

/// Codes of lengths (RFC 8878, 3.1.1.3.2.1.1), as the decoder's tables have them.
struct length_codes {
  std::uint8_t extra[2][kMostSequenceSymbols];  ///< bits after each code
  std::uint8_t small[2][128];                   ///< the codes of lengths below 128

  PENSTOCK_DEVICE void fill(int lane) {
    PENSTOCK_SMALL_LOOP
    for (int which = 0; which < 2; ++which) {
      const int table = which == 0 ? kLiteralLengths : kMatchLengths;
      PENSTOCK_SMALL_LOOP
      for (auto code = static_cast<std::uint32_t>(lane); code < symbols_of(table); code += kLanes) {
        const sequence_entry entry = entry_of_code(table, code);
        const std::uint32_t bits = extra_bits(entry) & 31u, first = value_front(entry) << bits,
                            end = first + (1u << bits);
        extra[which][code] = static_cast<std::uint8_t>(bits);
        PENSTOCK_SMALL_LOOP
        for (std::uint32_t i = first; i < end && i < 128; ++i) small[which][i] = static_cast<std::uint8_t>(code);
      }
    }
  }
  PENSTOCK_DEVICE std::uint32_t code_of(int table, std::uint32_t value) const {
    if (table == kOffsets) return static_cast<std::uint32_t>(highest_bit(value));
    if (value < 128) return small[table / 2][value];
    return static_cast<std::uint32_t>(highest_bit(value)) + (table == kLiteralLengths ? 19 : 36);
  }
  PENSTOCK_DEVICE std::uint32_t extra_of(int table, std::uint32_t code) const {
    return table == kOffsets ? code : extra[table / 2][code];
  }
};
static_assert(kLiteralLengths / 2 == 0 && kMatchLengths / 2 == 1);

inline constexpr std::uint32_t kMostTableDescription = 72;
inline constexpr int kSequencesEach = kLanes / 2;  ///< sequences that are written at a time

/// The forms of a table (RFC 8878, 3.1.1.3.2.1) that the encoder uses.
enum class table_form : std::uint32_t { predefined = 0, single = 1, described = 2 };

struct zstd_encode_sequences_shared {
  length_codes lengths;
  fse_encoder<kMostSequenceSymbols, 9> tables[3];
  struct {
    table_form form;
    std::uint32_t bytes;
    int log;
  } chosen[3];
  std::uint8_t descriptions[3][kMostTableDescription];
  std::uint8_t codes[3][kSequencesEach];
  std::uint16_t state_bits[3][kSequencesEach];  ///< bits, and their number above bit 9
  std::uint32_t states[3];
  lane_bits_shared bits;
};

/// Chooses the cheapest form of a table by the cost of its description and of all its symbols, and makes the table. Run
/// by one lane.
PENSTOCK_DEVICE_CALL void choose_sequence_table(int table, std::uint32_t total, zstd_encode_sequences_shared& shared) {
  auto& made = shared.tables[table];
  auto& chosen = shared.chosen[table];
  std::uint8_t* const description = shared.descriptions[table];
  const std::uint32_t symbols = symbols_of(table);
  std::uint32_t used = 0, last = 0;
  for (std::uint32_t i = 0; i < symbols; ++i) {
    if (made.counts[i] == 0) continue;
    ++used;
    last = i;
  }
  const int log = fse_log_of(total, used, most_log_of(table));
  constexpr std::uint32_t kNever = 0xffffffffu;
  std::uint32_t described = kNever, bytes = 0;
  if (used > 1) {
    share_states(made.counts, symbols, total, log, made.shares);
    bytes = write_fse_description(made.shares, log, description);
    described = 8 * 256 * bytes + fse_cost(made.counts, made.shares, symbols, log);
  }
  const int usual_log = predefined_counts(table, made.shares);
  const std::uint32_t predefined = fse_cost(made.counts, made.shares, symbols, usual_log);
  if (used == 1 && predefined >= 8 * 256) {
    description[0] = static_cast<std::uint8_t>(last);
    chosen = {table_form::single, 1, 0};
    made.symbols[last] = {0, 0};  // symbols take no bits, and the table has one state
    made.states[0] = 0;
    return;
  }
  chosen = {table_form::predefined, 0, usual_log};
  if (described < predefined) {
    chosen = {table_form::described, bytes, log};
    share_states(made.counts, symbols, total, log, made.shares);
  }
  build_fse_encoder(made.shares, symbols, chosen.log, made.symbols, made.states, made.spread);
}

/// Counts codes and makes the tables for them.
PENSTOCK_DEVICE void make_sequence_tables(const packed_sequence* sequences, std::uint32_t count,
                                          zstd_encode_sequences_shared& shared, warp lanes) {
  lanes.each([&](int lane) {
    shared.lengths.fill(lane);
    PENSTOCK_SMALL_LOOP
    for (auto i = static_cast<std::uint32_t>(lane); i < 3 * kMostSequenceSymbols; i += kLanes)
      shared.tables[i / kMostSequenceSymbols].counts[i % kMostSequenceSymbols] = 0;
  });
  lanes.each([&](int lane) {
    PENSTOCK_SMALL_LOOP
    for (auto i = static_cast<std::uint32_t>(lane); i < count; i += kLanes)
      for (int table = 0; table < 3; ++table)
        add_to(shared.tables[table].counts[shared.lengths.code_of(table, sequences[i].field(table))], 1);
  });
  lanes.each([&](int lane) {
    if (lane < 3) choose_sequence_table(lane, count, shared);
  });
}

/// The bits of up to 16 sequences, from the one before `end` down: those of their states after the codes of the
/// following sequence, and the extra bits of their codes.
PENSTOCK_DEVICE void write_sequence_bits(const packed_sequence* sequences, std::uint32_t end, std::uint32_t count,
                                         zstd_encode_sequences_shared& shared, lane_bits& stream, warp lanes) {
  const auto each = static_cast<int>(end < static_cast<std::uint32_t>(kSequencesEach) ? end : kSequencesEach);
  lanes.each([&](int lane) {
    if (lane >= each) return;
    for (int table = 0; table < 3; ++table)
      shared.codes[table][lane] = static_cast<std::uint8_t>(
          shared.lengths.code_of(table, sequences[end - 1 - static_cast<std::uint32_t>(lane)].field(table)));
  });
  lanes.each([&](int lane) {
    if (lane >= 3) return;
    const auto& table = shared.tables[lane];
    std::uint32_t state = shared.states[lane];
    PENSTOCK_SMALL_LOOP
    for (int i = 0; i < each; ++i) {
      const fse_symbol symbol = table.symbols[shared.codes[lane][i]];
      if (end == count && i == 0) {
        state = first_fse_state(symbol, table.states);
        shared.state_bits[lane][i] = 0;
        continue;
      }
      const int bits = fse_bits(symbol, state);
      shared.state_bits[lane][i] =
          static_cast<std::uint16_t>((state & ((1u << bits) - 1)) | static_cast<std::uint32_t>(bits) << 9);
      state = next_fse_state(symbol, table.states, state);
    }
    shared.states[lane] = state;
  });
  per_lane<std::uint64_t> bits;
  per_lane<std::uint32_t> counts;
  lanes.each_alone([&](int lane) {
    std::uint64_t joined = 0;
    std::uint32_t width = 0;
    const auto append = [&](std::uint32_t value, std::uint32_t more) {
      joined |= static_cast<std::uint64_t>(value) << width;
      width += more;
    };
    const int i = lane / 2;
    if (i < each && lane % 2 == 0) {
      constexpr int kOrder[] = {kOffsets, kMatchLengths, kLiteralLengths};
      for (const int table : kOrder) append(shared.state_bits[table][i] & 511u, shared.state_bits[table][i] >> 9);
    } else if (i < each) {
      const packed_sequence sequence = sequences[end - 1 - static_cast<std::uint32_t>(i)];
      constexpr int kOrder[] = {kLiteralLengths, kMatchLengths, kOffsets};
      for (const int table : kOrder) {
        const std::uint32_t extra = shared.lengths.extra_of(table, shared.codes[table][i]);
        append(sequence.field(table) & ((1u << extra) - 1), extra);  // bases are multiples of 2^extra
      }
    }
    bits[lane] = joined;
    counts[lane] = width;
  });
  stream.put(bits, counts, lanes);
}

/// Writes the section of `count` sequences, fewer than 0x7f00.
PENSTOCK_DEVICE void write_sequences(const packed_sequence* sequences, std::uint32_t count,
                                     zstd_encode_sequences_shared& shared, byte_writer& out, warp lanes) {
  const std::uint32_t two = (count >> 8 | 128) | (count & 255) << 8;
  out.number(count < 128 ? count : two, count < 128 ? 1 : 2, lanes);
  if (count == 0) return;
  make_sequence_tables(sequences, count, shared, lanes);
  std::uint32_t modes = 0;
  for (int table = 0; table < 3; ++table)
    modes |= static_cast<std::uint32_t>(shared.chosen[table].form) << (6 - 2 * table);
  out.number(modes, 1, lanes);
  for (int table = 0; table < 3; ++table) out.copy(shared.descriptions[table], shared.chosen[table].bytes, lanes);
  lane_bits stream(shared.bits, out, lanes);
  for (std::uint32_t end = count; end > 0 && out.fits();) {
    write_sequence_bits(sequences, end, count, shared, stream, lanes);
    end -= end < static_cast<std::uint32_t>(kSequencesEach) ? end : kSequencesEach;
  }
  per_lane<std::uint64_t> bits;
  per_lane<std::uint32_t> counts;
  lanes.each_alone([&](int lane) {
    constexpr int kOrder[] = {kMatchLengths, kOffsets, kLiteralLengths};
    bits[lane] = counts[lane] = 0;
    if (lane >= 3) return;
    const int log = shared.chosen[kOrder[lane]].log;
    bits[lane] = shared.states[kOrder[lane]] & ((1u << log) - 1);
    counts[lane] = static_cast<std::uint32_t>(log);
  });
  stream.put(bits, counts, lanes);
  stream.finish(lanes);
}

}  // namespace penstock::inline v0::device
