// Codes for literals: complete, short enough, nearly optimal, and described so that the decoder reads the same.

#include "cuda/encode/huffman_encode.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace penstock::inline v0::device {
namespace {

using random_numbers = std::linear_congruential_engine<std::uint32_t, 48271, 0, 2147483647>;

using byte_counts = std::array<std::uint32_t, 256>;

// The bits of an optimal code of at most 11 bits, by package-merge: costs of 11 levels, of which each pairs the last.
std::uint64_t optimal_bits(const byte_counts& counts) {
  std::vector<std::uint64_t> leaves, row;
  for (const std::uint32_t count : counts)
    if (count != 0) leaves.push_back(count);
  for (int level = 0; level < kMostHuffmanBits; ++level) {
    std::vector<std::uint64_t> next = leaves;
    for (std::size_t i = 0; i + 1 < row.size(); i += 2) next.push_back(row[i] + row[i + 1]);
    std::sort(next.begin(), next.end());
    row = next;
  }
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < 2 * leaves.size() - 2; ++i) bits += row[i];
  return bits;
}

std::unique_ptr<huffman_encoder> code_of(const byte_counts& counts) {
  std::vector<std::uint8_t> content;
  for (std::size_t i = 0; i < 256; ++i) content.insert(content.end(), counts[i], static_cast<std::uint8_t>(i));
  auto code = std::make_unique<huffman_encoder>();
  std::memset(static_cast<void*>(code.get()), 0xa5, sizeof *code);
  count_bytes(content.data(), static_cast<std::uint32_t>(content.size()), *code, warp{});
  make_huffman_code(*code, warp{});
  return code;
}

// Returns how many times the optimum's bits the code takes.
double expect_sound(const byte_counts& counts, const std::string& what) {
  const auto code = code_of(counts);
  std::uint32_t taken = 0;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(code->weights[i] != 0, counts[i] != 0) << what;
    if (counts[i] == 0) continue;
    const std::uint32_t length = code_length(code->codes[i]);
    EXPECT_TRUE(length >= 1 && length <= kMostHuffmanBits) << what;
    taken += 1u << (kMostHuffmanBits - length);
    bits += static_cast<std::uint64_t>(length) * counts[i];
  }
  EXPECT_EQ(taken, 1u << kMostHuffmanBits) << what << ": not complete";
  EXPECT_EQ(bits, code->bits) << what;
  const auto table = std::make_unique<huffman_table>();
  EXPECT_EQ(read_huffman_tree({code->tree, code->tree_bytes}, *table), code->tree_bytes) << what;
  EXPECT_NE(code->tree_bytes, 0u) << what;
  EXPECT_TRUE(std::equal(code->weights, code->weights + 256, table->weights)) << what;
  return static_cast<double>(bits) / static_cast<double>(optimal_bits(counts));
}

TEST(HuffmanEncode, CodesAreNearlyOptimalAndTheDecoderReadsThem) {
  random_numbers random(1);
  double worst = 1;
  for (int round = 0; round < 500; ++round) {
    byte_counts counts{};
    const std::uint32_t used = 2 + random() % 255, first = random() % (257 - used), steepness = random() % 14;
    for (std::uint32_t i = 0; i < used; ++i) counts[first + i] = 1 + (random() % 3000 >> random() % (steepness + 1));
    worst = std::max(worst, expect_sound(counts, std::to_string(round)));
  }
  EXPECT_LT(worst, 1.02);
}

TEST(HuffmanEncode, LimitsTheLengthOfCodes) {
  byte_counts counts{};
  for (std::uint32_t i = 0, one = 1, two = 1; i < 23; ++i, one = std::exchange(two, one + two)) counts[40 + i] = one;
  EXPECT_LT(expect_sound(counts, "Fibonacci's"), 1.02);
  counts = {};
  for (std::uint32_t i = 0; i < 256; ++i) counts[i] = i == 77 ? 100'000 : 1;
  EXPECT_LT(expect_sound(counts, "one of many"), 1.02);
}

TEST(HuffmanEncode, DescribesEveryKindOfTree) {
  byte_counts counts{};
  counts[0] = counts[255] = 1;
  expect_sound(counts, "the first and the last");
  counts = {};
  counts[0] = counts[1] = 1;
  expect_sound(counts, "two");
  counts = {};
  for (std::uint32_t i = 0; i <= 192; ++i) counts[i] = i == 192 ? 64 : 1;
  expect_sound(counts, "all weights but the last alike");
  counts.fill(1);
  expect_sound(counts, "all alike");
  for (std::uint32_t last = 2; last < 256; ++last) {
    counts = {};
    for (std::uint32_t i = 0; i <= last; ++i) counts[i] = 1 + i % 5 * i;
    expect_sound(counts, "up to " + std::to_string(last));
  }
}

}  // namespace
}  // namespace penstock::inline v0::device
