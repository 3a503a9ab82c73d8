// libzstd and our own decoder decode the output of a warp, which is nearly as small as that of libzstd.

#include "cuda/encode/zstd_encode.h"

#include <zstd.h>

#include <memory>

#include "cuda/decode/decode_fixture.h"
#include "cuda/encode/encode_fixture.h"
#include "support/cases.h"

namespace penstock::inline v0::device {
namespace {

// Encodes in one order of the lanes, with memory that is not zero at the start. Empty if the space is too small.
bytes encoded(const bytes& content, std::size_t room, lane_order order, std::size_t shift = 0, bool checksum = false) {
  bytes source(shift), out(shift + room + 1, std::byte{0xee});
  source.insert(source.end(), content.begin(), content.end());
  const encode_part part{reinterpret_cast<std::uintptr_t>(source.data() + shift),
                         reinterpret_cast<std::uintptr_t>(out.data() + shift),
                         static_cast<std::uint32_t>(content.size()), static_cast<std::uint32_t>(room)};
  const auto shared = std::make_unique<zstd_encode_shared>();
  const auto workspace = std::make_unique<zstd_encode_workspace>();
  std::memset(static_cast<void*>(shared.get()), 0xa5, sizeof *shared);
  std::memset(static_cast<void*>(workspace.get()), 0x5a, sizeof *workspace);
  std::uint32_t made = 0;
  const zstd_encode_wave wave{{reinterpret_cast<std::uintptr_t>(&part), reinterpret_cast<std::uintptr_t>(&made), 1, 0},
                              reinterpret_cast<std::uintptr_t>(workspace.get()),
                              checksum ? 1u : 0u,
                              0};
  host_lane_order = order;
  encode_zstd_warp(wave, 0, *shared, warp{});
  host_lane_order = lane_order::forward;
  EXPECT_EQ(out.back(), std::byte{0xee}) << "a byte after the output was written";
  if (made == kDoesNotFit) return {};
  EXPECT_LE(made, room);
  return bytes(out.begin() + static_cast<std::ptrdiff_t>(shift),
               out.begin() + static_cast<std::ptrdiff_t>(shift + made));
}

std::size_t size_by_library(const bytes& content) {
  bytes out(ZSTD_compressBound(content.size()));
  return ZSTD_compress(out.data(), out.size(), content.data(), content.size(), 1);
}

void expect_both_decode(const bytes& made, const bytes& content, const std::string& what) {
  bytes back(content.size() + 1);
  const std::size_t size = ZSTD_decompress(back.data(), back.size(), made.data(), made.size());
  ASSERT_FALSE(ZSTD_isError(size)) << what << ": " << ZSTD_getErrorName(size);
  ASSERT_EQ(size, content.size()) << what;
  ASSERT_TRUE(std::equal(content.begin(), content.end(), back.begin())) << what;
  ASSERT_EQ(ZSTD_getFrameContentSize(made.data(), made.size()), content.size()) << what;
  ASSERT_NO_FATAL_FAILURE(expect_decodes(std::array{device_step{step_kind::zstd}}, made, content, what));
}

TEST(ZstdEncode, BothDecodersReadItInEveryOrderOfTheLanes) {
  std::size_t shift = 0;
  std::uint32_t turn = 0;
  for (const char* kind : kKinds) {
    for (const std::size_t size : {0u, 1u, 2u, 4u, 5u, 31u, 100u, 255u, 256u, 1024u, 5000u, 65'791u, 65'792u, 131'072u,
                                   131'073u, 262'145u, 300'000u}) {
      if (!test::all_cases() && size > 131'073) continue;  // blocks like those before
      const std::string what = std::string(kind) + " " + std::to_string(size);
      const bytes content = content_of(kind, size);
      const bool checksum = shift % 2 != 0;
      const bytes first = encoded(content, zstd_bound(size), lane_order::forward, shift++ % 17, checksum);
      for (const lane_order order : {lane_order::backward, lane_order::strided}) {
        if (!test::all_cases() && size > 4096 && test::sampled(++turn, 2) != 0) continue;  // the release build runs all
        ASSERT_EQ(encoded(content, zstd_bound(size), order, 0, checksum), first) << what;
      }
      ASSERT_NO_FATAL_FAILURE(expect_both_decode(first, content, what));
    }
  }
}

TEST(ZstdEncode, BothDecodersReadEverySmallSize) {
  for (const char* kind : {"skewed", "text", "period7", "packed"}) {
    for (std::size_t size = 0; size < 700; size += test::all_cases() || size < 70 ? 1 : 7) {
      const bytes content = content_of(kind, size);
      const bytes made = encoded(content, zstd_bound(size), lane_order::forward, size % 9, size % 3 == 0);
      ASSERT_NO_FATAL_FAILURE(expect_both_decode(made, content, std::string(kind) + " " + std::to_string(size)));
    }
  }
}

TEST(ZstdEncode, MatchesReachIntoThePreviousBlock) {
  const bytes once = content_of("noise", 3000);
  bytes content(kMostBlockBytes);
  std::copy(once.begin(), once.end(), content.end() - 3000);
  content.insert(content.end(), once.begin(), once.end());
  const bytes made = encoded(content, zstd_bound(content.size()), lane_order::forward);
  EXPECT_LT(made.size(), 3200u);
  expect_both_decode(made, content, "a repeat across blocks");
}

// On arrays, the encoder must save at least 0.85 of the bytes that the library saves at its first level, for both
// sizes.
TEST(ZstdEncode, IsNearlyAsSmallAsTheLibrarysFirstLevel) {
  const auto ratio_to_library = [](const bytes& content) {
    const bytes ours = encoded(content, zstd_bound(content.size()), lane_order::forward);
    return static_cast<double>(size_by_library(content)) / static_cast<double>(ours.size());
  };
  const std::size_t size = test::cases(1'024'000);
  for (const char* kind : kKinds) EXPECT_GE(ratio_to_library(content_of(kind, size)), 0.85) << kind;
  for (const char* kind : kArrays)
    for (const bool shuffled : {false, true})
      EXPECT_GE(ratio_to_library(array_of(kind, size, shuffled)), 0.85) << kind << (shuffled ? ", shuffled" : "");
}

TEST(ZstdEncode, ReportsAnOutputThatIsTooSmall) {
  for (const char* kind : {"noise", "packed", "zeros"}) {
    const bytes content = content_of(kind, 5000);
    const std::size_t needed = encoded(content, zstd_bound(content.size()), lane_order::forward).size();
    EXPECT_EQ(encoded(content, needed, lane_order::forward).size(), needed) << kind;
    for (std::size_t room = 0; room < needed; room += 1 + room / 20)
      EXPECT_TRUE(encoded(content, room, lane_order::forward).empty()) << kind << " " << room;
    EXPECT_TRUE(encoded(content, needed - 1, lane_order::forward).empty()) << kind;
  }
}

}  // namespace
}  // namespace penstock::inline v0::device
