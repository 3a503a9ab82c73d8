// A wave to which waves were appended equals one to which their chunks were added: the same descriptors and launches.

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "cuda/decode/decode_fixture.h"

namespace penstock::inline v0::device {
namespace {

constexpr std::size_t kDecoded[] = {3000, 60'000, 512, 200'000, 8, 9000, 4096};

struct sample {
  const char* name;
  std::vector<device_step> steps;
  step_kind codec;
  bool checksum;
};

bytes encode(const sample& of, const bytes& content) {
  bytes out(std::max<std::size_t>(ZSTD_compressBound(content.size()), LZ4_COMPRESSBOUND(content.size())) + 4);
  std::size_t made = content.size();
  if (of.codec == step_kind::zstd) {
    made = ZSTD_compress(out.data(), out.size(), content.data(), content.size(), 3);
  } else if (of.codec == step_kind::lz4_block) {
    made = static_cast<std::size_t>(
        LZ4_compress_default(reinterpret_cast<const char*>(content.data()), reinterpret_cast<char*>(out.data()),
                             static_cast<int>(content.size()), static_cast<int>(out.size())));
  } else {
    std::copy(content.begin(), content.end(), out.begin());
  }
  out.resize(made + (of.checksum ? 4 : 0));  // descriptors do not depend on the checksum's value
  return out;
}

decode_wave empty_wave(const sample& of) {
  auto made = decode_wave::make(of.steps);
  EXPECT_TRUE(made.ok()) << of.name;
  return std::move(made).value();
}

struct emitted {
  bytes descriptors;
  std::vector<kernel_launch> launches;
};

emitted emit(const decode_wave& wave) {
  emitted out;
  out.descriptors.resize(wave.descriptor_bytes());
  wave.emit(out.descriptors, std::uint64_t{1} << 20, std::uint64_t{1} << 30, std::uint64_t{1} << 40, out.launches);
  return out;
}

TEST(WaveAppend, EqualsTheDescriptorsOfChunksAddedOneByOne) {
  const std::vector<sample> samples = {
      {"zstd", {{step_kind::zstd}}, step_kind::zstd, false},
      {"zstd and shuffle", {{step_kind::zstd}, {step_kind::shuffle, 4}}, step_kind::zstd, false},
      {"crc32c, zstd, shuffle and swap",
       {{step_kind::crc32c}, {step_kind::zstd}, {step_kind::shuffle, 8}, {step_kind::byte_swap, 8}},
       step_kind::zstd,
       true},
      {"lz4", {{step_kind::lz4_block}}, step_kind::lz4_block, false},
      {"lz4 and shuffle", {{step_kind::lz4_block}, {step_kind::shuffle, 4}}, step_kind::lz4_block, false},
      {"swap", {{step_kind::byte_swap, 4}}, step_kind::byte_swap, false}};
  std::mt19937 random(7);
  for (const sample& of : samples) {
    std::vector<bytes> chunks;
    const char* const kinds[] = {"walk", "text", "noise", "skewed"};
    for (std::size_t i = 0; i < std::size(kDecoded); ++i)
      chunks.push_back(encode(of, content_of(kinds[i % std::size(kinds)], kDecoded[i], static_cast<unsigned>(i))));
    const auto add = [&](decode_wave& to, std::size_t number) {
      ASSERT_TRUE(
          to.add({chunks[number], 4096 * number, (std::uint64_t{1} << 33) + 8192 * number, kDecoded[number]}).ok())
          << of.name << ", chunk " << number;
    };
    decode_wave together = empty_wave(of);
    for (std::size_t i = 0; i < chunks.size(); ++i) add(together, i);
    const emitted expected = emit(together);
    for (int turn = 0; turn < 20; ++turn) {
      decode_wave appended = empty_wave(of), part = empty_wave(of);
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        add(part, i);
        if (random() % 2 != 0 && i + 1 != chunks.size()) continue;
        appended.append(part);
        part.clear();
      }
      EXPECT_EQ(appended.chunks(), together.chunks());
      EXPECT_EQ(appended.workspace_bytes(), together.workspace_bytes()) << of.name;
      const emitted made = emit(appended);
      ASSERT_EQ(made.descriptors.size(), expected.descriptors.size()) << of.name;
      const auto differs =
          std::mismatch(made.descriptors.begin(), made.descriptors.end(), expected.descriptors.begin());
      EXPECT_TRUE(differs.first == made.descriptors.end())
          << of.name << ": byte " << differs.first - made.descriptors.begin();
      ASSERT_EQ(made.launches.size(), expected.launches.size()) << of.name;
      for (std::size_t i = 0; i < made.launches.size(); ++i) {
        EXPECT_EQ(made.launches[i].kernel, expected.launches[i].kernel);
        EXPECT_EQ(made.launches[i].argument, expected.launches[i].argument) << of.name << ", launch " << i;
      }
    }
  }
}

// A chunk that does not fit is removed as a whole.
TEST(WaveAppend, IsUndoneByRewind) {
  const sample of{"zstd", {{step_kind::zstd}, {step_kind::shuffle, 4}}, step_kind::zstd, false};
  const bytes content = content_of("walk", 60'000), chunk = encode(of, content);
  decode_wave wave = empty_wave(of), other = empty_wave(of);
  ASSERT_TRUE(wave.add({chunk, 0, 0, content.size()}).ok());
  ASSERT_TRUE(other.add({chunk, 4096, 8192, content.size()}).ok());
  const emitted before = emit(wave);
  const auto mark = wave.here();
  wave.append(other);
  EXPECT_EQ(wave.chunks(), 2U);
  wave.rewind(mark);
  EXPECT_EQ(wave.chunks(), 1U);
  EXPECT_EQ(emit(wave).descriptors, before.descriptors);
}

}  // namespace
}  // namespace penstock::inline v0::device
