// Chunks that record which of their codecs were applied (zarr-extensions, codecs/conditional).

#include <algorithm>

#include "codec/codec_fixture.h"

namespace penstock::inline v0 {
namespace {

constexpr std::size_t kBytes = 600;
constexpr const char* kShuffle = R"({"name":"numcodecs.shuffle","configuration":{"elementsize":2}})";
constexpr const char* kGzip = R"({"name":"gzip","configuration":{"level":1}})";
constexpr const char* kCrc = R"("crc32c")";

std::string conditional(const std::string& codecs, const std::string& more = "") {
  return R"({"name":"conditional","configuration":{"codecs":[)" + codecs + "]" + more + "}}";
}

std::string refused(const std::string& codec) {
  const auto made = compile("[\"bytes\"," + codec + "]", "uint8", {kBytes});
  return made.ok() ? "" : made.error().message();
}

struct chunk {
  std::uint64_t mask;
  bytes content;
};

bytes stored(const chunk& of, std::size_t header_bytes) {
  bytes made(header_bytes);
  for (std::size_t i = 0; i < header_bytes; ++i) made[i] = static_cast<std::byte>(of.mask >> (8 * i));
  made.insert(made.end(), of.content.begin(), of.content.end());
  return made;
}

std::string read(const codec_chain& chain, const bytes& encoded, bytes& out) {
  worker_scratch scratch;
  out.assign(kBytes, std::byte{0xee});
  const auto done = decode_all(chain, encoded, out, scratch);
  return done.ok() ? "" : done.error().message();
}

TEST(Conditional, ReadsEveryChoice) {
  const std::string codecs[] = {kShuffle, kGzip, kCrc};
  const bytes cell = smooth_bytes(kBytes, 1);
  for (const std::size_t header_bytes : {1, 3}) {
    const std::string bits = R"(,"header_bits":)" + std::to_string(8 * header_bytes);
    const codec_chain chain = byte_chain(conditional(codecs[0] + "," + codecs[1] + "," + codecs[2], bits), kBytes);
    for (std::uint64_t mask = 0; mask < 8; ++mask) {
      std::string plain = R"(["bytes")";
      for (std::size_t i = 0; i < 3; ++i) plain += (mask >> i & 1) != 0 ? "," + codecs[i] : "";
      worker_scratch scratch;
      const codec_chain applied = compile(plain + "]", "uint8", {kBytes}).value();
      bytes out;
      EXPECT_EQ(read(chain, stored({mask, encode_all(applied, cell, scratch)}, header_bytes), out), "");
      EXPECT_EQ(out, cell) << mask;
    }
  }
}

TEST(Conditional, AppliesACompressorIfItHelps) {
  const codec_chain chain =
      byte_chain(conditional(std::string(kShuffle) + "," + kGzip + "," + kCrc, R"(,"header_bits":16)"), kBytes);
  worker_scratch scratch;
  const bytes smooth = encode_all(chain, smooth_bytes(kBytes, 1), scratch);
  EXPECT_EQ(smooth[0], std::byte{0b111});
  EXPECT_EQ(smooth[1], std::byte{0});
  EXPECT_LT(smooth.size(), kBytes);
  const bytes noise = encode_all(chain, random_bytes(kBytes, 1), scratch);
  EXPECT_EQ(noise[0], std::byte{0b101});  // shuffled, and with its checksum
  EXPECT_EQ(noise.size(), kBytes + 2 + 4);
}

TEST(Conditional, IsBoundedByTheContentAndItsHeader) {
  const codec_chain chain = byte_chain(conditional(kGzip), kBytes);
  worker_scratch scratch;
  EXPECT_EQ(encode_all(chain, random_bytes(kBytes, 2), scratch).size(), kBytes + 1);
  EXPECT_EQ(chain.stage_codec(0).max_encoded_bytes(kBytes), kBytes + 1);
  EXPECT_FALSE(chain.fixed_size());
}

TEST(Conditional, RefusesDamagedChunks) {
  const codec_chain chain = byte_chain(conditional(kGzip, R"(,"header_bits":16)"), kBytes);
  bytes out;
  EXPECT_EQ(read(chain, bytes(1), out), "conditional chunk has 1 byte, its header alone has 2");
  EXPECT_EQ(read(chain, stored({0b10, bytes(kBytes)}, 2), out), "conditional chunk applies codec 1, there are 1");
  EXPECT_EQ(read(chain, stored({1 << 15, bytes(kBytes)}, 2), out), "conditional chunk applies codec 15, there are 1");
  EXPECT_EQ(read(chain, stored({0, bytes(kBytes - 1)}, 2), out), "chunk decoded to 599 bytes, its shape needs 600");
  EXPECT_EQ(read(chain, stored({0, bytes(kBytes + 1)}, 2), out),
            "conditional chunk decodes to 601 bytes, the output has room for 600");
  EXPECT_NE(read(chain, stored({1, bytes(kBytes)}, 2), out), "");
}

TEST(Conditional, RefusesOtherSettings) {
  EXPECT_EQ(refused(conditional(kGzip, R"(,"header_bits":12)")),
            "codec 'conditional': 'header_bits' is 12, which is not a multiple of 8");
  EXPECT_NE(refused(conditional(std::string(kGzip) + "," + kCrc, R"(,"header_bits":0)")), "");
  EXPECT_EQ(refused(conditional(conditional(kGzip))), "a 'conditional' codec within another");
  EXPECT_NE(refused(conditional(R"("bytes")")), "");
  EXPECT_NE(refused(conditional(R"({"name":"numcodecs.delta","configuration":{"dtype":"|u1"}})")), "");
  EXPECT_NE(refused(conditional("1")), "");
  EXPECT_NE(refused(R"("conditional")"), "");
  std::string many = kCrc;
  for (int i = 0; i < 64; ++i) many += std::string(",") + kCrc;
  EXPECT_EQ(refused(conditional(many)), "codec 'conditional' has 65 codecs, at most 64 are read");
}

}  // namespace
}  // namespace penstock::inline v0
