// Distributions, their descriptions and their tables, against the decoder's functions.

#include "cuda/encode/fse_encode.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/decode/zstd_sequences.h"

namespace penstock::inline v0::device {
namespace {

using random_numbers = std::linear_congruential_engine<std::uint32_t, 48271, 0, 2147483647>;

constexpr std::uint32_t kSymbols = 53;
constexpr int kLog = 9;

// Counts of all shapes: one frequent symbol, equal ones, gaps, very rare ones.
std::vector<std::uint32_t> random_counts(random_numbers& random) {
  std::vector<std::uint32_t> counts(kSymbols);
  const std::uint32_t used = 2 + random() % (kSymbols - 1), steepness = random() % 9;
  for (std::uint32_t i = 0; i < used; ++i)
    counts[random() % kSymbols] = 1 + (random() % 600 >> random() % (steepness + 1));
  counts[3] += 1;
  counts[random() % 2 == 0 ? 0 : kSymbols - 1] += random() % 8 == 0 ? 4000 : 1;
  return counts;
}

TEST(FseEncode, SharesFillTheTableAndSurviveTheirDescription) {
  random_numbers random(1);
  for (int round = 0; round < 2000; ++round) {
    const auto counts = random_counts(random);
    const std::uint32_t total = std::accumulate(counts.begin(), counts.end(), 0u);
    const auto used = static_cast<std::uint32_t>(kSymbols - std::count(counts.begin(), counts.end(), 0u));
    const int log = fse_log_of(total, used, kLog);
    ASSERT_LE(log, kLog);
    std::int16_t shares[kSymbols], read[kSymbols];
    share_states(counts.data(), kSymbols, total, log, shares);
    ASSERT_EQ(std::accumulate(shares, shares + kSymbols, 0), 1 << log);
    for (std::uint32_t i = 0; i < kSymbols; ++i) ASSERT_EQ(shares[i] > 0, counts[i] > 0);
    std::vector<std::uint8_t> described((kSymbols * (kLog + 1) + 4) / 8 + 1);
    const std::uint32_t size = write_fse_description(shares, log, described.data());
    ASSERT_LE(size, described.size());
    const fse_description found = read_fse_description({described.data(), size}, kSymbols, kLog, read);
    ASSERT_EQ(found.bytes, size);
    ASSERT_EQ(found.log, log);
    ASSERT_TRUE(std::equal(shares, shares + kSymbols, read));
  }
}

// Encodes `symbols` and walks the decoding table of the same shares. Returns the bits that the encoder wrote.
std::uint32_t expect_round_trip(const std::vector<std::uint32_t>& symbols, const std::int16_t* shares, int log) {
  fse_encoder<kSymbols, kLog> made;
  std::copy(shares, shares + kSymbols, made.shares);
  build_fse_encoder(made.shares, kSymbols, log, made.symbols, made.states, made.spread);
  std::vector<std::uint32_t> bits;  // in writing order: value, count
  std::uint32_t state = first_fse_state(made.symbols[symbols.back()], made.states), written = 0;
  for (std::size_t i = symbols.size() - 1; i-- > 0;) {
    const int count = fse_bits(made.symbols[symbols[i]], state);
    bits.push_back(state & ((1u << count) - 1));
    written += static_cast<std::uint32_t>(count);
    state = next_fse_state(made.symbols[symbols[i]], made.states, state);
    EXPECT_EQ(state >> log, 1u);
  }
  std::uint32_t table[1 << kLog];  // symbol, and `next` above it
  std::int16_t counts[kSymbols];
  std::copy(shares, shares + kSymbols, counts);
  build_fse_table(counts, kSymbols, log, table,
                  [](std::uint32_t symbol, std::uint32_t next) { return symbol | next << 8; });
  state -= 1u << log;
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    EXPECT_EQ(table[state] & 255, symbols[i]) << i;
    if (bits.empty()) break;
    const std::uint32_t next = table[state] >> 8;
    state = (next << (log - highest_bit(next))) - (1u << log) + bits.back();
    bits.pop_back();
  }
  return written;
}

TEST(FseEncode, DecodersVisitTheSameStatesAtThePredictedCost) {
  random_numbers random(2);
  for (int round = 0; round < 200; ++round) {
    const auto counts = random_counts(random);
    const std::uint32_t total = std::accumulate(counts.begin(), counts.end(), 0u);
    const auto used = static_cast<std::uint32_t>(kSymbols - std::count(counts.begin(), counts.end(), 0u));
    const int log = fse_log_of(total, used, kLog);
    std::int16_t shares[kSymbols];
    share_states(counts.data(), kSymbols, total, log, shares);
    std::vector<std::uint32_t> symbols;
    for (std::uint32_t i = 0; i < kSymbols; ++i) symbols.insert(symbols.end(), counts[i], i);
    std::shuffle(symbols.begin(), symbols.end(), random);
    const std::uint32_t written = expect_round_trip(symbols, shares, log);
    const double foreseen = fse_cost(counts.data(), shares, kSymbols, log) / 256.0;
    ASSERT_NEAR(written, foreseen, 0.02 * foreseen + 16) << round;
  }
}

TEST(FseEncode, UsesDistributionsWithSharesBelowOne) {
  for (const int table : {kLiteralLengths, kMatchLengths}) {
    std::int16_t shares[kSymbols] = {};
    const int log = predefined_counts(table, shares);
    std::vector<std::uint32_t> symbols;
    for (std::uint32_t i = 0; i < 5 * symbols_of(table); ++i) symbols.push_back(i * 7 % symbols_of(table));
    expect_round_trip(symbols, shares, log);
  }
}

TEST(FseEncode, ComputesLogarithms) {
  for (std::uint32_t value = 1; value < 32768; ++value)
    ASSERT_NEAR(log2_in_256(value) / 256.0, std::log2(value), 1.5 / 256) << value;
}

}  // namespace
}  // namespace penstock::inline v0::device
