#pragma once

// Huffman codes for zstd literals (RFC 8878, 4.2), of 11 bits at most. The same codes in every order of the lanes:
// symbols are sorted by count and then by value.

#include "cuda/decode/huffman_tree.h"
#include "cuda/encode/fse_encode.h"

namespace penstock::inline v0::device {

inline constexpr std::uint32_t kWeightSymbols = kMostHuffmanBits + 1;
inline constexpr int kWeightLog = 6;
inline constexpr std::uint32_t kMostTreeBytes = 129;

/// A Huffman code, and the arrays that are needed to make it.
struct huffman_encoder {
  std::uint32_t used;         ///< how many different bytes occur
  std::uint32_t last;         ///< the highest of them
  std::uint32_t bits;         ///< the number of bits of all encoded bytes
  std::uint32_t tree_bytes;   ///< 0: the code has no description
  std::uint32_t counts[256];  ///< how often each byte occurs
  std::uint32_t nodes[256];   ///< counts of inner nodes; then scratch
  std::uint32_t lengths[33];  ///< how many codes have so many bits
  std::uint16_t codes[256];   ///< the bits, and their number above bit 11
  std::uint8_t sorted[256];   ///< bytes that occur, the rarest first
  std::uint8_t parents[256];  ///< of inner nodes, which are numbered as they are made; then their depths
  std::uint8_t weights[256];  ///< RFC 8878, 4.2.1: one more than the longest code is longer; 0: does not occur
  fse_encoder<kWeightSymbols, kWeightLog> by_weight;
  std::uint8_t tree[2 * kMostTreeBytes];
};

PENSTOCK_DEVICE std::uint32_t code_length(std::uint16_t code) { return code >> kMostHuffmanBits; }
PENSTOCK_DEVICE std::uint32_t code_bits(std::uint16_t code) { return code & ((1u << kMostHuffmanBits) - 1); }

/// Counts the bytes of `from`, and sorts those that occur.
PENSTOCK_DEVICE void count_bytes(const std::uint8_t* from, std::uint32_t size, huffman_encoder& code, warp lanes) {
  lanes.each([&](int lane) {
    PENSTOCK_SMALL_LOOP
    for (auto i = static_cast<std::uint32_t>(lane); i < 256; i += kLanes) code.counts[i] = 0;
  });
  lanes.each([&](int lane) {
    PENSTOCK_SMALL_LOOP
    for (auto i = static_cast<std::uint32_t>(lane); i < size; i += kLanes) add_to(code.counts[from[i]], 1);
  });
  per_lane<std::uint32_t> used, last;
  lanes.each_alone([&](int lane) {
    used[lane] = last[lane] = 0;
    PENSTOCK_SMALL_LOOP
    for (auto byte = static_cast<std::uint32_t>(lane); byte < 256; byte += kLanes) {
      const std::uint32_t count = code.counts[byte];
      if (count == 0) continue;
      ++used[lane];
      last[lane] = byte;
      std::uint32_t rank = 0;
      PENSTOCK_SMALL_LOOP
      for (std::uint32_t other = 0; other < 256; ++other) {
        const std::uint32_t its = code.counts[other];
        rank += its != 0 && (its < count || (its == count && other < byte)) ? 1 : 0;
      }
      code.sorted[rank] = static_cast<std::uint8_t>(byte);
    }
  });
  lanes.sum_up(used);
  lanes.scan(last, [](std::uint32_t before, std::uint32_t own) { return before > own ? before : own; });
  lanes.each([&](int lane) {
    if (lane != kLanes - 1) return;
    code.used = used[lane];
    code.last = last[lane];
  });
}

/// The number of codes of each length, at most 11 bits, in a nearly optimal code: see docs/design/0021. One lane.
PENSTOCK_DEVICE_CALL void find_code_lengths(huffman_encoder& code) {
  // Two queues: bytes by count, and inner nodes as they are made, whose counts do not decrease.
  const std::uint32_t leaves = code.used, inner = leaves - 1;
  std::uint32_t leaf = 0, node = 0;
  for (std::uint32_t made = 0; made < inner; ++made) {
    std::uint32_t sum = 0;
    for (int child = 0; child < 2; ++child) {
      const std::uint32_t count = leaf < leaves ? code.counts[code.sorted[leaf]] : ~0u;
      if (node < made && code.nodes[node] < count) {
        sum += code.nodes[node];
        code.parents[node++] = static_cast<std::uint8_t>(made);
      } else {
        sum += count;
        ++leaf;
      }
    }
    code.nodes[made] = sum;
  }
  // A level has twice as many nodes as the level above has inner nodes. With 2^17 bytes, no level is below the 25th.
  for (std::uint32_t& each : code.lengths) each = 0;
  code.parents[inner - 1] = 0;
  for (std::uint32_t i = inner; i-- > 0;) {
    const std::uint32_t depth = i == inner - 1 ? 0 : code.parents[code.parents[i]] + 1u;
    code.parents[i] = static_cast<std::uint8_t>(depth);
    --code.lengths[depth];
    code.lengths[depth + 1] += 2;
  }
  code.lengths[0] = 0;
  // Codes of more than 11 bits are shortened, so the sum of 2^-length becomes greater than 1. For each unit of 2^-11
  // that it is too large, a code of 11 bits and the longest of the shorter codes are replaced by two codes that are one
  // bit longer than that shorter code.
  std::uint32_t taken = 0;
  for (std::uint32_t length = kMostHuffmanBits + 1; length < 33; ++length) {
    code.lengths[kMostHuffmanBits] += code.lengths[length];
    code.lengths[length] = 0;
  }
  for (std::uint32_t length = 1; length <= kMostHuffmanBits; ++length)
    taken += code.lengths[length] << (kMostHuffmanBits - length);
  for (; taken > 1u << kMostHuffmanBits; --taken) {
    std::uint32_t length = kMostHuffmanBits - 1;
    while (code.lengths[length] == 0) --length;
    --code.lengths[length];
    code.lengths[length + 1] += 2;
    --code.lengths[kMostHuffmanBits];
  }
}

/// Weights and codes from the numbers of lengths. One lane.
PENSTOCK_DEVICE_CALL void assign_codes(huffman_encoder& code) {
  for (std::uint8_t& weight : code.weights) weight = 0;
  std::uint32_t longest = kMostHuffmanBits;
  while (code.lengths[longest] == 0) --longest;
  std::uint32_t* const starts = code.nodes;  // by weight: the position of the next code in a decoding table
  std::uint32_t byte = 0, start = 0;
  code.bits = 0;
  for (std::uint32_t weight = 1; weight <= longest; ++weight) {
    const std::uint32_t length = longest + 1 - weight;
    starts[weight] = start;
    start += code.lengths[length] << (weight - 1);
    for (std::uint32_t i = 0; i < code.lengths[length]; ++i) {
      code.bits += length * code.counts[code.sorted[byte]];
      code.weights[code.sorted[byte++]] = static_cast<std::uint8_t>(weight);
    }
  }
  for (std::uint32_t i = 0; i <= code.last; ++i) {
    const std::uint32_t weight = code.weights[i];
    if (weight == 0) continue;
    code.codes[i] =
        static_cast<std::uint16_t>((longest + 1 - weight) << kMostHuffmanBits | starts[weight] >> (weight - 1));
    starts[weight] += 1u << (weight - 1);
  }
}

/// Writes the description by an FSE stream of two states (RFC 8878, 4.2.1.2). Returns its bytes, or 0 if it is too long
/// for that form. One lane.
PENSTOCK_DEVICE_CALL std::uint32_t describe_by_fse(huffman_encoder& code, std::uint8_t* to) {
  if (code.last < 2) return 0;
  auto& fse = code.by_weight;
  std::uint32_t used = 0, total = code.last;
  for (std::uint32_t& count : fse.counts) count = 0;
  for (std::uint32_t i = 0; i < code.last; ++i) used += fse.counts[code.weights[i]]++ == 0 ? 1 : 0;
  if (used == 1) {  // a table has at least two symbols
    ++total;
    ++fse.counts[code.weights[0] == 0 ? 1 : 0];
  }
  const int log = fse_log_of(total, used, kWeightLog);
  share_states(fse.counts, kWeightSymbols, total, log, fse.shares);
  const std::uint32_t described = write_fse_description(fse.shares, log, to);
  // The stream may be longer than 128 bytes: 255 weights of 6 bits, and the states.
  build_fse_encoder(fse.shares, kWeightSymbols, log, fse.symbols, fse.states, fse.spread);
  serial_bits bits(to + described);
  std::uint32_t states[2] = {0, 0};
  for (std::uint32_t i = code.last; i-- > 0;) {
    const fse_symbol& symbol = fse.symbols[code.weights[i]];
    std::uint32_t& state = states[i % 2];
    if (state == 0) {
      state = first_fse_state(symbol, fse.states);
      continue;
    }
    const int count = fse_bits(symbol, state);
    bits.put(state & ((1u << count) - 1), count);
    state = next_fse_state(symbol, fse.states, state);
  }
  bits.put(states[1] & ((1u << log) - 1), log);
  bits.put(states[0] & ((1u << log) - 1), log);
  bits.put(1, 1);
  const std::uint32_t size = described + bits.finish();
  return size < 128 ? size : 0;
}

/// Makes the code of the counted bytes, two or more, and its description: `tree` and `tree_bytes`, which is 0 if it has
/// none.
PENSTOCK_DEVICE void make_huffman_code(huffman_encoder& code, warp lanes) {
  lanes.once([&] {
    find_code_lengths(code);
    assign_codes(code);
    const std::uint32_t by_fse = describe_by_fse(code, code.tree + 1);
    const std::uint32_t direct = (code.last + 1) / 2;
    code.tree[0] = static_cast<std::uint8_t>(by_fse);
    code.tree_bytes = by_fse == 0 ? 0 : 1 + by_fse;
    if (code.last > 128 || (by_fse != 0 && by_fse <= direct)) return;
    code.tree[0] = static_cast<std::uint8_t>(127 + code.last);
    code.tree_bytes = 1 + direct;
    for (std::uint32_t i = 0; i < direct; ++i)
      code.tree[1 + i] =
          static_cast<std::uint8_t>(code.weights[2 * i] << 4 | (2 * i + 1 < code.last ? code.weights[2 * i + 1] : 0));
  });
}

/// Writes `count` bytes as one stream, from the last on.
PENSTOCK_DEVICE void write_huffman_stream(const std::uint8_t* from, std::uint32_t count, const huffman_encoder& code,
                                          lane_bits_shared& shared, byte_writer& out, warp lanes) {
  constexpr std::uint32_t kEach = 4;
  lane_bits stream(shared, out, lanes);
  for (std::uint32_t left = count; left > 0 && out.fits();) {
    per_lane<std::uint64_t> bits;
    per_lane<std::uint32_t> counts;
    lanes.each_alone([&](int lane) {
      bits[lane] = counts[lane] = 0;
      const std::uint32_t first = kEach * static_cast<std::uint32_t>(lane);
      for (std::uint32_t i = first; i < first + kEach && i < left; ++i) {
        const std::uint16_t entry = code.codes[from[left - 1 - i]];
        bits[lane] |= static_cast<std::uint64_t>(code_bits(entry)) << counts[lane];
        counts[lane] += code_length(entry);
      }
    });
    stream.put(bits, counts, lanes);
    left -= left < kEach * kLanes ? left : kEach * kLanes;
  }
  stream.finish(lanes);
}

}  // namespace penstock::inline v0::device
