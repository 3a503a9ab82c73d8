#pragma once

// Huffman trees of zstd literals (RFC 8878, 4.2).

#include "cuda/decode/fse_table.h"
#include "cuda/decode/warp.h"

namespace penstock::inline v0::device {

inline constexpr int kMostHuffmanBits = 11;

/// The symbol in the high bits, above the number of bits.
using huffman_entry = std::uint16_t;

/// A decoding table, and the data from which it is made. In shared memory, one for every block that a warp decodes.
struct huffman_table {
  huffman_entry entries[1 << kMostHuffmanBits];
  std::uint8_t weights[256];
  std::uint16_t starts[kMostHuffmanBits + 2];  ///< first entry, by weight
  std::uint8_t bits;                           ///< 0: the description is damaged
  std::uint8_t reserved[5];                    ///< places the tables of a warp in different banks
};

/// A state's entry in 16 bits: ten for `next`, six for the weight.
using weight_entry = std::uint16_t;

PENSTOCK_DEVICE std::uint32_t weight_of(weight_entry entry) { return entry >> 10; }

/// The state after `entry` in a table of 2^log entries.
PENSTOCK_DEVICE std::uint32_t state_after(weight_entry entry, int log, backward_bits& bits) {
  const std::uint32_t next = entry & 1023u;
  const int count = log - highest_bit(next);
  return (next << count) - (1u << log) + bits.take(count);
}

/// Reads weights that are described by an FSE stream; returns their number, 0 when damaged. `table` serves as scratch.
PENSTOCK_DEVICE_CALL std::uint32_t read_fse_weights(byte_view view, huffman_table& table) {
  constexpr std::uint32_t kWeights = kMostHuffmanBits + 2;  // 0 to 11, and one invalid weight
  auto* const counts = reinterpret_cast<std::int16_t*>(table.entries);
  weight_entry* const states = table.entries + kMostFseSymbols;
  const fse_description description = read_fse_description(view, kWeights, 6, counts);
  if (description.bytes == 0) return 0;
  build_fse_table(counts, kWeights, description.log, states, [](std::uint32_t weight, std::uint32_t next) {
    return static_cast<weight_entry>(next | weight << 10);
  });
  backward_bits bits;
  if (!bits.start({view.begin + description.bytes, view.size - description.bytes})) return 0;
  std::uint32_t even = bits.take(description.log), odd = bits.take(description.log);
  if (bits.overrun()) return 0;
  for (std::uint32_t count = 0; count < 254;) {
    table.weights[count++] = static_cast<std::uint8_t>(weight_of(states[even]));
    even = state_after(states[even], description.log, bits);
    bits.refill();
    if (bits.overrun()) {
      table.weights[count++] = static_cast<std::uint8_t>(weight_of(states[odd]));
      return count;
    }
    const std::uint32_t state = even;
    even = odd;
    odd = state;
  }
  return 0;
}

/// Reads a tree description into `table`: weights, starts and `bits`, but not the entries.
///
/// \returns The size of the description, 0 when it is damaged.
PENSTOCK_DEVICE_CALL std::uint32_t read_huffman_tree(byte_view view, huffman_table& table) {
  table.bits = 0;
  if (view.size == 0) return 0;
  const std::uint32_t head = view.begin[0];
  std::uint32_t symbols, bytes;
  if (head < 128) {
    bytes = 1 + head;
    if (bytes > view.size) return 0;
    symbols = read_fse_weights({view.begin + 1, head}, table);
    if (symbols == 0) return 0;
  } else {
    symbols = head - 127;
    bytes = 1 + (symbols + 1) / 2;
    if (bytes > view.size) return 0;
    for (std::uint32_t i = 0; i < symbols; ++i) {
      const std::uint32_t pair = view.begin[1 + i / 2];
      table.weights[i] = static_cast<std::uint8_t>(i % 2 == 0 ? pair >> 4 : pair & 15);
    }
  }
  std::uint32_t counts[kMostHuffmanBits + 2] = {};
  std::uint32_t total = 0;
  for (std::uint32_t i = 0; i < symbols; ++i) {
    const std::uint32_t weight = table.weights[i];
    if (weight > kMostHuffmanBits) return 0;
    ++counts[weight];
    total += (1u << weight) >> 1;
  }
  if (total == 0) return 0;
  // The last symbol's weight completes the sum to a power of two.
  const int bits = highest_bit(total) + 1;
  if (bits > kMostHuffmanBits) return 0;
  const std::uint32_t missing = (1u << bits) - total;
  if ((missing & (missing - 1)) != 0) return 0;
  const auto last = static_cast<std::uint32_t>(highest_bit(missing) + 1);
  table.weights[symbols] = static_cast<std::uint8_t>(last);
  ++counts[last];
  if (counts[1] < 2 || counts[1] % 2 != 0) return 0;
  for (std::uint32_t i = symbols + 1; i < 256; ++i) table.weights[i] = 0;
  std::uint32_t start = 0;
  for (std::uint32_t weight = 1; weight <= kMostHuffmanBits; ++weight) {
    table.starts[weight] = static_cast<std::uint16_t>(start);
    start += counts[weight] << (weight - 1);
  }
  table.bits = static_cast<std::uint8_t>(bits);
  return bytes;
}

/// Fills the entries of the weights that equal `share` modulo `shares`.
PENSTOCK_DEVICE void fill_huffman_table(huffman_table& table, std::uint32_t share, std::uint32_t shares) {
  for (std::uint32_t symbol = 0; symbol < 256 && table.bits != 0; ++symbol) {
    const std::uint32_t weight = table.weights[symbol];
    if (weight == 0 || weight % shares != share) continue;
    const auto entry = static_cast<huffman_entry>(symbol << 8 | (table.bits + 1 - weight));
    const std::uint32_t start = table.starts[weight], end = start + ((1u << weight) >> 1);
    for (std::uint32_t i = start; i < end; ++i) table.entries[i] = entry;
    table.starts[weight] = static_cast<std::uint16_t>(end);
  }
}

/// Decodes one stream to `count` bytes. Returns whether it fits exactly.
/// \param ring  See `staged_words`.
PENSTOCK_DEVICE bool decode_huffman_stream(byte_view stream, const huffman_table& table, std::uint32_t* ring,
                                           std::uint8_t* out, std::uint32_t count) {
  backward_bits_of<staged_words> bits(ring);
  if (!bits.start(stream)) return false;
  const int unused = 32 - table.bits;  // in `ahead`, to the right of the longest code
  const auto one = [&] {
    bits.refill();
    const std::uint32_t entry = table.entries[bits.ahead() >> unused];
    bits.skip(entry & 255);
    return static_cast<std::uint8_t>(entry >> 8);
  };
  // Two codes, of at most 22 bits: the symbols in the second byte of each half.
  const auto two = [&] {
    const bool due = bits.advance();
    const std::uint32_t ahead = bits.ahead();
    const std::uint32_t first = table.entries[ahead >> unused];
    bits.load_next(due);
    const std::uint32_t second = table.entries[shift_in_modulo(ahead, 0, first) >> unused];
    bits.skip((first + second) & 255);
    return first | second << 16;
  };
  std::uint32_t left = count;
  for (; left > 0 && misalignment(out, 4) != 0; --left) *out++ = one();
  for (; left >= 4; left -= 4, out += 4) {
    const std::uint32_t front = two(), back = two();
    store_word(out, pick_bytes(front, back, 0x7531));
  }
  for (; left > 0; --left) *out++ = one();
  return bits.exhausted_exactly();
}

}  // namespace penstock::inline v0::device
