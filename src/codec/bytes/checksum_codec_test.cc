// Checksums against values that numcodecs 0.17 computed.

#include "codec/codec_fixture.h"

#include <utility>

namespace penstock::inline v0 {
namespace {

bytes counting(std::size_t size) {
  bytes made(size);
  for (std::size_t i = 0; i < size; ++i) made[i] = static_cast<std::byte>(i * 7 + i / 256);
  return made;
}

struct known_checksum {
  const char* codec;
  std::size_t size;
  std::uint32_t value;
};
constexpr known_checksum kKnown[] = {
    {"adler32", 1, 0x00010001},
    {"adler32", 2, 0x00090008},
    {"adler32", 11, 0x060f0182},
    {"adler32", 12, 0x07de01cf},
    {"adler32", 13, 0x0a010223},
    {"adler32", 255, 0x8a837e88},
    {"adler32", 4096, 0x4624f86a},
    {"adler32", 70001, 0x5c983702},
    {"crc32", 1, 0xd202ef8d},
    {"crc32", 2, 0xdfbd875c},
    {"crc32", 11, 0x7a7b1dba},
    {"crc32", 12, 0xf1a1f32f},
    {"crc32", 13, 0x1524e6ca},
    {"crc32", 255, 0x89b9aecb},
    {"crc32", 4096, 0x462c1e21},
    {"crc32", 70001, 0x14579999},
    {"crc32c", 1, 0x527d5351},
    {"crc32c", 2, 0x25ab1339},
    {"crc32c", 11, 0x54bd0ec8},
    {"crc32c", 12, 0xe52ec13b},
    {"crc32c", 13, 0x6d4dd2d6},
    {"crc32c", 255, 0x71ec6b9c},
    {"crc32c", 4096, 0x162fe1b7},
    {"crc32c", 70001, 0x219bf7cb},
    {"fletcher32", 1, 0x00000000},
    {"fletcher32", 2, 0x00070007},
    {"fletcher32", 11, 0xec31d2af},
    {"fletcher32", 12, 0xec7ed2fc},
    {"fletcher32", 13, 0x137c26fd},
    {"fletcher32", 255, 0xeb9bbf46},
    {"fletcher32", 4096, 0xd356ffff},
    {"fletcher32", 70001, 0xd1c4ecd3},
    {"jenkins_lookup3", 1, 0x8ba9414b},
    {"jenkins_lookup3", 2, 0xb0dbf9ea},
    {"jenkins_lookup3", 11, 0xd8e1dae7},
    {"jenkins_lookup3", 12, 0x4614fb6b},
    {"jenkins_lookup3", 13, 0x9c600351},
    {"jenkins_lookup3", 255, 0x8ec256ab},
    {"jenkins_lookup3", 4096, 0x8dd57589},
    {"jenkins_lookup3", 70001, 0xc611cb0d},
};

TEST(Checksum, EqualsThatOfNumcodecs) {
  worker_scratch scratch;
  for (const known_checksum& known : kKnown) {
    const codec_chain chain = byte_chain(std::string(R"({"name":"numcodecs.)") + known.codec + "\"}", known.size);
    const bytes encoded = encode_all(chain, counting(known.size), scratch);
    ASSERT_EQ(encoded.size(), known.size + 4);
    const bool first = std::string_view(known.codec) == "crc32" || std::string_view(known.codec) == "adler32";
    std::uint32_t stored = 0;
    for (std::size_t i = 4; i-- > 0;) {
      stored = stored << 8 | static_cast<std::uint32_t>(encoded[(first ? 0 : known.size) + i]);
    }
    EXPECT_EQ(stored, known.value) << known.codec << " of " << known.size;
  }
}

TEST(Checksum, ReportsTheStoredAndTheComputedChecksum) {
  worker_scratch scratch;
  const codec_chain chain = byte_chain(R"({"name":"numcodecs.crc32"})", 3);
  bytes encoded = encode_all(chain, counting(3), scratch), out(3);
  encoded[0] ^= std::byte{1};
  const auto done = decode_all(chain, encoded, out, scratch);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().message(), "crc32 of 3 bytes is 57b862d2, stored is 57b862d3");
}

TEST(Checksum, Fletcher32MayHaveTheByteOrderOfOldFilesOfHdf5) {
  worker_scratch scratch;
  const codec_chain chain = byte_chain(R"({"name":"numcodecs.fletcher32"})", 11);
  bytes encoded = encode_all(chain, counting(11), scratch), out(11);
  std::swap(encoded[11], encoded[12]);
  EXPECT_EQ(decode_all(chain, encoded, out, scratch).error().code(), errc::corrupt_data);
  std::swap(encoded[13], encoded[14]);
  EXPECT_TRUE(decode_all(chain, encoded, out, scratch).ok());
  EXPECT_EQ(out, counting(11));
}

TEST(Checksum, KeepsTheSizeFixed) {
  for (const char* codec : {"adler32", "crc32", "crc32c", "fletcher32", "jenkins_lookup3"}) {
    EXPECT_TRUE(byte_chain(std::string(R"({"name":"numcodecs.)") + codec + "\"}", 9).fixed_size()) << codec;
  }
}

TEST(Checksum, RefusesUnknownSettings) {
  for (const char* codecs : {R"(["bytes",{"name":"numcodecs.crc32","configuration":{"location":"middle"}}])",
                             R"(["bytes",{"name":"crc32c","configuration":{"location":"start"}}])",
                             R"(["bytes",{"name":"numcodecs.fletcher32","configuration":{"location":"end"}}])",
                             R"(["bytes",{"name":"numcodecs.jenkins_lookup3","configuration":{"prefix":"x"}}])"}) {
    EXPECT_FALSE(compile(codecs, "uint8", {4}).ok()) << codecs;
  }
}

}  // namespace
}  // namespace penstock::inline v0
