// How many turns the copies of matches take: what a GPU's time follows from.

#include "cuda/decode/lz_output.h"

#include <lz4.h>
#include <zstd.h>

#include <bit>
#include <cstdio>
#include <tuple>

#include "cuda/decode/decode_fixture.h"
#include "cuda/encode/encode_fixture.h"

namespace penstock::inline v0::device {
namespace {

// A random walk of which nine bits of the mantissa are kept: many far matches that repeat each other.
bytes walk_of_few_bits(std::size_t items) {
  std::mt19937 random(1);
  std::normal_distribution<double> step;
  std::vector<std::uint32_t> made;
  double sum = 0;
  for (std::size_t i = 0; i < items; ++i) {
    sum += step(random);
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(280 + 0.05 * sum));
    made.push_back((bits + (1u << 13)) & ~((1u << 14) - 1));
  }
  return bytes_of(made);
}

lz_work work_of(step_kind kind, const bytes& encoded, const bytes& content) {
  const device_step step[] = {{kind}};
  bytes out(content.size());
  host_lz_work = {};
  const auto done = decode_on_host(step, encoded, out);
  EXPECT_TRUE(done.ok());
  EXPECT_EQ(out, content);
  return host_lz_work;
}

TEST(LzOutput, CopiesChainsOfFarMatchesInFewRounds) {
  const bytes content = walk_of_few_bits(256'000);
  bytes zstd(ZSTD_compressBound(content.size()));
  zstd.resize(ZSTD_compress(zstd.data(), zstd.size(), content.data(), content.size(), 3));
  bytes lz4 = lz4_of(content);
  for (const auto& [kind, encoded, most_rounds] :
       {std::tuple(step_kind::zstd, &zstd, 5U), std::tuple(step_kind::lz4_block, &lz4, 4U)}) {
    const lz_work work = work_of(kind, *encoded, content);
    EXPECT_GT(work.batches, 100U);
    EXPECT_LE(work.rounds, most_rounds * work.batches) << work.rounds << " rounds, " << work.batches << " batches";
    EXPECT_LE(work.turns, 12 * work.batches) << work.turns << " turns, " << work.batches << " batches";
    std::printf("%.1f times smaller: %llu batches, %.2f rounds and %.2f turns each\n",
                static_cast<double>(content.size()) / static_cast<double>(encoded->size()),
                static_cast<unsigned long long>(work.batches),
                static_cast<double>(work.rounds) / static_cast<double>(work.batches),
                static_cast<double>(work.turns) / static_cast<double>(work.batches));
  }
}

// Counts what docs/design/0012 multiplies with the cycles of docs/design/kernels.md.
TEST(LzOutput, CopiesMatchesOfArraysInFewRounds) {
  for (const char* kind : kArrays)
    for (const bool shuffled : {false, true}) {
      const bytes content = array_of(kind, 1'024'000, shuffled);
      bytes zstd(ZSTD_compressBound(content.size()));
      zstd.resize(ZSTD_compress(zstd.data(), zstd.size(), content.data(), content.size(), 3));
      const lz_work work = work_of(step_kind::zstd, zstd, content);
      EXPECT_LE(work.rounds, 5 * work.batches) << kind << work.rounds << " rounds";
      EXPECT_LE(work.turns, 12 * work.batches) << kind << work.turns << " turns";
      std::printf("%s%s: ratio %.2f, %llu batches, %llu rounds, %llu turns\n", kind, shuffled ? ", shuffled" : "",
                  static_cast<double>(content.size()) / static_cast<double>(zstd.size()),
                  static_cast<unsigned long long>(work.batches), static_cast<unsigned long long>(work.rounds),
                  static_cast<unsigned long long>(work.turns));
      const bytes lz4 = lz4_of(content);
      const lz_work by_lz4 = work_of(step_kind::lz4_block, lz4, content);
      std::printf("  LZ4: ratio %.2f, %llu batches, %llu rounds, %llu turns\n",
                  static_cast<double>(content.size()) / static_cast<double>(lz4.size()),
                  static_cast<unsigned long long>(by_lz4.batches), static_cast<unsigned long long>(by_lz4.rounds),
                  static_cast<unsigned long long>(by_lz4.turns));
    }
}

}  // namespace
}  // namespace penstock::inline v0::device
