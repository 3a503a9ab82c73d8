// The device's decoders of deflate, LZ4 and Blosc on the host, against the libraries that the host engine uses.

#include <blosc.h>
#include <libdeflate.h>
#include <lz4.h>

#include "codec/bytes/crc32c.h"

#include "cuda/decode/decode_fixture.h"
#include "support/cases.h"

namespace penstock::inline v0::device {
namespace {

const device_step kLz4Block[] = {{step_kind::lz4_block}};

enum class wrapping { raw, zlib, gzip };

bytes deflate_of(const bytes& content, int level, wrapping how) {
  libdeflate_compressor* const compressor = libdeflate_alloc_compressor(level);
  bytes out(libdeflate_gzip_compress_bound(compressor, content.size()) + 100);
  const auto compress = how == wrapping::raw    ? libdeflate_deflate_compress
                        : how == wrapping::zlib ? libdeflate_zlib_compress
                                                : libdeflate_gzip_compress;
  const std::size_t made = compress(compressor, content.data(), content.size(), out.data(), out.size());
  libdeflate_free_compressor(compressor);
  EXPECT_GT(made, 0u);
  out.resize(made);
  return out;
}

bool libdeflate_decodes(const bytes& encoded, bytes& out, wrapping how) {
  libdeflate_decompressor* const decompressor = libdeflate_alloc_decompressor();
  const auto decompress = how == wrapping::raw    ? libdeflate_deflate_decompress
                          : how == wrapping::zlib ? libdeflate_zlib_decompress
                                                  : libdeflate_gzip_decompress;
  const auto done = decompress(decompressor, encoded.data(), encoded.size(), out.data(), out.size(), nullptr);
  libdeflate_free_decompressor(decompressor);
  return done == LIBDEFLATE_SUCCESS;
}

step_kind step_of(wrapping how) {
  return how == wrapping::raw ? step_kind::deflate : how == wrapping::zlib ? step_kind::zlib : step_kind::gzip;
}

// Flips bits; `accepts` returns whether the reference decodes what we accept to the same bytes.
template <class Accepts>
void expect_no_more_than(std::span<const device_step> steps, const bytes& encoded, std::size_t size, std::uint32_t seed,
                         Accepts&& accepts) {
  std::mt19937 random(seed);
  for (std::uint64_t round = test::cases(200); round-- > 0;) {
    bytes damaged = encoded;
    for (std::uint32_t i = 0; i <= random() % 3; ++i)
      damaged[random() % damaged.size()] ^= std::byte(1u << random() % 8);
    bytes ours(size), theirs(size);
    if (!decode_on_host(steps, damaged, ours).ok()) continue;
    ASSERT_TRUE(accepts(damaged, theirs)) << "seed " << seed << " round " << round;
    ASSERT_EQ(ours, theirs) << "seed " << seed << " round " << round;
  }
}

TEST(DeviceLz4, DecodesEveryKindOfContent) {
  for (const char* kind : kKinds)
    for (const std::size_t size : {0u, 1u, 12u, 13u, 100u, 5'000u, 300'001u})
      for (const int level : {0, 4, 12}) {
        const bytes content = content_of(kind, size);
        expect_decodes(kLz4Block, lz4_of(content, level), content, kind + std::string(" of ") + std::to_string(size));
      }
}

TEST(DeviceLz4, AcceptsTheSizePrefixOfNumcodecs) {
  const bytes content = content_of("text", 70'000), block = lz4_of(content, 0);
  bytes encoded(4);
  const auto size = static_cast<std::uint32_t>(content.size());
  std::memcpy(encoded.data(), &size, 4);
  encoded.insert(encoded.end(), block.begin(), block.end());
  const device_step steps[] = {{step_kind::lz4}};
  expect_decodes(steps, encoded, content, "numcodecs");
  bytes other(content.size() + 1);
  EXPECT_FALSE(decode_on_host(steps, encoded, other).ok());
}

TEST(DeviceLz4, DecodesDamagedBytesOnlyAsTheLibraryDoes) {
  for (const char* kind : kKinds) {
    const bytes content = content_of(kind, 3000);
    expect_no_more_than(kLz4Block, lz4_of(content, 0), content.size(), 5, [](const bytes& damaged, bytes& out) {
      return LZ4_decompress_safe(reinterpret_cast<const char*>(damaged.data()), reinterpret_cast<char*>(out.data()),
                                 static_cast<int>(damaged.size()),
                                 static_cast<int>(out.size())) == static_cast<int>(out.size());
    });
  }
}

TEST(DeviceInflate, DecodesEveryLevelInEveryWrapping) {
  for (const char* kind : kKinds)
    for (const wrapping how : {wrapping::raw, wrapping::zlib, wrapping::gzip})
      for (const int level : {0, 1, 3, 6, 9, 12})
        for (const std::size_t size : {0u, 1u, 50u, 70'001u}) {
          const bytes content = content_of(kind, size);
          const device_step steps[] = {{step_of(how)}};
          expect_decodes(steps, deflate_of(content, level, how), content,
                         kind + std::string(" level ") + std::to_string(level) + " of " + std::to_string(size));
        }
}

TEST(DeviceInflate, DecodesTheShortestStreamsAtEveryAddress) {
  const device_step steps[] = {{step_kind::deflate}};
  const auto of = [](std::initializer_list<int> values) {
    bytes made;
    for (const int value : values) made.push_back(static_cast<std::byte>(value));
    return made;
  };
  // An end of a block; the same after a literal (by fixed codes).
  const std::pair<bytes, bytes> cases[] = {{of({3, 0}), {}}, {of({0x4b, 4, 0}), of({'a'})}};
  for (const auto& [encoded, content] : cases)
    for (std::size_t shift = 0; shift < 4; ++shift) {
      bytes source(shift), out(content.size());
      source.insert(source.end(), encoded.begin(), encoded.end());
      const auto done = decode_on_host(steps, std::span(source).subspan(shift), out);
      ASSERT_TRUE(done.ok()) << content.size() << " at " << shift << ": " << done.error().to_string();
      EXPECT_EQ(out, content);
    }
}

// A block whose codes have 1, 2, ..., `bits` bits and `bits` again: literals have the short codes, the lengths of 195
// to 257 and the distances from 16,385 on have the longest.
class long_match_stream {
 public:
  long_match_stream(std::uint32_t length_bits, std::uint32_t distance_bits)
      : length_bits_(length_bits), distance_bits_(distance_bits) {
    append(1, 1);  // the last block
    append(2, 2);
    append(285 - 257, 5);
    append(30 - 1, 5);
    append(15, 4);
    for (std::uint32_t i = 0; i < 19; ++i) append(i < 3 ? 0 : 4, 3);  // the lengths 0 to 15 have four bits each
    for (std::uint32_t symbol = 0; symbol < 285; ++symbol)
      append_length(symbol >= 283                                     ? length_bits
                    : symbol == 256                                   ? length_bits - 1
                    : symbol >= 'a' && symbol < 'a' + length_bits - 2 ? symbol - 'a' + 1
                                                                      : 0);
    for (std::uint32_t symbol = 0; symbol < 30; ++symbol)
      append_length(symbol >= 28 ? distance_bits : symbol < distance_bits - 1 ? symbol + 1 : 0);
  }

  void literal(std::uint32_t which) {
    append_code(~1u, which + 1);
    content.push_back(std::byte('a' + which));
  }
  void match(std::uint32_t length, std::uint32_t distance) {
    append_code(length < 227 ? ~1u : ~0u, length_bits_);
    append(length - (length < 227 ? 195 : 227), 5);
    append_code(distance < 24'577 ? ~1u : ~0u, distance_bits_);
    append(distance - (distance < 24'577 ? 16'385 : 24'577), 13);
    for (std::uint32_t i = 0; i < length; ++i) content.push_back(content[content.size() - distance]);
  }
  void end() { append_code(~1u, length_bits_ - 1); }

  bytes encoded, content;

 private:
  void append(std::uint32_t value, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i, ++filled_) {
      if (filled_ % 8 == 0) encoded.push_back(std::byte{0});
      encoded.back() |= std::byte((value >> i & 1) << filled_ % 8);
    }
  }
  void append_code(std::uint32_t code, std::uint32_t count) {  // starting with its highest bit
    for (std::uint32_t i = count; i-- > 0;) append(code >> i, 1);
  }
  void append_length(std::uint32_t length) { append_code(length, 4); }

  std::uint32_t length_bits_, distance_bits_;
  std::size_t filled_ = 0;
};

TEST(DeviceInflate, DecodesMatchesOfUpTo48Bits) {
  // Bits of the codes: the longest, the longest of the tables, and those for which a match has 32 to 33 bits.
  const std::uint32_t codes[][2] = {{15, 15}, {10, 8}, {8, 7}, {7, 7}};
  for (const auto [length_bits, distance_bits] : codes) {
    long_match_stream stream(length_bits, distance_bits);
    std::mt19937 random(length_bits);
    const auto below = [&](std::uint32_t most) { return static_cast<std::uint32_t>(random() % most); };
    for (int i = 0; i < 40'000; ++i) stream.literal(below(length_bits - 2));
    for (int i = 0; i < 400; ++i) {
      for (std::uint32_t left = below(4); left > 0; --left) stream.literal(below(length_bits - 2));
      stream.match(195 + below(63), 16'385 + below(16'384));
    }
    stream.end();
    bytes theirs(stream.content.size());
    ASSERT_TRUE(libdeflate_decodes(stream.encoded, theirs, wrapping::raw)) << length_bits;
    ASSERT_EQ(theirs, stream.content) << length_bits;
    const device_step steps[] = {{step_kind::deflate}};
    expect_decodes(steps, stream.encoded, stream.content, "codes of " + std::to_string(length_bits));
  }
}

TEST(DeviceInflate, DecodesSeveralGzipMembersAndTrailingZeros) {
  const bytes first = content_of("text", 5000), second = content_of("walk", 9000);
  bytes encoded = deflate_of(first, 6, wrapping::gzip), content = first;
  const bytes more = deflate_of(second, 1, wrapping::gzip);
  encoded.insert(encoded.end(), more.begin(), more.end());
  encoded.resize(encoded.size() + 37);
  content.insert(content.end(), second.begin(), second.end());
  const device_step steps[] = {{step_kind::gzip}};
  expect_decodes(steps, encoded, content, "members");
  encoded.back() = std::byte{1};
  bytes out(content.size());
  EXPECT_FALSE(decode_on_host(steps, encoded, out).ok());
}

TEST(DeviceInflate, VerifiesTheSums) {
  const bytes content = content_of("text", 5000);
  for (const wrapping how : {wrapping::zlib, wrapping::gzip}) {
    bytes encoded = deflate_of(content, 6, how), out(content.size());
    encoded[encoded.size() - (how == wrapping::gzip ? 5 : 1)] ^= std::byte{4};
    const device_step steps[] = {{step_of(how)}};
    const auto done = decode_on_host(steps, encoded, out);
    ASSERT_FALSE(done.ok());
    EXPECT_NE(done.error().message().find("checksum"), std::string::npos);
  }
}

TEST(DeviceInflate, DecodesDamagedBytesOnlyAsTheLibraryDoes) {
  for (const char* kind : kKinds)
    for (const wrapping how : {wrapping::raw, wrapping::zlib}) {
      const bytes content = content_of(kind, 3000);
      const device_step steps[] = {{step_of(how)}};
      expect_no_more_than(steps, deflate_of(content, 6, how), content.size(), 9,
                          [&](const bytes& damaged, bytes& out) { return libdeflate_decodes(damaged, out, how); });
    }
}

bytes blosc_of(const bytes& content, const char* compressor, int shuffle, std::size_t item, std::size_t block,
               int level) {
  bytes out(content.size() + BLOSC_MAX_OVERHEAD);
  const int made = blosc_compress_ctx(level, shuffle, item, content.size(), content.data(), out.data(), out.size(),
                                      compressor, block, 1);
  EXPECT_GE(made, 0) << compressor;
  out.resize(static_cast<std::size_t>(std::max(made, 0)));
  return out;
}

const device_step kBlosc[] = {{step_kind::blosc}};

TEST(DeviceBlosc, DecodesEveryCompressorAndShuffle) {
  for (const char* compressor : {"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"}) {
    if (blosc_compname_to_compcode(compressor) < 0) continue;  // c-blosc was built without it
    for (const char* kind : {"arange", "packed", "noise", "zeros", "text", "rows"})
      for (const int shuffle : {BLOSC_NOSHUFFLE, BLOSC_SHUFFLE, BLOSC_BITSHUFFLE})
        for (const std::size_t item : {1u, 3u, 4u, 17u})
          for (const std::size_t size : {0u, 7u, 1000u, 40'001u}) {
            const bytes content = content_of(kind, size);
            expect_decodes(kBlosc, blosc_of(content, compressor, shuffle, item, 0, 5), content,
                           std::string(compressor) + " " + kind + " shuffle " + std::to_string(shuffle) + " items of " +
                               std::to_string(item) + " size " + std::to_string(size));
          }
  }
}

TEST(DeviceBlosc, DecodesBlocksOfEverySize) {
  for (const std::size_t block : {256u, 1000u, 4096u, 65'536u})
    for (const int level : {0, 1, 9}) {
      const bytes content = content_of("packed", 50'003);
      for (const char* compressor : {"lz4", "zstd", "blosclz"})
        expect_decodes(kBlosc, blosc_of(content, compressor, BLOSC_SHUFFLE, 4, block, level), content,
                       std::string(compressor) + " blocks of " + std::to_string(block));
    }
}

TEST(DeviceBlosc, DecodesDamagedBytesOnlyAsTheHeadersAllow) {
  for (const char* compressor : {"blosclz", "lz4", "zstd"})
    for (const int shuffle : {BLOSC_NOSHUFFLE, BLOSC_SHUFFLE, BLOSC_BITSHUFFLE}) {
      const bytes content = content_of("packed", 4000);
      expect_no_more_than(kBlosc, blosc_of(content, compressor, shuffle, 4, 0, 5), content.size(), 3,
                          [](const bytes& damaged, bytes& out) {
                            return blosc_decompress_ctx(damaged.data(), out.data(), out.size(), 1) ==
                                   static_cast<int>(out.size());
                          });
    }
}

TEST(DeviceWave, RunsTransformsAfterADecoder) {
  const bytes content = content_of("walk", 40'004);
  bytes swapped = content;
  for (std::size_t i = 0; i + 4 <= swapped.size(); i += 4)
    std::reverse(swapped.begin() + static_cast<long>(i), swapped.begin() + static_cast<long>(i) + 4);
  const device_step steps[] = {{step_kind::blosc}, {step_kind::byte_swap, 4}};
  expect_decodes(steps, blosc_of(content, "zstd", BLOSC_SHUFFLE, 4, 0, 5), swapped, "blosc and byte swap");
  const device_step twice[] = {{step_kind::zlib}, {step_kind::byte_swap, 4}, {step_kind::byte_swap, 4}};
  expect_decodes(twice, deflate_of(content, 6, wrapping::zlib), content, "two transforms");
  const device_step alone[] = {{step_kind::byte_swap, 4}};
  expect_decodes(alone, content, swapped, "a transform alone");
}

TEST(DeviceWave, VerifiesCrc32cBeforeADecoder) {
  const bytes content = content_of("walk", 40'004);
  bytes encoded = lz4_of(content, 0);
  // The standard's own example: the CRC of "123456789" is e3069283.
  bytes digits(13);
  std::memcpy(digits.data(), "123456789\x83\x92\x06\xe3", 13);
  const device_step plain[] = {{step_kind::crc32c}};
  expect_decodes(plain, digits, bytes(digits.begin(), digits.begin() + 9), "the example");
  digits[3] ^= std::byte{1};
  bytes out(9);
  EXPECT_FALSE(decode_on_host(plain, digits, out).ok());
  const std::uint32_t crc = crc32c(encoded);
  const auto* const tail = reinterpret_cast<const std::byte*>(&crc);
  encoded.insert(encoded.end(), tail, tail + 4);
  const device_step steps[] = {{step_kind::crc32c}, {step_kind::lz4_block}};
  expect_decodes(steps, encoded, content, "a chunk");
}

TEST(DeviceWave, RefusesDecodersThatTheHostCannotScan) {
  const device_step steps[] = {{step_kind::byte_swap, 4}, {step_kind::zstd}};
  EXPECT_FALSE(decode_wave::make(steps).ok());
  EXPECT_FALSE(decode_wave::make({}).ok());
}

}  // namespace
}  // namespace penstock::inline v0::device
