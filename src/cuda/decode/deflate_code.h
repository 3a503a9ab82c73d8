#pragma once

// Deflate's Huffman codes (RFC 1951, 3.2.2 and 3.2.5).

#include "cuda/decode/deflate_bits.h"
#include "cuda/decode/warp.h"

namespace penstock::inline v0::device {

inline constexpr int kMostCodeBits = 15;
inline constexpr std::uint32_t kMostDistance = 32768;

/// A code's symbols, for codes that are longer than the table's index: how many symbols each length has, and the
/// symbols in the order of their codes.
struct deflate_code {
  std::uint16_t counts[kMostCodeBits + 1];
  std::uint16_t symbols[288];
};

/// The meaning of a code's symbols.
enum class deflate_alphabet : std::uint32_t { numbers, literals_and_lengths, distances };

// An entry describes the next symbol, so that only shifts are left to do. It is 0, or from the lowest bit on
//   numbers               4 bits: the code's length; the symbol
//   literals and lengths  4 bits: the code's length; 8 bits: a literal, or a match's length - 3 before its extra bits;
//                         3 bits: the number of those, or another kind of symbol; 1 bit: not a literal
//   distances             4 bits: the code's length; 4 bits: how many extra bits; 2 bits, to which those are added as
//                         lower ones to make the distance - 1
inline constexpr std::uint32_t kLengthEntry = 1u << 15, kEndOfBlock = kLengthEntry | 7u << 12,
                               kNoLength = kLengthEntry | 6u << 12;

PENSTOCK_DEVICE std::uint32_t deflate_entry(deflate_alphabet alphabet, std::uint32_t symbol, std::uint32_t bits) {
  if (alphabet == deflate_alphabet::distances) {
    // The number doubles every two symbols.
    const std::uint32_t extra = symbol < 4 ? 0 : (symbol >> 1) - 1;
    return bits | extra << 4 | (symbol < 2 ? symbol : 2 | (symbol & 1)) << 8;
  }
  if (alphabet == deflate_alphabet::numbers || symbol < 256) return bits | symbol << 4;
  if (symbol == 256) return bits | kEndOfBlock;
  if (symbol > 285) return bits | kNoLength;
  // The number doubles every four symbols; the last length is 258.
  const std::uint32_t step = symbol - 257, extra = step < 8 || step == 28 ? 0 : (step >> 2) - 1;
  const std::uint32_t front = step == 28 ? 255 : (step < 4 ? step : 4 | (step & 3)) << extra;
  return bits | front << 4 | extra << 12 | kLengthEntry;
}

/// Whether an entry is a literal's.
PENSTOCK_DEVICE bool is_literal(std::uint32_t entry) { return entry - 1 < (256u << 4) - 1; }

/// Whether an entry is a match's length.
PENSTOCK_DEVICE bool is_length(std::uint32_t entry) { return entry - kLengthEntry < kNoLength - kLengthEntry; }

/// The value of an entry and of the bits by which it was found.
struct deflate_value {
  std::uint32_t value;
  std::uint32_t bits;  ///< number of bits used
};

PENSTOCK_DEVICE deflate_value length_of(std::uint32_t entry, std::uint32_t ahead) {
  const std::uint32_t bits = entry & 15, extra = entry >> 12 & 7;
  return {(entry >> 4 & 255) + 3 + low_bits(ahead >> bits, extra), bits + extra};
}

/// Up to 65,536: an invalid symbol has 14 extra bits, which give more than any valid distance.
PENSTOCK_DEVICE deflate_value distance_of(std::uint32_t entry, std::uint32_t ahead) {
  const std::uint32_t bits = entry & 15, extra = entry >> 4 & 15;
  return {(entry >> 8 << extra) + 1 + low_bits(ahead >> bits, extra), bits + extra};
}

/// Makes a code from the lengths of its symbols, 0 to 15 each, by all lanes; false if they are not a prefix code. A
/// single symbol of one bit is allowed, and a block may have no distances.
PENSTOCK_DEVICE bool build_deflate_code(const std::uint8_t* lengths, std::uint32_t symbols, deflate_alphabet alphabet,
                                        deflate_code& code, std::uint16_t* table, int table_bits, warp lanes) {
  const auto length_of = [&](std::uint32_t group, int lane) -> std::uint32_t {
    const std::uint32_t symbol = group + static_cast<std::uint32_t>(lane);
    return symbol < symbols ? lengths[symbol] : 0;
  };
  // In lane i: the number of symbols with length i, then their first code, and its index among all symbols.
  per_lane<std::uint32_t> counts, firsts, places, mine;
  per_lane<bool> same;
  lanes.each([&](int lane) {
    counts[lane] = firsts[lane] = places[lane] = 0;
    PENSTOCK_SMALL_LOOP
    for (auto i = static_cast<std::uint32_t>(lane); i < (1u << table_bits); i += kLanes) table[i] = 0;
  });
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t group = 0; group < symbols; group += kLanes) {
    lanes.each_alone([&](int lane) { mine[lane] = length_of(group, lane); });
    PENSTOCK_SMALL_LOOP
    for (int length = 1; length <= kMostCodeBits; ++length) {
      lanes.each_alone([&](int lane) { same[lane] = mine[lane] == static_cast<std::uint32_t>(length); });
      const std::uint32_t found = bit_count(lanes.ballot(same));
      lanes.each_alone([&](int lane) { counts[lane] += lane == length ? found : 0; });
    }
  }
  std::int32_t space = 1;
  std::uint32_t used = 0, next = 0;
  PENSTOCK_SMALL_LOOP
  for (int length = 1; length <= kMostCodeBits; ++length) {
    const std::uint32_t count = lanes.from(counts, length);
    next <<= 1;
    lanes.each_alone([&](int lane) {
      if (lane != length) return;
      firsts[lane] = next;
      places[lane] = used;
    });
    next += count;
    used += count;
    space = 2 * space - static_cast<std::int32_t>(count);
    if (space < 0) return false;
  }
  if (used == 0 && alphabet != deflate_alphabet::distances) return false;
  if (space != 0 && !(used == 0 || (used == 1 && lanes.from(counts, 1) == 1))) return false;
  // Symbols of one length have consecutive codes. A stream has the highest bit of a code first, so tables are indexed
  // by reversed codes.
  lanes.each_alone([&](int lane) {
    if (lane <= kMostCodeBits) code.counts[lane] = static_cast<std::uint16_t>(counts[lane]);
  });
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t group = 0; group < symbols; group += kLanes) {
    per_lane<int> which;
    per_lane<std::uint32_t> rank;
    lanes.each_alone([&](int lane) {
      mine[lane] = length_of(group, lane);
      which[lane] = static_cast<int>(mine[lane]);
      rank[lane] = 0;
    });
    const per_lane<std::uint32_t> first = lanes.pick(firsts, which), place = lanes.pick(places, which);
    PENSTOCK_SMALL_LOOP
    for (int length = 1; length <= kMostCodeBits; ++length) {
      lanes.each_alone([&](int lane) { same[lane] = mine[lane] == static_cast<std::uint32_t>(length); });
      const std::uint32_t found = lanes.ballot(same);
      lanes.each_alone([&](int lane) {
        if (same[lane]) rank[lane] = bit_count(found & ((1u << lane) - 1));
        if (lane != length) return;
        firsts[lane] += bit_count(found);
        places[lane] += bit_count(found);
      });
    }
    lanes.each_alone([&](int lane) {
      const int length = which[lane];
      if (length == 0) return;
      const std::uint32_t symbol = group + static_cast<std::uint32_t>(lane);
      code.symbols[place[lane] + rank[lane]] = static_cast<std::uint16_t>(symbol);
      if (length > table_bits) return;
      const auto entry =
          static_cast<std::uint16_t>(deflate_entry(alphabet, symbol, static_cast<std::uint32_t>(length)));
      PENSTOCK_SMALL_LOOP
      for (std::uint32_t at = reversed_bits(first[lane] + rank[lane]) >> (32 - length); at < (1u << table_bits);
           at += 1u << length)
        table[at] = entry;
    });
  }
  return true;  // the caller's next barrier makes the tables visible
}

/// The entry of a code that is longer than the table's index; 0 if no code has these bits.
/// \param ahead  The next bits, at least 15.
PENSTOCK_DEVICE std::uint32_t long_entry(std::uint32_t ahead, const deflate_code& code, deflate_alphabet alphabet) {
  std::int32_t value = 0, first = 0, index = 0;
  PENSTOCK_SMALL_LOOP
  for (int length = 1; length <= kMostCodeBits; ++length) {
    value |= static_cast<std::int32_t>(ahead >> (length - 1) & 1);
    const std::int32_t count = code.counts[length];
    if (value - count < first)
      return deflate_entry(alphabet, code.symbols[index + (value - first)], static_cast<std::uint32_t>(length));
    index += count;
    first = (first + count) << 1;
    value <<= 1;
  }
  return 0;
}

}  // namespace penstock::inline v0::device
