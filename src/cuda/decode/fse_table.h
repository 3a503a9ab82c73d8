#pragma once

// Finite state entropy: table descriptions and decoding tables (RFC 8878, 4.1).

#include "cuda/decode/backward_bits.h"
#include "cuda/decode/device.h"

namespace penstock::inline v0::device {

inline constexpr int kMostFseSymbols = 64;

/// The contents of a table description.
struct fse_description {
  std::uint32_t bytes;  ///< size of the description; 0: it is damaged
  int log;
};

/// Reads bits forwards from `view`; zeros after its end.
class forward_bits {
 public:
  PENSTOCK_DEVICE explicit forward_bits(byte_view view) : view_(view) {}
  PENSTOCK_DEVICE std::uint32_t peek(int count) const {
    std::uint32_t value = 0;
    const std::uint32_t byte = at_ / 8;
    for (std::uint32_t i = 0; i < 4; ++i)
      if (byte + i < view_.size) value |= static_cast<std::uint32_t>(view_.begin[byte + i]) << (8 * i);
    return (value >> (at_ % 8)) & ((1u << count) - 1);
  }
  PENSTOCK_DEVICE void skip(int count) { at_ += static_cast<std::uint32_t>(count); }
  PENSTOCK_DEVICE std::uint32_t bytes() const { return (at_ + 7) / 8; }

 private:
  byte_view view_;
  std::uint32_t at_ = 0;
};

/// Reads a description of up to `symbols` symbols into `counts` (-1: less than one), and fills the rest with zeros.
PENSTOCK_DEVICE_CALL fse_description read_fse_description(byte_view view, std::uint32_t symbols, int most_log,
                                                          std::int16_t* counts) {
  const fse_description damaged{0, 0};
  forward_bits bits(view);
  const int log = static_cast<int>(bits.peek(4)) + 5;
  bits.skip(4);
  if (view.size == 0 || log > most_log) return damaged;
  std::uint32_t symbol = 0;
  std::int32_t remaining = (1 << log) + 1, threshold = 1 << log;
  int width = log + 1;
  while (remaining > 1) {
    if (symbol >= symbols) return damaged;
    const std::int32_t spare = 2 * threshold - 1 - remaining;
    auto value = static_cast<std::int32_t>(bits.peek(width));
    if ((value & (threshold - 1)) < spare) {
      value &= threshold - 1;
      bits.skip(width - 1);
    } else {
      if (value >= threshold) value -= spare;
      bits.skip(width);
    }
    const std::int32_t count = value - 1;
    remaining -= count < 0 ? -count : count;
    if (remaining < 1) return damaged;
    counts[symbol++] = static_cast<std::int16_t>(count);
    if (count == 0) {
      std::uint32_t run;
      do {
        run = bits.peek(2);
        bits.skip(2);
        for (std::uint32_t i = 0; i < run; ++i) {
          if (symbol >= symbols) return damaged;
          counts[symbol++] = 0;
        }
      } while (run == 3);
    }
    while (remaining < threshold) {
      --width;
      threshold >>= 1;
    }
  }
  if (bits.bytes() > view.size) return damaged;
  while (symbol < symbols) counts[symbol++] = 0;
  return {bits.bytes(), log};
}

/// Makes the decoding table of 2^log entries; overwrites `counts`, whose sum (with 1 for each -1) is 2^log.
///
/// `make(symbol, next)` returns an entry: `next` is the symbol's occurrence number, count to 2 count - 1, from which
/// the number of bits and the next state follow.
template <class Entry, class Make>
PENSTOCK_DEVICE void build_fse_table(std::int16_t* counts, std::uint32_t symbols, int log, Entry* table, Make&& make) {
  const std::uint32_t size = 1u << log, mask = size - 1, step = (size >> 1) + (size >> 3) + 3;
  std::uint32_t high = size;
  for (std::uint32_t symbol = 0; symbol < symbols; ++symbol)
    if (counts[symbol] < 0) table[--high] = static_cast<Entry>(symbol);
  std::uint32_t at = 0;
  for (std::uint32_t symbol = 0; symbol < symbols; ++symbol) {
    for (std::int32_t i = 0; i < counts[symbol]; ++i) {
      table[at] = static_cast<Entry>(symbol);
      do at = (at + step) & mask;
      while (at >= high);
    }
    if (counts[symbol] < 0) counts[symbol] = 1;
  }
  for (std::uint32_t state = 0; state < size; ++state) {
    const auto symbol = static_cast<std::uint32_t>(table[state]);
    table[state] = make(symbol, static_cast<std::uint32_t>(counts[symbol]++));
  }
}

}  // namespace penstock::inline v0::device
