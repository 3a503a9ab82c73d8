#pragma once

// Finite state entropy, the encoder: distributions, their descriptions and the tables that encode with them
// (RFC 8878, 4.1). Each function is for one lane; lanes work on tables of their own.

#include "cuda/decode/fse_table.h"
#include "cuda/encode/bit_writer.h"

namespace penstock::inline v0::device {

/// The effect of a symbol on a state: `(state + bits_delta) >> 16` of its lowest bits are written. The next state is
/// the table's entry at (the remaining bits + `state_delta`). A state of a table of 2^log is 2^log to 2^(log + 1) - 1.
struct fse_symbol {
  std::uint32_t bits_delta;
  std::int32_t state_delta;
};

/// A table of up to `Symbols` symbols and 2^Log states, and the counts and shares that it is made from.
template <std::uint32_t Symbols, int Log>
struct fse_encoder {
  std::uint32_t counts[Symbols];  ///< how often each symbol occurs
  std::int16_t shares[Symbols];   ///< of the 2^log states; -1: less than one
  fse_symbol symbols[Symbols];
  std::uint16_t states[1 << Log];
  std::uint8_t spread[1 << Log];  ///< scratch
};

/// log2(value) in 1/256, rounded down; `value` is 1 to 32767.
PENSTOCK_DEVICE std::uint32_t log2_in_256(std::uint32_t value) {
  const int whole = highest_bit(value);
  std::uint32_t out = static_cast<std::uint32_t>(whole), x = value << (15 - whole);  // 1 to 2, in 1/32768
  PENSTOCK_SMALL_LOOP
  for (int i = 0; i < 8; ++i) {
    x = x * x >> 15;
    out = 2 * out + (x >> 16);
    x >>= x >> 16;
  }
  return out;
}

/// The logarithm of a table's size for so many occurrences of `used` different symbols.
PENSTOCK_DEVICE int fse_log_of(std::uint32_t total, std::uint32_t used, int most) {
  const int least = highest_bit(used) + 1 > 5 ? highest_bit(used) + 1 : 5;
  const int wanted = total < 2 ? least : highest_bit(total - 1) - 2;
  return wanted < least ? least : wanted > most ? most : wanted;
}

/// Shares of 2^log in proportion to `counts`, whose sum is `total`, 32768 at most; each symbol that occurs gets one.
PENSTOCK_DEVICE_CALL void share_states(const std::uint32_t* counts, std::uint32_t symbols, std::uint32_t total, int log,
                                       std::int16_t* shares) {
  std::int32_t left = 1 << log;
  std::uint32_t largest = 0;
  for (std::uint32_t i = 0; i < symbols; ++i) {
    std::uint32_t share = ((counts[i] << (log + 1)) + total) / (2 * total);
    if (share == 0 && counts[i] != 0) share = 1;
    shares[i] = static_cast<std::int16_t>(share);
    left -= static_cast<std::int32_t>(share);
    if (shares[i] > shares[largest]) largest = i;
  }
  // The largest share receives the difference that rounding left.
  for (; left < 0; ++left) {
    --shares[largest];
    for (std::uint32_t i = 0; i < symbols; ++i)
      if (shares[i] > shares[largest]) largest = i;
  }
  shares[largest] = static_cast<std::int16_t>(shares[largest] + left);
}

/// The length, in 1/256 bits, of symbols that occur `counts` times, encoded with these shares. -1 costs as 1.
PENSTOCK_DEVICE_CALL std::uint32_t fse_cost(const std::uint32_t* counts, const std::int16_t* shares,
                                            std::uint32_t symbols, int log) {
  std::uint32_t cost = 0;
  for (std::uint32_t i = 0; i < symbols; ++i) {
    if (counts[i] == 0) continue;
    const auto share = static_cast<std::uint32_t>(shares[i] < 0 ? 1 : shares[i]);
    cost += counts[i] * (256 * static_cast<std::uint32_t>(log) - log2_in_256(share));
  }
  return cost;
}

/// Describes the shares, none of which is -1, as `read_fse_description` reads them. Returns the number of bytes, at
/// most (symbols * (log + 1) + 4) / 8 + 1.
PENSTOCK_DEVICE_CALL std::uint32_t write_fse_description(const std::int16_t* shares, int log, std::uint8_t* to) {
  serial_bits bits(to);
  bits.put(static_cast<std::uint32_t>(log - 5), 4);
  std::uint32_t remaining = (1u << log) + 1, threshold = 1u << log, symbol = 0;
  for (int width = log + 1; remaining > 1;) {
    const auto share = static_cast<std::uint32_t>(shares[symbol++]);
    const std::uint32_t spare = 2 * threshold - 1 - remaining;
    std::uint32_t value = share + 1;
    if (value >= threshold) value += spare;
    bits.put(value, value < spare ? width - 1 : width);
    remaining -= share;
    if (share == 0) {
      std::uint32_t run = 0;
      for (; shares[symbol] == 0; ++symbol) {
        if (++run < 3) continue;
        bits.put(3, 2);
        run = 0;
      }
      bits.put(run, 2);
    }
    for (; remaining < threshold; --width) threshold >>= 1;
  }
  return bits.finish();
}

/// Makes the encoding table of 2^log states; uses up `shares`.
PENSTOCK_DEVICE_CALL void build_fse_encoder(std::int16_t* shares, std::uint32_t symbols, int log, fse_symbol* made,
                                            std::uint16_t* states, std::uint8_t* spread) {
  // Symbols are spread over the states as in build_fse_table.
  const std::uint32_t size = 1u << log, mask = size - 1, step = (size >> 1) + (size >> 3) + 3;
  std::uint32_t high = size, at = 0, start = 0;
  for (std::uint32_t symbol = 0; symbol < symbols; ++symbol)
    if (shares[symbol] < 0) spread[--high] = static_cast<std::uint8_t>(symbol);
  for (std::uint32_t symbol = 0; symbol < symbols; ++symbol) {
    for (std::int32_t i = 0; i < shares[symbol]; ++i) {
      spread[at] = static_cast<std::uint8_t>(symbol);
      do at = (at + step) & mask;
      while (at >= high);
    }
  }
  for (std::uint32_t symbol = 0; symbol < symbols; ++symbol) {
    const auto share = static_cast<std::uint32_t>(shares[symbol] < 0 ? 1 : shares[symbol]);
    const int most_bits = share < 2 ? log : log - highest_bit(share - 1);
    made[symbol] = {(static_cast<std::uint32_t>(most_bits) << 16) - (share << most_bits),
                    static_cast<std::int32_t>(start) - static_cast<std::int32_t>(share)};
    shares[symbol] = static_cast<std::int16_t>(start);
    start += share;
  }
  for (std::uint32_t state = 0; state < size; ++state)
    states[shares[spread[state]]++] = static_cast<std::uint16_t>(size + state);
}

/// The initial state for `symbol`: of all states, one whose successor takes the most bits.
PENSTOCK_DEVICE std::uint32_t first_fse_state(const fse_symbol& symbol, const std::uint16_t* states) {
  const std::uint32_t bits = (symbol.bits_delta + (1u << 15)) >> 16;
  const std::uint32_t value = (bits << 16) - symbol.bits_delta;
  return states[static_cast<std::int32_t>(value >> bits) + symbol.state_delta];
}

/// How many of the lowest bits of `state` are written when `symbol` follows.
PENSTOCK_DEVICE int fse_bits(const fse_symbol& symbol, std::uint32_t state) {
  return static_cast<int>((state + symbol.bits_delta) >> 16);
}

/// The state after those bits were written.
PENSTOCK_DEVICE std::uint32_t next_fse_state(const fse_symbol& symbol, const std::uint16_t* states,
                                             std::uint32_t state) {
  return states[static_cast<std::int32_t>(state >> fse_bits(symbol, state)) + symbol.state_delta];
}

}  // namespace penstock::inline v0::device
