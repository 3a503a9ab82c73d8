// Bytes that no encoder wrote, for each codec: each input is refused as corrupt, and nothing outside of the target is
// written. Tests for every codec are in tests/contract/codec_contract.h.

#include <gtest/gtest.h>
#include <libdeflate.h>
#include <zstd.h>

#include <algorithm>
#include <memory>

#include "codec/codec_fixture.h"

namespace penstock::inline v0 {
namespace {

constexpr std::size_t kSize = 1531;

TEST(HostileCodec, RefusesOrSurvivesFlippedBits) {
  worker_scratch scratch;
  guarded_decode decode;
  for (const std::string& text : byte_codec_texts()) {
    const codec_chain chain = byte_chain(text, kSize);
    const bytes cell = smooth_bytes(kSize, 4), encoded = encode_all(chain, cell, scratch);
    const bool checked =
        text.find("32") != text.npos || text.find("gzip") != text.npos || text.find("\"checksum\":true") != text.npos;
    std::mt19937_64 random(5);
    for (int i = 0; i < 3000; ++i) {
      bytes damaged = encoded;
      for (std::uint64_t flips = random() % 3 + 1; flips > 0; --flips) {
        // Half of them in the first bytes, which hold the sizes.
        const std::size_t at =
            random() % (random() % 2 == 0 ? std::min<std::size_t>(32, encoded.size()) : encoded.size());
        damaged[at] ^= std::byte{1} << random() % 8;
      }
      const bool accepted = decode(chain, damaged, scratch).ok();
      // A checksum detects all damage; fields that it does not cover (a gzip header's time stamp) do not affect
      // content.
      if (accepted && checked) {
        ASSERT_EQ(decode.content(), cell) << text;
      }
    }
  }
}

const std::string kZstd = R"({"name":"zstd","configuration":{"level":0}})";
const std::string kGzip = R"({"name":"gzip","configuration":{"level":5}})";
const std::string kBlosc =
    R"({"name":"blosc","configuration":{"cname":"lz4","clevel":5,"shuffle":"shuffle","typesize":4,"blocksize":256}})";

bytes of(std::initializer_list<int> values) {
  bytes made;
  for (const int value : values) made.push_back(static_cast<std::byte>(value));
  return made;
}

bytes operator+(bytes a, const bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string refusal(const std::string& codec, std::size_t size, const bytes& encoded) {
  worker_scratch scratch;
  const auto done = guarded_decode()(byte_chain(codec, size), encoded, scratch);
  return done.ok() ? "" : done.error().message();
}

void expect_content(const std::string& codec, const bytes& encoded, const bytes& expected) {
  worker_scratch scratch;
  guarded_decode decode;
  const auto done = decode(byte_chain(codec, expected.size()), encoded, scratch);
  ASSERT_TRUE(done.ok()) << done.error().to_string();
  EXPECT_EQ(decode.content(), expected);
}

bytes zstd_frame(const bytes& content) {
  bytes made(ZSTD_compressBound(content.size()));
  made.resize(ZSTD_compress(made.data(), made.size(), content.data(), content.size(), 1));
  return made;
}

bytes zstd_frame_without_size(const bytes& content) {
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(), ZSTD_freeCCtx);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_contentSizeFlag, 0);
  bytes made(ZSTD_compressBound(content.size()));
  made.resize(ZSTD_compress2(context.get(), made.data(), made.size(), content.data(), content.size()));
  EXPECT_EQ(ZSTD_getFrameContentSize(made.data(), made.size()), ZSTD_CONTENTSIZE_UNKNOWN);
  return made;
}

TEST(HostileCodec, ReadsZstdFramesOfEveryKind) {
  const bytes a = smooth_bytes(700, 1), b = smooth_bytes(900, 2);
  const bytes skippable = of({0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 7, 7, 7});
  expect_content(kZstd, zstd_frame_without_size(a), a);
  expect_content(kZstd, zstd_frame(a) + zstd_frame(b), a + b);
  expect_content(kZstd, skippable + zstd_frame(a) + skippable + zstd_frame_without_size(b) + skippable, a + b);
  expect_content(kZstd, zstd_frame({}) + zstd_frame(a) + zstd_frame({}), a);
}

TEST(HostileCodec, RefusesZstdFramesOfTheWrongSize) {
  const bytes a = smooth_bytes(700, 1);
  EXPECT_EQ(refusal(kZstd, 701, zstd_frame(a)), "chunk decoded to 700 bytes, its shape needs 701");
  EXPECT_EQ(refusal(kZstd, 699, zstd_frame(a)), "zstd frame declares 700 decoded bytes, the output has room for 699");
  EXPECT_EQ(refusal(kZstd, 699, zstd_frame_without_size(a)), "zstd frame decodes to more than 699 bytes");
  EXPECT_EQ(refusal(kZstd, 1399, zstd_frame(a) + zstd_frame(a)),
            "zstd frame declares 700 decoded bytes, the output has room for 699");
  EXPECT_EQ(refusal(kZstd, 700, {}), "zstd frame is damaged (no bytes)");
  EXPECT_EQ(refusal(kZstd, 700, of({0x53, 0x2a, 0x4d, 0x18, 0, 0, 0, 0})),
            "chunk decoded to 0 bytes, its shape needs 700");
}

TEST(HostileCodec, AllocatesNothingForAZstdFramesSizes) {
  ledger accounts(1 << 20, 0);
  worker_scratch scratch(&accounts);
  bytes out(5);
  const codec_chain chain = byte_chain(kZstd, 5);
  // A window of 2 GiB (descriptor 0xa8), no content size, one raw block of 5 bytes.
  const bytes wide = of({0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x29, 0, 0, 1, 2, 3, 4, 5});
  ASSERT_TRUE(decode_all(chain, wide, out, scratch).ok());
  EXPECT_EQ(out, of({1, 2, 3, 4, 5}));
  // A content size of 2^63.
  const bytes huge = of({0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x29, 0, 0, 1, 2, 3, 4, 5});
  const auto done = decode_all(chain, huge, out, scratch);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), errc::corrupt_data);
  EXPECT_LT(accounts.peak(memory_use::scratch), 300'000u);
}

TEST(HostileCodec, RefusesZstdFormatsBeforeItsFirstRelease) {
  for (int version = 0x22; version <= 0x27; ++version) {
    EXPECT_EQ(refusal(kZstd, 10, of({version, 0xb5, 0x2f, 0xfd, 0, 0, 0, 0, 0, 0})),
              "zstd frame is damaged (no zstd magic number)");
  }
}

TEST(HostileCodec, RefusesZstdFramesThatNeedADictionary) {
  const bytes frame = of({0x28, 0xb5, 0x2f, 0xfd, 0x21, 7, 5, 0x29, 0, 0, 1, 2, 3, 4, 5});
  EXPECT_EQ(refusal(kZstd, 5, frame), "zstd frame is damaged (Dictionary mismatch)");
}

bytes gzip_member(const bytes& content) {
  const std::unique_ptr<libdeflate_compressor, decltype(&libdeflate_free_compressor)> context(
      libdeflate_alloc_compressor(6), libdeflate_free_compressor);
  bytes made(libdeflate_gzip_compress_bound(context.get(), content.size()));
  made.resize(libdeflate_gzip_compress(context.get(), content.data(), content.size(), made.data(), made.size()));
  return made;
}

TEST(HostileCodec, ReadsGzipStreamsOfSeveralMembers) {
  const bytes a = smooth_bytes(700, 1), b = smooth_bytes(900, 2);
  expect_content(kGzip, gzip_member(a) + gzip_member(b), a + b);
  expect_content(kGzip, gzip_member({}) + gzip_member(a) + gzip_member({}) + bytes(10), a);
  expect_content(kGzip, gzip_member({}), {});
  // A member with an extra field, a name, a comment and a header checksum.
  bytes named = gzip_member(a);
  named[3] = std::byte{0x1c};
  const bytes fields = of({2, 0, 'x', 'y', 'n', 0, 'c', 0});
  named.insert(named.begin() + 10, fields.begin(), fields.end());
  expect_content(kGzip, named, a);
}

TEST(HostileCodec, RefusesGzipStreamsOfTheWrongSize) {
  const bytes a = smooth_bytes(700, 1);
  EXPECT_EQ(refusal(kGzip, 701, gzip_member(a)), "chunk decoded to 700 bytes, its shape needs 701");
  EXPECT_EQ(refusal(kGzip, 699, gzip_member(a)), "gzip stream decodes to more than 699 bytes");
  EXPECT_EQ(refusal(kGzip, 1399, gzip_member(a) + gzip_member(a)), "gzip stream decodes to more than 1399 bytes");
  EXPECT_EQ(refusal(kGzip, 700, {}), "gzip stream is damaged or ends early, in the member at byte 0");
  const std::size_t first = gzip_member(a).size();
  EXPECT_EQ(refusal(kGzip, 700, gzip_member(a) + of({0, 0, 1})),
            "gzip stream is damaged or ends early, in the member at byte " + std::to_string(first));
}

class HostileBlosc : public testing::Test {
 protected:
  void SetUp() override {
    worker_scratch scratch;
    const bytes content = smooth_bytes(4096, 1);
    frame_ = encode_all(byte_chain(kBlosc, 4096), content, scratch);
    expect_content(kBlosc, frame_, content);
    ASSERT_LT(frame_.size(), 3000u);
  }
  std::string with(std::size_t at, std::uint32_t value, int width) {
    bytes changed = frame_;
    for (int i = 0; i < width; ++i) changed[at + i] = static_cast<std::byte>(value >> (8 * i));
    return refusal(kBlosc, 4096, changed);
  }
  bytes frame_;
};

TEST_F(HostileBlosc, HeadersAreRefusedWithTheReason) {
  const std::string length = std::to_string(frame_.size());
  EXPECT_EQ(with(0, 5, 1), "blosc frame has format version 5, only 2 can be read");
  EXPECT_EQ(with(3, 0, 1), "blosc frame has items of 0 bytes");
  EXPECT_EQ(with(4, 4097, 4), "blosc frame declares 4097 decoded bytes, the output has room for 4096");
  EXPECT_EQ(with(4, 0xffffffff, 4), "blosc frame declares 4294967295 decoded bytes, the output has room for 4096");
  EXPECT_EQ(with(4, 0, 4), "chunk decoded to 0 bytes, its shape needs 4096");
  EXPECT_EQ(with(8, 0, 4), "blosc frame has blocks of 0 bytes, it decodes to 4096");
  EXPECT_EQ(with(8, 4097, 4), "blosc frame has blocks of 4097 bytes, it decodes to 4096");
  EXPECT_EQ(with(8, 0x80000000, 4), "blosc frame has blocks of 2147483648 bytes, it decodes to 4096");
  EXPECT_EQ(with(8, 1, 4), "blosc frame of " + length + " bytes has no room for the offsets of 4096 blocks");
  EXPECT_EQ(with(12, 16, 4), "blosc frame declares 16 bytes, it has " + length);
  EXPECT_EQ(with(2, 0x02, 1), "blosc frame of " + length + " bytes declares a plain copy of 4096");
  EXPECT_EQ(with(16, 0, 4), "blosc frame of " + length + " bytes has block 0 at byte 0");
  EXPECT_EQ(with(16, 0xfffffff0, 4), "blosc frame of " + length + " bytes has block 0 at byte 4294967280");
  EXPECT_EQ(refusal(kBlosc, 4096, bytes(frame_.begin(), frame_.begin() + 15)),
            "blosc frame has 15 bytes, its header alone has 16");
  EXPECT_EQ(refusal(kBlosc, 4096, {}), "blosc frame has 0 bytes, its header alone has 16");
}

TEST_F(HostileBlosc, CompressorsFromTheFutureAreRefused) {
  for (const int format : {5, 6, 7}) {
    const auto flags = static_cast<std::uint32_t>(frame_[2]) & 0x1f;
    EXPECT_EQ(with(2, flags | format << 5, 1),
              "blosc frame has compressor format " + std::to_string(format) + ", the last known is 4");
  }
}

TEST(HostileCodec, RefusesZstdFormatsBeforeItsFirstReleaseInsideBlosc) {
  const bytes modern = zstd_frame(bytes(200));
  const auto frame = [](const bytes& split) {
    bytes made = of({2, 1, 0x80, 1, 200, 0, 0, 0, 200, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0});
    made = made + of({static_cast<int>(split.size()), 0, 0, 0}) + split;
    made[12] = static_cast<std::byte>(made.size());
    return made;
  };
  const std::string at = std::to_string(modern.size()) + " bytes at byte 24)";
  expect_content(kBlosc, frame(modern), bytes(200));
  for (int version = 0x22; version <= 0x27; ++version) {
    bytes old = modern;
    old[0] = static_cast<std::byte>(version);
    EXPECT_EQ(refusal(kBlosc, 200, frame(old)), "blosc frame is damaged (no zstd frame of " + at);
  }
  const bytes two = zstd_frame(bytes(100)) + zstd_frame(bytes(100));
  EXPECT_NE(refusal(kBlosc, 200, frame(two)), "");
  bytes cut = frame(modern);
  cut[20] = std::byte{0xff};
  EXPECT_EQ(refusal(kBlosc, 200, cut), "blosc frame is damaged (a split has 255 bytes)");
}

// c-blosc 1.21.3 then leaves the end of each block unwritten, which only the sum reveals.
TEST_F(HostileBlosc, SplitsThatDoNotFillABlockAreRefused) {
  // One block of 1000 bytes in 7 splits of 142.
  bytes frame = of({2, 1, 0x21, 7, 0xe8, 3, 0, 0, 0xe8, 3, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0});
  for (int split = 0; split < 7; ++split) frame = frame + of({142, 0, 0, 0}) + bytes(142, std::byte{1});
  frame[12] = static_cast<std::byte>(frame.size());
  frame[13] = static_cast<std::byte>(frame.size() >> 8);
  EXPECT_EQ(refusal(kBlosc, 1000, frame), "blosc frame is damaged (c-blosc returned 994, expected 1000 bytes)");
}

}  // namespace
}  // namespace penstock::inline v0
