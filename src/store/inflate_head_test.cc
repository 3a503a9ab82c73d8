#include "store/inflate_head.h"

#include <gtest/gtest.h>
#include <libdeflate.h>
#include <penstock/config.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace penstock::inline v0 {
namespace {

std::vector<std::byte> deflate(std::span<const std::byte> plain, int level) {
  libdeflate_compressor* const with = libdeflate_alloc_compressor(level);
  std::vector<std::byte> out(libdeflate_deflate_compress_bound(with, plain.size()));
  out.resize(libdeflate_deflate_compress(with, plain.data(), plain.size(), out.data(), out.size()));
  libdeflate_free_compressor(with);
  return out;
}

// Runs, text or noise, so that zlib writes stored blocks, and blocks of fixed and of dynamic codes.
std::vector<std::byte> bytes_of(unsigned kind, std::size_t size) {
  std::mt19937 rng(kind);
  std::vector<std::byte> out(size);
  for (std::size_t i = 0; i < size; ++i) {
    const auto noise = static_cast<unsigned>(rng());
    out[i] = static_cast<std::byte>(kind == 0   ? 7U
                                    : kind == 1 ? noise
                                    : kind == 2 ? noise % 5
                                                : i % 1000 / 10 + noise % 2);
  }
  return out;
}

TEST(InflateHead, DecodesTheBeginningOfTheStream) {
  for (const unsigned kind : {0U, 1U, 2U, 3U}) {
    for (const std::size_t size : {0U, 1U, 100U, 5000U, 200000U}) {
      const std::vector<std::byte> plain = bytes_of(kind, size);
      for (const int level : {0, 1, 6, 12}) {
        const std::vector<std::byte> encoded = deflate(plain, level);
        for (const std::size_t head : {0U, 1U, 64U, 128U, 4096U, 70000U, 200000U}) {
          if (head > size) {
            std::vector<std::byte> out(head);
            EXPECT_FALSE(inflate_head(encoded, out)) << kind << " " << size << " " << level << " " << head;
            continue;
          }
          std::vector<std::byte> out(head);
          ASSERT_TRUE(inflate_head(encoded, out)) << kind << " " << size << " " << level << " " << head;
          EXPECT_TRUE(std::equal(out.begin(), out.end(), plain.begin())) << kind << " " << size << " " << level;
        }
      }
    }
  }
}

TEST(InflateHead, NeedsNoMoreThanTheHeadsOwnBytes) {
  const std::vector<std::byte> plain = bytes_of(3, 200000);
  const std::vector<std::byte> encoded = deflate(plain, 6);
  std::vector<std::byte> out(128);
  EXPECT_TRUE(inflate_head(std::span(encoded).first(4096), out));
  EXPECT_FALSE(inflate_head(std::span(encoded).first(3), out));
  for (std::size_t n = 0; n < 600; ++n) (void)inflate_head(std::span(encoded).first(n), out);
}

TEST(InflateHead, AgreesWithTheDecoderOnDamagedStreamsOrFails) {
  const std::vector<std::byte> plain = bytes_of(2, 3000);
  std::vector<std::byte> whole(plain.size());
  std::mt19937 rng(5);
  libdeflate_decompressor* const with = libdeflate_alloc_decompressor();
  unsigned agreed = 0;
  for (int i = 0; i < 4000; ++i) {
    std::vector<std::byte> encoded = deflate(plain, i % 2 == 0 ? 1 : 9);
    encoded[rng() % encoded.size()] ^= static_cast<std::byte>(1U << rng() % 8);
    std::vector<std::byte> out(plain.size());
    if (!inflate_head(encoded, out)) continue;
    if (libdeflate_deflate_decompress(with, encoded.data(), encoded.size(), whole.data(), whole.size(), nullptr) !=
        LIBDEFLATE_SUCCESS)
      continue;
    EXPECT_EQ(out, whole);
    ++agreed;
  }
  libdeflate_free_decompressor(with);
  EXPECT_GT(agreed, 100U);
}

}  // namespace
}  // namespace penstock::inline v0
