// The number of turns that copying matches takes, which determines a GPU's time.

#include "cuda/decode/lz_append_batch.h"

#include <libdeflate.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <tuple>
#include <utility>

#include "cuda/decode/decode_fixture.h"
#include "cuda/decode/zstd_scan.h"
#include "cuda/encode/encode_fixture.h"

namespace penstock::inline v0::device {
namespace {

// A random walk with nine bits of mantissa: many far matches that repeat each other.
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
  host_lz_work = host_lz_depth = {};
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
       {std::tuple(step_kind::zstd, &zstd, 4U), std::tuple(step_kind::lz4_block, &lz4, 3U)}) {
    const lz_work work = work_of(kind, *encoded, content);
    EXPECT_GT(work.batches, 100U);
    // Those that depend on each other: warps that share a chunk do some at the same time.
    const std::uint64_t rounds = work.sets == 0 ? work.rounds : host_lz_depth.rounds;
    EXPECT_LE(rounds, most_rounds * work.batches) << rounds << " rounds, " << work.batches << " batches";
    EXPECT_LE(work.turns, 6 * work.batches) << work.turns << " turns, " << work.batches << " batches";
    EXPECT_LE(work.searches, 6 * work.batches) << work.searches << " searches, " << work.batches << " batches";
    std::printf("%.1f times smaller: %llu batches, %.2f rounds and %.2f turns each\n",
                static_cast<double>(content.size()) / static_cast<double>(encoded->size()),
                static_cast<unsigned long long>(work.batches),
                static_cast<double>(rounds) / static_cast<double>(work.batches),
                static_cast<double>(work.turns) / static_cast<double>(work.batches));
  }
}

// A match of more than 32 bits waits for a second word: 506 cycles from L2, where others take 302.
TEST(LzOutput, FewDeflateMatchesTakeMoreThan32Bits) {
  for (const int level : {1, 6})
    for (const char* kind : kArrays)
      for (const bool shuffled : {false, true}) {
        const bytes content = array_of(kind, test::cases(1'024'000), shuffled);
        libdeflate_compressor* const compressor = libdeflate_alloc_compressor(level);
        bytes deflate(libdeflate_deflate_compress_bound(compressor, content.size()));
        deflate.resize(
            libdeflate_deflate_compress(compressor, content.data(), content.size(), deflate.data(), deflate.size()));
        libdeflate_free_compressor(compressor);
        const lz_work work = work_of(step_kind::deflate, deflate, content);
        const double share = static_cast<double>(work.wide_matches) / std::max(1.0, static_cast<double>(work.matches));
        std::printf("%s%s, level %d: %llu of %llu matches (%.3f %%) of more than 32 bits\n", kind,
                    shuffled ? ", shuffled" : "", level, static_cast<unsigned long long>(work.wide_matches),
                    static_cast<unsigned long long>(work.matches), 100 * share);
        EXPECT_LE(share, 0.01) << kind << (shuffled ? ", shuffled" : "") << ", level " << level;
      }
}

// One chunk of each array of bench/gpu, and of `ramp` one in which each value occurs 1, 2, 4 and 8 times. For Blosc: a
// block of 256 KiB in four parts, of which the third (the high bytes of the mantissa) has most sequences.
struct counted_chunk {
  std::string name;
  bytes content;
};

std::vector<counted_chunk> counted_chunks() {
  constexpr std::size_t kChunk = 1'024'000, kBlock = 1 << 18;
  std::vector<counted_chunk> out;
  for (const std::size_t first : {0, 20'000'000, 40'000'000, 80'000'000}) {
    std::vector<float> values;
    for (std::size_t i = 0; i < kChunk / 4; ++i) values.push_back(static_cast<float>(first + i));
    out.push_back({"benchmark, from " + std::to_string(first / 1'000'000) + " M", bytes_of(values)});
  }
  for (const char* kind : {"field", "ocean", "rounded", "walk"}) out.push_back({kind, array_of(kind, kChunk, false)});
  for (const char* kind : {"field", "walk"}) {
    const bytes block = array_of(kind, kBlock, true);
    for (std::size_t byte = 0; byte < 4; ++byte)
      out.push_back({std::string(kind) + ", Blosc, byte " + std::to_string(byte),
                     {block.begin() + byte * kBlock / 4, block.begin() + (byte + 1) * kBlock / 4}});
  }
  return out;
}

// Counts what bench/gpu/predict.py multiplies by the cycles of docs/design/kernels.md, and writes the counts to the
// file in PENSTOCK_COUNTS.
TEST(LzOutput, CopiesMatchesOfArraysInFewRounds) {
  std::string rows;
  for (const auto& [name, content] : counted_chunks()) {
    bytes zstd(ZSTD_compressBound(content.size()));
    zstd.resize(ZSTD_compress(zstd.data(), zstd.size(), content.data(), content.size(), 3));
    const lz_work work = work_of(step_kind::zstd, zstd, content);
    EXPECT_LE(host_lz_depth.rounds, 4 * work.batches) << name;
    EXPECT_LE(work.turns, 6 * work.batches) << name;
    zstd_index index;
    ASSERT_TRUE(scan_zstd(zstd, content.size(), 0, index).ok());
    std::uint32_t symbols = 0, sequences = 0;
    for (const zstd_block& block : index.blocks) {
      if (block.type != 2) continue;
      if (block.literals_type >= 2) symbols = std::max(symbols, block.literals_bytes / block.streams);
      sequences = std::max(sequences, block.sequence_count);
    }
    const double ratio = static_cast<double>(content.size()) / static_cast<double>(zstd.size());
    std::string row = "  \"" + name + "\": {\"ratio\": " + std::to_string(ratio).substr(0, 4);
    const std::pair<const char*, std::uint64_t> counts[] = {{"symbols", symbols},
                                                            {"sequences", sequences},
                                                            {"batches", work.batches},
                                                            {"rounds", work.rounds},
                                                            {"searches", work.searches},
                                                            {"turns", work.turns},
                                                            {"shared_turns", work.shared_turns},
                                                            {"chains", work.chains},
                                                            {"copies", work.copies},
                                                            {"sets", work.sets},
                                                            {"chain_sets", work.chain_sets},
                                                            {"alone", work.alone},
                                                            {"deep_rounds", host_lz_depth.rounds},
                                                            {"deep_searches", host_lz_depth.searches},
                                                            {"deep_turns", host_lz_depth.turns},
                                                            {"deep_shared_turns", host_lz_depth.shared_turns},
                                                            {"deep_chains", host_lz_depth.chains}};
    for (const auto& [what, count] : counts) row += std::string(", \"") + what + "\": " + std::to_string(count);
    row += "}";
    rows += (rows.empty() ? "" : ",\n") + row;
  }
  std::printf("%s\n", rows.c_str());
  if (const char* const path = std::getenv("PENSTOCK_COUNTS")) std::ofstream(path) << "{\n" << rows << "\n}\n";
}

}  // namespace
}  // namespace penstock::inline v0::device
