#include "codec/bytes/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string_view>

#include "codec/codec_fixture.h"

namespace penstock::inline v0 {
namespace {

std::span<const std::byte> as_span(std::string_view text) { return std::as_bytes(std::span(text)); }

std::uint32_t bit_by_bit(std::span<const std::byte> content) {
  std::uint32_t rest = 0xffffffff;
  for (const std::byte b : content) {
    rest ^= static_cast<std::uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest & 1 ? 0x82f63b78 : 0);
  }
  return ~rest;
}

TEST(Crc32c, EqualsTheVectorsOfRfc3720) {
  bytes content(32, std::byte{0});
  const auto expect = [&](std::uint32_t value) {
    EXPECT_EQ(crc32c(content), value);
    EXPECT_EQ(crc32c_portable(content), value);
  };
  expect(0x8a9136aa);
  std::fill(content.begin(), content.end(), std::byte{0xff});
  expect(0x62a8ab43);
  for (std::size_t i = 0; i < 32; ++i) content[i] = static_cast<std::byte>(i);
  expect(0x46dd794e);
  std::reverse(content.begin(), content.end());
  expect(0x113fdb5c);
  const unsigned char command[48] = {0x01, 0xc0, 0, 0, 0, 0, 0,    0, 0,    0, 0, 0,    0, 0, 0, 0,
                                     0x14, 0,    0, 0, 0, 0, 0x04, 0, 0,    0, 0, 0x14, 0, 0, 0, 0x18,
                                     0x28, 0,    0, 0, 0, 0, 0,    0, 0x02, 0, 0, 0,    0, 0, 0, 0};
  content.assign(reinterpret_cast<const std::byte*>(command), reinterpret_cast<const std::byte*>(command) + 48);
  expect(0xd9963a56);
  EXPECT_EQ(crc32c(as_span("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c({}), 0u);
}

TEST(Crc32c, IsTheSameByInstructionByTablesAndByBits) {
  const bytes content = random_bytes(70'000, 1);
  for (const std::size_t size :
       {0, 1, 7, 8, 9, 63, 127, 383, 384, 385, 767, 768, 6143, 6144, 6145, 12288, 13000, 69'990}) {
    for (const std::size_t offset : {0, 1, 3, 8}) {
      const auto part = std::span(content).subspan(offset, size);
      const std::uint32_t expected = bit_by_bit(part);
      ASSERT_EQ(crc32c_portable(part), expected) << size;
      ASSERT_EQ(crc32c(part), expected) << size;
    }
  }
}

TEST(Crc32c, ContinuesFromTheBytesBefore) {
  const bytes content = random_bytes(20'000, 2);
  const std::uint32_t whole = crc32c(content);
  for (const std::size_t cut : {0, 1, 100, 6144, 19'999, 20'000}) {
    const auto head = std::span(content).first(cut), tail = std::span(content).subspan(cut);
    EXPECT_EQ(crc32c(tail, crc32c(head)), whole);
    EXPECT_EQ(crc32c_portable(tail, crc32c_portable(head)), whole);
  }
}

TEST(Crc32c, IsStoredLittleEndianAfterTheContent) {
  const codec_chain chain = byte_chain(R"("crc32c")", 9);
  worker_scratch scratch;
  const auto text = as_span("123456789");
  const bytes encoded = encode_all(chain, bytes(text.begin(), text.end()), scratch);
  const bytes tail(encoded.begin() + 9, encoded.end());
  EXPECT_EQ(tail, (bytes{std::byte{0x83}, std::byte{0x92}, std::byte{0x06}, std::byte{0xe3}}));
  EXPECT_EQ(chain.max_encoded_bytes(), 13u);
}

TEST(Crc32c, NamesBothChecksumsIfTheyDiffer) {
  const codec_chain chain = byte_chain(R"("crc32c")", 9);
  worker_scratch scratch;
  const auto text = as_span("123456789");
  bytes encoded = encode_all(chain, bytes(text.begin(), text.end()), scratch);
  encoded.back() ^= std::byte{0x10};
  bytes out(9);
  const auto done = decode_all(chain, encoded, out, scratch);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), errc::corrupt_data);
  EXPECT_EQ(done.error().message(), "crc32c of 9 bytes is e3069283, stored is f3069283");
  EXPECT_EQ(done.error().notes().at(0), "decoding with crc32c");
}

}  // namespace
}  // namespace penstock::inline v0
