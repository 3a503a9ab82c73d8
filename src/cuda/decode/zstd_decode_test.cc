// The device's zstd decoder on the host, against libzstd.

#include "cuda/decode/zstd_execute.h"

#include <zstd.h>

#include "cuda/decode/decode_fixture.h"
#include "support/cases.h"

namespace penstock::inline v0::device {
namespace {

struct frame_options {
  int level = 0;
  bool checksum = false;
  bool content_size = true;
  int window_log = 0;
  bool long_distance = false;
};

bytes compress(const bytes& content, const frame_options& options) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, options.level);
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, options.checksum ? 1 : 0);
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, options.content_size ? 1 : 0);
  if (options.window_log != 0) ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, options.window_log);
  if (options.long_distance) ZSTD_CCtx_setParameter(context, ZSTD_c_enableLongDistanceMatching, 1);
  bytes out(ZSTD_compressBound(content.size()));
  const std::size_t made = ZSTD_compress2(context, out.data(), out.size(), content.data(), content.size());
  ZSTD_freeCCtx(context);
  EXPECT_FALSE(ZSTD_isError(made)) << ZSTD_getErrorName(made);
  out.resize(made);
  return out;
}

// A frame compressed in batches with flushes: no content size, blocks of odd sizes, empty blocks.
bytes compress_in_pieces(const bytes& content, std::size_t piece, int level) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
  bytes out(2 * ZSTD_compressBound(content.size()) + 1000);
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  for (std::size_t at = 0; at < content.size(); at += piece) {
    ZSTD_inBuffer from{content.data() + at, std::min(piece, content.size() - at), 0};
    EXPECT_EQ(ZSTD_compressStream2(context, &to, &from, ZSTD_e_flush), 0u);
  }
  ZSTD_inBuffer none{nullptr, 0, 0};
  EXPECT_EQ(ZSTD_compressStream2(context, &to, &none, ZSTD_e_end), 0u);
  ZSTD_freeCCtx(context);
  out.resize(to.pos);
  return out;
}

const device_step kZstd[] = {{step_kind::zstd}};

void expect_decodes(const bytes& encoded, const bytes& content, const std::string& what) {
  expect_decodes(kZstd, encoded, content, what);
}

TEST(DeviceZstd, DecodesEveryLevelOfEveryKindOfContent) {
  for (const char* kind : kKinds)
    for (const int level : {-5, -1, 0, 1, 2, 4, 5, 6, 8, 10, 13, 16, 19, 22}) {
      const bytes content = content_of(kind, level > 12 ? 40'000 : 300'001);
      expect_decodes(compress(content, {level, level % 2 == 0}), content,
                     kind + std::string(" ") + std::to_string(level));
    }
}

TEST(DeviceZstd, DecodesEverySizeFromNothing) {
  for (const char* kind : {"zeros", "noise", "text", "arange", "period3"})
    for (std::size_t size = 0; size < 3000; size += size < 70 ? 1 : 97) {
      const bytes content = content_of(kind, size);
      expect_decodes(compress(content, {3, true}), content, kind + std::string(" of ") + std::to_string(size));
    }
}

TEST(DeviceZstd, DecodesTheBenchmarkArraysChunks) {
  for (const std::size_t chunk : {0u, 70u, 140u, 300u, 399u}) {
    std::vector<float> items(256'000);
    for (std::size_t i = 0; i < items.size(); ++i) items[i] = static_cast<float>(chunk * items.size() + i);
    const bytes content = bytes_of(items);
    expect_decodes(compress(content, {}), content, "chunk " + std::to_string(chunk));
  }
}

TEST(DeviceZstd, DecodesFramesWithoutTheirSize) {
  for (const char* kind : kKinds)
    for (const std::size_t piece : {1000u, 65'536u, 131'072u, 200'000u}) {
      const bytes content = content_of(kind, 250'000);
      expect_decodes(compress_in_pieces(content, piece, 3), content, kind + std::string(" in pieces"));
    }
}

TEST(DeviceZstd, DecodesSmallWindowsAndLongDistances) {
  for (const char* kind : {"rows", "text", "arange", "packed"}) {
    const bytes content = content_of(kind, 400'000);
    expect_decodes(compress(content, {5, true, true, 10}), content, kind + std::string(", window of 1 KiB"));
    expect_decodes(compress(content, {19, true, false, 17}), content, kind + std::string(", window of 128 KiB"));
    expect_decodes(compress(content, {3, true, true, 20, true}), content, kind + std::string(", long distances"));
  }
}

TEST(DeviceZstd, DecodesSeveralFramesAndSkipsOthers) {
  const bytes first = content_of("text", 70'000), second = content_of("arange", 50'001);
  bytes encoded, content = first;
  const auto append = [](bytes& to, const bytes& more) { to.insert(to.end(), more.begin(), more.end()); };
  bytes skipped(8 + 21, std::byte{7});
  const std::uint32_t head[2] = {0x184d2a53, 21};
  std::memcpy(skipped.data(), head, 8);
  append(encoded, skipped);
  append(encoded, compress(first, {3, true}));
  append(encoded, skipped);
  append(encoded, compress({}, {3, true}));
  append(encoded, compress(second, {7, true, false}));
  append(encoded, skipped);
  append(content, second);
  expect_decodes(encoded, content, "several frames");
}

std::string refusal(std::span<const std::byte> encoded, std::size_t size) {
  bytes out(size);
  const auto done = decode_on_host(kZstd, encoded, out);
  return done.ok() ? "" : done.error().to_string();
}

TEST(DeviceZstd, RefusesAWrongSize) {
  const bytes content = content_of("walk", 100'000);
  for (const bool says : {true, false}) {
    const bytes encoded = compress(content, {3, false, says});
    EXPECT_NE(refusal(encoded, content.size() + 1), "");
    EXPECT_NE(refusal(encoded, content.size() - 1), "");
    EXPECT_NE(refusal(encoded, 0), "");
  }
}

TEST(DeviceZstd, RefusesAWrongChecksum) {
  const bytes content = content_of("walk", 10'000);
  bytes encoded = compress(content, {3, true});
  encoded.back() ^= std::byte{1};
  EXPECT_NE(refusal(encoded, content.size()).find("checksum"), std::string::npos);
}

TEST(DeviceZstd, RefusesTruncatedData) {
  const bytes content = content_of("text", 5'000), encoded = compress(content, {3, true});
  for (std::size_t size = 0; size < encoded.size(); ++size)
    EXPECT_NE(refusal(std::span(encoded).first(size), content.size()), "") << size;
}

// Whether libzstd decodes the bytes to exactly `size` bytes, and the result.
bool libzstd_decodes(const bytes& encoded, bytes& out) {
  const std::size_t made = ZSTD_decompress(out.data(), out.size(), encoded.data(), encoded.size());
  return !ZSTD_isError(made) && made == out.size();
}

TEST(DeviceZstd, DecodesDamagedBytesOnlyAsLibzstdDoes) {
  std::mt19937 random(7);
  int accepted = 0, refused = 0;
  for (const char* kind : kKinds) {
    for (const int level : {-3, 1, 3, 9, 19}) {
      const bytes content = content_of(kind, 6000);
      const bytes encoded = compress(content, {level});
      for (std::uint64_t round = test::cases(150); round-- > 0;) {
        bytes damaged = encoded;
        for (std::uint32_t i = 0; i <= random() % 3; ++i)
          damaged[random() % damaged.size()] ^= std::byte(1u << random() % 8);
        bytes ours(content.size()), theirs(content.size());
        const bool we = decode_on_host(kZstd, damaged, ours).ok();
        const bool they = libzstd_decodes(damaged, theirs);
        ++(we ? accepted : refused);
        if (!we) continue;
        ASSERT_TRUE(they) << kind << " " << level << " " << round;
        ASSERT_EQ(ours, theirs) << kind << " " << level << " " << round;
      }
    }
  }
  EXPECT_GT(accepted, 100);  // literals that changed
  EXPECT_GT(refused, 100);
}

TEST(DeviceZstd, DecodesManyChunksInOneWave) {
  std::vector<bytes> contents, encoded, targets;
  for (std::uint32_t i = 0; i < 70; ++i) {
    contents.push_back(content_of(kKinds[i % 10], 1000 + 977 * i, i));
    encoded.push_back(compress(contents.back(), {static_cast<int>(i % 12), i % 3 == 0}));
    targets.emplace_back(contents.back().size());
  }
  encoded[13].resize(encoded[13].size() - 1);              // refused when it is added
  encoded[24][encoded[24].size() - 2] ^= std::byte{0x10};  // a wrong checksum
  auto wave = decode_wave::make(kZstd);
  ASSERT_TRUE(wave.ok());
  std::vector<std::size_t> added;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const auto done = wave->add({encoded[i], reinterpret_cast<std::uintptr_t>(encoded[i].data()),
                                 reinterpret_cast<std::uintptr_t>(targets[i].data()), targets[i].size()});
    EXPECT_EQ(done.ok(), i != 13);
    if (done.ok()) added.push_back(i);
  }
  const auto statuses = run_wave_on_host(*wave);
  ASSERT_EQ(statuses.size(), added.size());
  for (std::size_t k = 0; k < added.size(); ++k) {
    const std::size_t i = added[k];
    EXPECT_EQ(statuses[k], i == 24 ? static_cast<std::uint32_t>(chunk_status::wrong_checksum) : 0u) << i;
    if (i != 24) {
      EXPECT_TRUE(targets[i] == contents[i]) << i;
    }
  }
}

TEST(DeviceZstd, DecodesAFrameThatBeginsWithARepeatedByte) {
  // In one segment, with a last block that repeats a byte 100 or 5,000 times.
  const std::vector<std::uint8_t> few = {0x28, 0xb5, 0x2f, 0xfd, 0x20, 100, 0x23, 0x03, 0x00, 0x41};
  const std::vector<std::uint8_t> many = {0x28, 0xb5, 0x2f, 0xfd, 0x60, 0x88, 0x12, 0x43, 0x9c, 0x00, 0x41};
  expect_decodes(bytes_of(few), bytes(100, std::byte{0x41}), "100 times a byte");
  expect_decodes(bytes_of(many), bytes(5000, std::byte{0x41}), "5,000 times a byte");
}

// Fewer warps decode a chunk if a wave has many: eight, four, two and one here.
TEST(DeviceZstd, DecodesAChunkByAnyNumberOfWarps) {
  std::vector<bytes> contents, encoded;
  for (std::uint32_t i = 0; i < 20; ++i) {
    contents.push_back(content_of(kKinds[i % 10], i < 10 ? 700 + 97 * i : 20'000 + 1013 * i, i));
    encoded.push_back(compress(contents.back(), {static_cast<int>(i % 6)}));
  }
  // Raw blocks of five bytes more than the ring: their last bytes have the same places in it, by other lanes.
  constexpr std::size_t kPiece = kExecuteRingBytes + 5;
  contents.push_back(content_of("noise", 3 * kPiece));
  encoded.push_back(compress_in_pieces(contents.back(), kPiece, 1));
  for (const std::size_t chunks : {21u, 300u, 600u, 1100u}) {
    auto wave = decode_wave::make(kZstd);
    ASSERT_TRUE(wave.ok());
    std::vector<bytes> targets(chunks);
    const auto which = [](std::size_t i) { return i < 21 ? i : i % 10; };  // the others are short
    for (std::size_t i = 0; i < chunks; ++i) {
      targets[i].resize(contents[which(i)].size());
      const bytes& from = encoded[which(i)];
      ASSERT_TRUE(wave->add({from, reinterpret_cast<std::uintptr_t>(from.data()),
                             reinterpret_cast<std::uintptr_t>(targets[i].data()), targets[i].size()})
                      .ok());
    }
    const auto statuses = run_wave_on_host(*wave);
    for (std::size_t i = 0; i < chunks; ++i) {
      EXPECT_EQ(statuses[i], 0u) << i << " of " << chunks;
      EXPECT_TRUE(targets[i] == contents[which(i)]) << i << " of " << chunks;
    }
  }
}

TEST(DeviceZstd, RefusesDamageByAnyNumberOfWarps) {
  std::mt19937 random(23);
  const bytes filler = content_of("text", 300), filler_encoded = compress(filler, {1});
  std::vector<bytes> encoded;
  std::vector<std::size_t> sizes;
  for (std::uint32_t i = 0; i < 40; ++i) {
    const bytes content = content_of(kKinds[i % 10], 2000 + 97 * i, i);
    encoded.push_back(compress(content, {static_cast<int>(i % 6)}));
    if (i % 4 != 0) encoded.back()[random() % encoded.back().size()] ^= static_cast<std::byte>(1u << random() % 8);
    sizes.push_back(content.size());
  }
  std::vector<std::uint32_t> expected;
  std::vector<bytes> decoded;
  for (const std::size_t chunks : {40u, 300u, 600u, 1100u}) {
    auto wave = decode_wave::make(kZstd);
    ASSERT_TRUE(wave.ok());
    std::vector<bytes> targets(chunks);
    std::vector<std::size_t> added;  // others have damaged headers, which the host refuses
    for (std::size_t i = 0; i < chunks; ++i) {
      const bytes& from = i < encoded.size() ? encoded[i] : filler_encoded;
      targets[i].resize(i < encoded.size() ? sizes[i] : filler.size());
      if (wave->add({from, reinterpret_cast<std::uintptr_t>(from.data()),
                     reinterpret_cast<std::uintptr_t>(targets[i].data()), targets[i].size()})
              .ok())
        added.push_back(i);
    }
    ASSERT_GT(added.size(), chunks - 15);
    std::vector<std::uint32_t> statuses = run_wave_on_host(*wave);
    statuses.resize(static_cast<std::size_t>(std::ranges::lower_bound(added, encoded.size()) - added.begin()));
    if (expected.empty()) {
      expected = statuses;
      decoded = targets;
      EXPECT_GT(std::ranges::count(statuses, 0U), 10);
      EXPECT_LT(std::ranges::count(statuses, 0U), std::ssize(statuses) - 5);
    }
    for (std::size_t k = 0; k < statuses.size(); ++k) {
      EXPECT_EQ(statuses[k] == 0, expected[k] == 0) << added[k] << " of " << chunks;
      EXPECT_TRUE(statuses[k] != 0 || targets[added[k]] == decoded[added[k]]) << added[k] << " of " << chunks;
    }
  }
}

}  // namespace
}  // namespace penstock::inline v0::device
