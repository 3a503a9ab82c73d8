// The device's decoder of LZ4 frames on the host, against liblz4.

#include <lz4frame.h>

#include "cuda/decode/decode_fixture.h"
#include "support/cases.h"

namespace penstock::inline v0::device {
namespace {

const device_step kFrame[] = {{step_kind::lz4_frame}};

bytes frame_of(const bytes& content, const LZ4F_preferences_t& how) {
  bytes out(LZ4F_compressFrameBound(content.size(), &how));
  const std::size_t made = LZ4F_compressFrame(out.data(), out.size(), content.data(), content.size(), &how);
  EXPECT_FALSE(LZ4F_isError(made)) << LZ4F_getErrorName(made);
  out.resize(made);
  return out;
}

// The library's result for adjacent frames.
bool library_decodes(const bytes& encoded, bytes& out) {
  LZ4F_dctx* context = nullptr;
  LZ4F_createDecompressionContext(&context, LZ4F_VERSION);
  std::size_t at = 0, made = 0, wanted = 1;
  while (at < encoded.size()) {
    std::size_t from = encoded.size() - at, to = out.size() - made;
    wanted = LZ4F_decompress(context, out.data() + made, &to, encoded.data() + at, &from, nullptr);
    if (LZ4F_isError(wanted) || (from == 0 && to == 0)) break;
    at += from;
    made += to;
  }
  LZ4F_freeDecompressionContext(context);
  return !LZ4F_isError(wanted) && wanted == 0 && at == encoded.size() && made == out.size();
}

TEST(DeviceLz4Frame, DecodesEveryFlagAndBlockSize) {
  std::uint32_t turn = 0;
  for (const char* kind : kKinds)
    for (const LZ4F_blockSizeID_t size : {LZ4F_max64KB, LZ4F_max256KB, LZ4F_max4MB})
      for (const LZ4F_blockMode_t mode : {LZ4F_blockLinked, LZ4F_blockIndependent})
        for (const unsigned checks : {0u, 1u, 2u, 3u})
          // More than one block of the smallest size; with the larger sizes, one block holds all.
          for (const std::size_t bytes_in : {0u, 1u, 60u, size == LZ4F_max64KB ? 200'001u : 20'001u}) {
            if (!test::all_cases() && bytes_in > 60 && test::sampled(++turn, 3) != 0) continue;  // release runs all
            LZ4F_preferences_t how{};
            how.frameInfo.blockSizeID = size;
            how.frameInfo.blockMode = mode;
            how.frameInfo.blockChecksumFlag = (checks & 1) != 0 ? LZ4F_blockChecksumEnabled : LZ4F_noBlockChecksum;
            how.frameInfo.contentChecksumFlag =
                (checks & 2) != 0 ? LZ4F_contentChecksumEnabled : LZ4F_noContentChecksum;
            how.frameInfo.contentSize = (checks & 1) != 0 ? bytes_in : 0;
            how.compressionLevel = checks == 3 ? 9 : 0;
            const bytes content = content_of(kind, bytes_in);
            expect_decodes(kFrame, frame_of(content, how), content,
                           kind + std::string(" blocks ") + std::to_string(size) + " mode " + std::to_string(mode) +
                               " checks " + std::to_string(checks) + " size " + std::to_string(bytes_in));
          }
}

TEST(DeviceLz4Frame, DecodesSeveralFramesAndSkipsSkippableOnes) {
  const bytes first = content_of("text", 70'000), second = content_of("walk", 9000);
  LZ4F_preferences_t how{};
  how.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;
  bytes encoded = frame_of(first, how), content = first;
  for (const int byte : {0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 9, 9, 9}) encoded.push_back(static_cast<std::byte>(byte));
  const bytes more = frame_of(second, how);
  encoded.insert(encoded.end(), more.begin(), more.end());
  content.insert(content.end(), second.begin(), second.end());
  expect_decodes(kFrame, encoded, content, "frames");
  bytes out(content.size());
  EXPECT_TRUE(library_decodes(encoded, out));
}

TEST(DeviceLz4Frame, DecodesDamagedBytesOnlyAsTheLibraryDoes) {
  std::mt19937 random(11);
  for (const char* kind : kKinds)
    for (const unsigned checks : {0u, 3u}) {
      LZ4F_preferences_t how{};
      how.frameInfo.blockChecksumFlag = checks != 0 ? LZ4F_blockChecksumEnabled : LZ4F_noBlockChecksum;
      how.frameInfo.contentChecksumFlag = checks != 0 ? LZ4F_contentChecksumEnabled : LZ4F_noContentChecksum;
      const bytes content = content_of(kind, 3000), encoded = frame_of(content, how);
      for (std::uint64_t round = test::cases(200); round-- > 0;) {
        bytes damaged = encoded;
        for (std::uint32_t i = 0; i <= random() % 3; ++i)
          damaged[random() % damaged.size()] ^= std::byte(1u << random() % 8);
        if (round % 4 == 0) damaged.resize(random() % damaged.size());
        bytes ours(content.size()), theirs(content.size());
        if (!decode_on_host(kFrame, damaged, ours).ok()) continue;
        ASSERT_TRUE(library_decodes(damaged, theirs)) << kind << " round " << round;
        ASSERT_EQ(ours, theirs) << kind << " round " << round;
      }
    }
}

TEST(DeviceLz4Frame, IsAlsoRecognisedUnderTheNameLz4) {
  const bytes content = content_of("text", 500), encoded = frame_of(content, {});
  EXPECT_EQ(step_of_codec("lz4", encoded, content.size())->kind, step_kind::lz4_frame);
  EXPECT_EQ(step_of_codec("lz4", encoded, 0x184D2204u)->kind, step_kind::lz4);
  EXPECT_EQ(step_of_codec("lz4", {}, 0)->kind, step_kind::lz4);
}

}  // namespace
}  // namespace penstock::inline v0::device
