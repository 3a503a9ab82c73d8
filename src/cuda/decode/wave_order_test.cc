// The last parts to start should end soon: heavy parts, and their blocks, are first in every wave.

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "cuda/decode/decode_fixture.h"

namespace penstock::inline v0::device {
namespace {

constexpr std::uint64_t kDescriptors = 1 << 20;  // where the device would have them

struct emitted {
  bytes descriptors;
  std::vector<kernel_launch> launches;

  template <class Wave>
  Wave argument(kernel_id kernel) const {
    Wave out{};
    for (const kernel_launch& each : launches)
      if (each.kernel == kernel) std::memcpy(&out, each.argument.data(), sizeof out);
    return out;
  }
  std::vector<std::uint32_t> numbers(std::uint64_t at, std::size_t count) const {
    std::vector<std::uint32_t> out(count);
    std::memcpy(out.data(), descriptors.data() + (at - kDescriptors), count * sizeof(std::uint32_t));
    return out;
  }
};

emitted emit(const decode_wave& wave) {
  emitted out;
  out.descriptors.resize(wave.descriptor_bytes());
  wave.emit(out.descriptors, kDescriptors, std::uint64_t{1} << 30, std::uint64_t{1} << 40, out.launches);
  return out;
}

// Chunks of one codec whose encoded sizes are not sorted.
std::vector<bytes> chunks_of(step_kind kind) {
  std::vector<bytes> made;
  for (const std::size_t size : {3000u, 60'000u, 500u, 20'000u, 60'001u, 9000u}) {
    const bytes content = content_of("walk", size);
    bytes out(std::max<std::size_t>(ZSTD_compressBound(size), LZ4_COMPRESSBOUND(size)));
    out.resize(kind == step_kind::zstd
                   ? ZSTD_compress(out.data(), out.size(), content.data(), size, 1)
                   : static_cast<std::size_t>(LZ4_compress_default(
                         reinterpret_cast<const char*>(content.data()), reinterpret_cast<char*>(out.data()),
                         static_cast<int>(size), static_cast<int>(out.size()))));
    made.push_back(std::move(out));
  }
  return made;
}

decode_wave wave_of(step_kind kind, const std::vector<bytes>& chunks) {
  const device_step step{kind};
  auto wave = decode_wave::make({&step, 1});
  EXPECT_TRUE(wave.ok());
  const std::size_t sizes[] = {3000, 60'000, 500, 20'000, 60'001, 9000};
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    EXPECT_TRUE(wave->add({chunks[i], 4096 * i, 8192 * i, sizes[i]}).ok());
  }
  return std::move(wave).value();
}

void expect_heaviest_first(const std::vector<std::uint32_t>& order, const std::vector<bytes>& chunks) {
  ASSERT_EQ(order.size(), chunks.size());
  for (std::size_t i = 1; i < order.size(); ++i) EXPECT_GE(chunks[order[i - 1]].size(), chunks[order[i]].size()) << i;
}

TEST(WaveOrder, PartsOfEveryKernelStartWithTheHeaviest) {
  const auto chunks = chunks_of(step_kind::lz4_block);
  const emitted made = emit(wave_of(step_kind::lz4_block, chunks));
  const auto wave = made.argument<part_wave>(kernel_id::lz);
  expect_heaviest_first(made.numbers(wave.order, wave.part_count), chunks);
}

TEST(WaveOrder, BlocksAndPartsStartWithTheHeaviestOfTheirStage) {
  const auto chunks = chunks_of(step_kind::zstd);
  const emitted made = emit(wave_of(step_kind::zstd, chunks));
  const auto wave = made.argument<zstd_wave>(kernel_id::zstd_execute);
  const auto block = [&](std::uint32_t index) {
    zstd_block each;
    std::memcpy(&each, made.descriptors.data() + (wave.blocks - kDescriptors) + index * sizeof each, sizeof each);
    return each;
  };
  const auto by_sequences = made.numbers(wave.sequence_blocks, wave.sequence_block_count);
  const auto by_literals = made.numbers(wave.literal_blocks, wave.literal_block_count);
  ASSERT_GT(by_sequences.size(), 1U);
  ASSERT_GT(by_literals.size(), 1U);
  for (std::size_t i = 1; i < by_sequences.size(); ++i)
    EXPECT_GE(block(by_sequences[i - 1]).sequence_count, block(by_sequences[i]).sequence_count) << i;
  for (std::size_t i = 1; i < by_literals.size(); ++i)
    EXPECT_GE(block(by_literals[i - 1]).literals_bytes / block(by_literals[i - 1]).streams,
              block(by_literals[i]).literals_bytes / block(by_literals[i]).streams)
        << i;
  // Sequences dominate the execute stage's time in these chunks.
  std::vector<std::uint32_t> sequences(chunks.size(), 0);
  for (const std::uint32_t index : by_sequences) sequences[block(index).part] += block(index).sequence_count;
  const auto order = made.numbers(wave.order, wave.part_count);
  for (std::size_t i = 1; i < order.size(); ++i) EXPECT_GE(sequences[order[i - 1]] + 100, sequences[order[i]]) << i;
}

TEST(WaveOrder, AChunkHasFewerWarpsIfAWaveHasManyChunks) {
  const bytes content = content_of("walk", 3000);
  bytes encoded(ZSTD_compressBound(content.size()));
  encoded.resize(ZSTD_compress(encoded.data(), encoded.size(), content.data(), content.size(), 1));
  const device_step step{step_kind::zstd};
  const std::pair<std::size_t, std::uint32_t> cases[] = {{1, 8}, {256, 8}, {257, 4}, {512, 4}, {1024, 2}, {1025, 1}};
  for (const auto& [chunks, warps] : cases) {
    auto wave = decode_wave::make({&step, 1});
    ASSERT_TRUE(wave.ok());
    for (std::size_t i = 0; i < chunks; ++i) ASSERT_TRUE(wave->add({encoded, 4096 * i, 8192 * i, 3000}).ok());
    const emitted made = emit(*wave);
    for (const kernel_launch& each : made.launches) {
      if (each.kernel == kernel_id::zstd_execute) {
        EXPECT_EQ(each.threads, 32 * warps) << chunks;
      }
    }
  }
}

// Blocks that are raw, or have only literals, do not use the execute stage if their position is known.
TEST(WaveOrder, BlocksWithoutSequencesAreWrittenDirectly) {
  const std::size_t block = 128 * 1024;
  bytes content = content_of("noise", block);
  const bytes skewed = content_of("skewed", block), text = content_of("text", 2 * block);
  content.insert(content.end(), skewed.begin(), skewed.end());
  content.insert(content.end(), text.begin(), text.end());
  content.insert(content.end(), skewed.begin(), skewed.end());
  bytes encoded(ZSTD_compressBound(content.size()));
  encoded.resize(ZSTD_compress(encoded.data(), encoded.size(), content.data(), content.size(), 1));
  const device_step step[] = {{step_kind::zstd}};
  auto wave = decode_wave::make(step);
  ASSERT_TRUE(wave.ok());
  ASSERT_TRUE(wave->add({encoded, 0, 0, content.size()}).ok());
  const emitted made = emit(*wave);
  const auto argument = made.argument<zstd_wave>(kernel_id::zstd_execute);
  std::size_t raw = 0, literals = 0, others = 0;
  for (std::uint32_t i = 0; i < 5; ++i) {
    zstd_block each;
    std::memcpy(&each, made.descriptors.data() + (argument.blocks - kDescriptors) + i * sizeof each, sizeof each);
    if (each.direct == kNotDirect) {
      ++others;
      continue;
    }
    EXPECT_EQ(each.sequence_count, 0U);
    EXPECT_EQ(each.direct, block * i);
    ++(each.type == 0 ? raw : literals);
  }
  EXPECT_EQ(raw, 1U);
  EXPECT_EQ(literals, 1U);
  EXPECT_EQ(others, 3U);  // after sequences no position is known
  const auto copies = made.argument<transform_wave>(kernel_id::transform);
  EXPECT_EQ(copies.part_count, 1U);
  expect_decodes(step, encoded, content, "raw, literals and sequences");
}

// Threads step beyond a chunk's end in 32 bits, and a launch has fewer than 2^31 blocks, for all sets of chunks.
TEST(WaveOrder, LongChunksAreCountedIn32Bits) {
  const device_step step{step_kind::byte_swap, 4};
  auto wave = decode_wave::make({&step, 1});
  ASSERT_TRUE(wave.ok());
  const auto add = [&](std::uint64_t size) {  // the bytes themselves do not matter
    const bytes none(1);
    return wave->add({{none.data(), static_cast<std::size_t>(size)}, 0, std::uint64_t{1} << 33, size});
  };
  EXPECT_EQ(add(kMostChunkBytes + 1).error().code(), errc::unsupported);
  ASSERT_TRUE(add(kMostChunkBytes).ok());
  for (int i = 0; i < 40'000; ++i) ASSERT_TRUE(add(4).ok());
  const emitted made = emit(*wave);
  const auto argument = made.argument<transform_wave>(kernel_id::transform);
  ASSERT_EQ(made.launches.size(), 1U);
  EXPECT_EQ(made.launches[0].grid, argument.part_count * argument.blocks_per_part);
  EXPECT_EQ(argument.part_count, 40'001U);
  EXPECT_LE(std::uint64_t{argument.part_count} * argument.blocks_per_part, 0x7fffffffU);
  EXPECT_LE(kMostChunkBytes + std::uint64_t{argument.blocks_per_part} * made.launches[0].threads, 0xffffffffU);
}

// For every codec, a wave that was rewound equals one to which the chunks were never added.
TEST(WaveOrder, RewindRestoresTheEarlierState) {
  for (const step_kind kind : {step_kind::zstd, step_kind::lz4_block}) {
    const auto chunks = chunks_of(kind);
    const std::vector<bytes> first(chunks.begin(), chunks.begin() + 3);
    const emitted wanted = emit(wave_of(kind, first));
    decode_wave wave = wave_of(kind, first);
    const auto here = wave.here();
    ASSERT_TRUE(wave.add({chunks[3], 1, 2, 20'000}).ok());
    ASSERT_TRUE(wave.add({chunks[4], 3, 4, 60'001}).ok());
    EXPECT_GT(wave.descriptor_bytes(), wanted.descriptors.size() - 1);
    wave.rewind(here);
    EXPECT_EQ(wave.chunks(), 3U);
    const emitted made = emit(wave);
    ASSERT_EQ(made.launches.size(), wanted.launches.size());
    for (std::size_t i = 0; i < made.launches.size(); ++i) {
      EXPECT_EQ(made.launches[i].grid, wanted.launches[i].grid);
      EXPECT_EQ(made.launches[i].argument, wanted.launches[i].argument);
    }
    EXPECT_EQ(made.descriptors, wanted.descriptors);
  }
}

}  // namespace
}  // namespace penstock::inline v0::device
