// liblz4 decodes the output of a warp, which is nearly as small as that of liblz4.

#include "cuda/encode/lz4_encode.h"

#include "cuda/decode/lz_tokens.h"

#include <lz4.h>

#include <memory>

#include "cuda/decode/decode_fixture.h"
#include "cuda/encode/encode_fixture.h"
#include "support/cases.h"

namespace penstock::inline v0::device {
namespace {

// Encodes in one order of the lanes, with shared memory that is not zero at the start. Empty if the space is too small.
bytes encoded(const bytes& content, std::size_t room, lane_order order, std::size_t shift = 0) {
  bytes source(shift), out(shift + room + 1, std::byte{0xee});
  source.insert(source.end(), content.begin(), content.end());
  const encode_part part{reinterpret_cast<std::uintptr_t>(source.data() + shift),
                         reinterpret_cast<std::uintptr_t>(out.data() + shift),
                         static_cast<std::uint32_t>(content.size()), static_cast<std::uint32_t>(room)};
  const auto shared = std::make_unique<lz4_encode_shared>();
  std::memset(static_cast<void*>(shared.get()), 0xa5, sizeof *shared);
  std::uint32_t made = 0;
  const encode_wave wave{reinterpret_cast<std::uintptr_t>(&part), reinterpret_cast<std::uintptr_t>(&made), 1, 0};
  host_lane_order = order;
  encode_lz4_warp(wave, 0, *shared, warp{});
  host_lane_order = lane_order::forward;
  EXPECT_EQ(out.back(), std::byte{0xee}) << "a byte after the output was written";
  if (made == kDoesNotFit) return {};
  EXPECT_LE(made, room);
  return bytes(out.begin() + static_cast<std::ptrdiff_t>(shift),
               out.begin() + static_cast<std::ptrdiff_t>(shift + made));
}

std::size_t size_by_library(const bytes& content) {
  bytes out(static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(content.size()))));
  return static_cast<std::size_t>(LZ4_compress_default(reinterpret_cast<const char*>(content.data()),
                                                       reinterpret_cast<char*>(out.data()),
                                                       static_cast<int>(content.size()), static_cast<int>(out.size())));
}

TEST(Lz4Encode, TheLibraryDecodesItInEveryOrderOfTheLanes) {
  std::size_t shift = 0;
  std::uint32_t turn = 0;
  for (const char* kind : kKinds) {
    for (const std::size_t size : {0u, 1u, 4u, 5u, 12u, 13u, 14u, 31u, 33u, 64u, 100u, 1000u, 65'537u, 200'000u}) {
      const bytes content = content_of(kind, size);
      const bytes first = encoded(content, lz4_bound(size), lane_order::forward, shift++ % 17);
      for (const lane_order order : {lane_order::backward, lane_order::strided}) {
        if (!test::all_cases() && size > 4096 && test::sampled(++turn, 2) != 0) continue;  // the release build runs all
        ASSERT_EQ(encoded(content, lz4_bound(size), order), first) << kind << " " << size;
      }
      bytes back(size + 1);
      ASSERT_EQ(LZ4_decompress_safe(reinterpret_cast<const char*>(first.data()), reinterpret_cast<char*>(back.data()),
                                    static_cast<int>(first.size()), static_cast<int>(size)),
                static_cast<int>(size))
          << kind << " " << size;
      ASSERT_TRUE(std::equal(content.begin(), content.end(), back.begin())) << kind << " " << size;
      expect_decodes(std::array{device_step{step_kind::lz4_block}}, first, content, kind);
    }
  }
}

// All tokens of a block except the last one, which has no match.
std::vector<lz_token> tokens_of(const bytes& block) {
  std::vector<lz_token> out;
  const byte_view view{reinterpret_cast<const std::uint8_t*>(block.data()), static_cast<std::uint32_t>(block.size())};
  for (std::uint32_t at = 0; at < view.size; at = out.back().end) {
    const lz_token token = lz4_token(view, at);
    if (token.end == 0) break;
    out.push_back(token);
  }
  return out;
}

// 300 bytes, a run of one byte, and the 300 bytes again, at the largest offset and next to it.
TEST(Lz4Encode, UsesOffsetsUpToTheLargestAndLengthsOfSeveralBytes) {
  constexpr std::size_t kRepeated = 300;
  const bytes repeated = content_of("noise", kRepeated), rest = content_of("skewed", 20);
  for (const std::uint32_t offset : {kLz4Window - 1, kLz4Window, kLz4Window + 1}) {
    bytes content = repeated;
    content.resize(offset, std::byte{7});
    content.insert(content.end(), repeated.begin(), repeated.end());
    content.insert(content.end(), rest.begin(), rest.end());
    const bytes block = encoded(content, lz4_bound(content.size()), lane_order::forward);
    bytes back(content.size());
    ASSERT_EQ(LZ4_decompress_safe(reinterpret_cast<const char*>(block.data()), reinterpret_cast<char*>(back.data()),
                                  static_cast<int>(block.size()), static_cast<int>(back.size())),
              static_cast<int>(back.size()));
    ASSERT_EQ(back, content) << offset;
    std::uint32_t literals = 0, match = 0, largest = 0;
    for (const lz_token& token : tokens_of(block)) {
      literals = std::max(literals, token.literals);
      match = std::max(match, token.match);
      largest = std::max(largest, token.offset);
    }
    EXPECT_GE(literals, kRepeated);
    EXPECT_GE(match, 65'000U);
    EXPECT_TRUE(offset <= kLz4Window ? largest == offset : largest < 1000) << offset << " " << largest;
  }
}

TEST(Lz4Encode, IsNearlyAsSmallAsTheLibrarysFirstLevel) {
  const auto ratio_to_library = [](const bytes& content) {
    const bytes ours = encoded(content, lz4_bound(content.size()), lane_order::forward);
    return static_cast<double>(size_by_library(content)) / static_cast<double>(ours.size());
  };
  const std::size_t size = test::cases(1'024'000);
  for (const char* kind : kKinds) EXPECT_GE(ratio_to_library(content_of(kind, size)), 0.95) << kind;
  for (const char* kind : kArrays)
    for (const bool shuffled : {false, true})
      EXPECT_GE(ratio_to_library(array_of(kind, size, shuffled)), 0.95) << kind << (shuffled ? ", shuffled" : "");
}

TEST(Lz4Encode, ReportsAnOutputThatIsTooSmall) {
  for (const char* kind : {"noise", "packed", "zeros"}) {
    const bytes content = content_of(kind, 5000);
    const std::size_t needed = encoded(content, lz4_bound(content.size()), lane_order::forward).size();
    EXPECT_EQ(encoded(content, needed, lane_order::forward).size(), needed) << kind;
    for (const std::size_t room : {needed - 1, needed / 2, std::size_t{1}, std::size_t{0}})
      EXPECT_TRUE(encoded(content, room, lane_order::forward).empty()) << kind << " " << room;
  }
}

}  // namespace
}  // namespace penstock::inline v0::device
