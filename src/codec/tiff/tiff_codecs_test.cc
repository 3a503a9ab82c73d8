#include "codec/tiff/tiff_codecs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "codec/tiff/tiff_rows.h"
#include "codec/worker_scratch.h"

namespace penstock {
namespace {

using bytes = std::vector<std::byte>;

bytes of(std::initializer_list<int> values) {
  bytes out;
  for (const int value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

result<bytes> decode(const byte_codec& codec, const bytes& encoded, std::size_t room) {
  worker_scratch scratch;
  bytes out(room, std::byte{0xEE});
  PENSTOCK_ASSIGN(const auto made, codec.decode(encoded, out, scratch));
  return bytes(made.begin(), made.end());
}

TEST(TiffLzw, DecodesTheExampleOfTheSpecification) {
  // 7 7 7 8 8 7 7 6 6: codes 256 7 258 8 8 258 6 6 257 of 9 bits.
  const bytes encoded = of({0x80, 0x01, 0xE0, 0x40, 0x80, 0x44, 0x08, 0x0C, 0x06, 0x80, 0x80});
  const auto made = decode(*make_tiff_lzw_codec(), encoded, 64);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  EXPECT_EQ(*made, of({7, 7, 7, 8, 8, 7, 7, 6, 6}));
}

TEST(TiffLzw, StopsWhenTheOutputIsFull) {
  const bytes encoded = of({0x80, 0x01, 0xE0, 0x40, 0x80, 0x44, 0x08, 0x0C, 0x06, 0x80, 0x80});
  for (std::size_t room = 0; room < 9; ++room) {
    const auto made = decode(*make_tiff_lzw_codec(), encoded, room);
    ASSERT_TRUE(made.ok());
    EXPECT_EQ(made->size(), room);
  }
}

TEST(TiffLzw, AnyBytesAreRefusedOrStayWithinTheOutput) {
  std::mt19937 random(3);
  const auto codec = make_tiff_lzw_codec();
  int refused = 0;
  for (int repeat = 0; repeat < 5000; ++repeat) {
    bytes encoded(random() % 64);
    for (std::byte& each : encoded) each = static_cast<std::byte>(random());
    if (repeat % 2 == 0 && encoded.size() > 1) encoded[0] = std::byte{0x80};
    const std::size_t room = random() % 600;
    const auto made = decode(*codec, encoded, room);
    if (made.ok()) {
      EXPECT_LE(made->size(), room);
    } else {
      ++refused;
      EXPECT_EQ(made.error().code(), errc::corrupt_data);
    }
  }
  EXPECT_GT(refused, 100);
}

// As in the specification: a table of strings, a bit at a time. nullopt: the stream is damaged.
std::optional<bytes> decode_simply(const bytes& encoded, std::size_t room, bool old) {
  std::vector<bytes> table;
  const auto clear = [&] {
    table.assign(258, bytes());
    for (unsigned i = 0; i < 256; ++i) table[i] = {static_cast<std::byte>(i)};
  };
  clear();
  bytes out, last;
  std::size_t at = 0;
  while (out.size() < room) {
    unsigned width = 9, code = 0;
    const std::size_t coming = table.size() + (last.empty() ? 0 : 1);
    while (width < 12 && coming + (old ? 0 : 1) > 1U << width) ++width;
    if (at + width > encoded.size() * 8) break;
    for (unsigned i = 0; i < width; ++i, ++at) {
      const unsigned bit = std::to_integer<unsigned>(encoded[at / 8]) >> (old ? at % 8 : 7 - at % 8) & 1;
      code = old ? code | bit << i : code << 1 | bit;
    }
    if (code == 257) break;
    if (code == 256) {
      clear();
      last.clear();
      continue;
    }
    bytes string;
    if (last.empty()) {
      if (code > 255) return std::nullopt;
      string = table[code];
    } else {
      bytes made = last;
      if (code > table.size() || (code == table.size() && code == 4096)) return std::nullopt;
      string = code == table.size() ? last : table[code];
      made.push_back(string[0]);
      if (code == table.size()) string = made;
      if (table.size() < 4096) table.push_back(made);
    }
    out.insert(out.end(), string.begin(), string.end());
    last = string;
  }
  if (out.size() > room) out.resize(room);
  return out;
}

TEST(TiffLzw, EqualsASimpleDecoderOnAnyStream) {
  std::mt19937 random(9);
  const auto codec = make_tiff_lzw_codec();
  int refused = 0, decoded = 0;
  for (int repeat = 0; repeat < 600; ++repeat) {
    // Codes that are mostly valid, at their width; with clear codes sometimes, or never.
    const bool old = repeat % 3 == 0;
    const unsigned clears = repeat % 2 == 0 ? 3000 : 1000000;
    bytes encoded(12000);
    std::size_t at = 0;
    const auto put = [&](unsigned code, unsigned width) {
      for (unsigned i = 0; i < width; ++i, ++at) {
        const unsigned bit = code >> (old ? i : width - 1 - i) & 1;
        encoded[at / 8] |= static_cast<std::byte>(bit << (old ? at % 8 : 7 - at % 8));
      }
    };
    unsigned next = 258;
    bool first = true;
    put(256, 9);
    for (unsigned codes = static_cast<unsigned>(random() % 6000); codes-- > 0;) {
      unsigned width = 9;
      while (width < 12 && next + (first ? 0 : 1) + (old ? 0 : 1) > 1U << width) ++width;
      if (random() % clears == 0) {
        put(256, width);
        next = 258;
        first = true;
        continue;
      }
      const unsigned below = first ? 256 : random() % 400 == 0 ? next + 1 : next;
      unsigned code =
          random() % 3 == 0 ? static_cast<unsigned>(random() % 256) : static_cast<unsigned>(random() % below);
      if (random() % 40 == 0 && !first && next < 4096) code = next;
      if (code == 256 || code == 257) code = 7;
      if (random() % 20000 == 0) code = 4095;
      put(code, width);
      if (!first && next < 4096) ++next;
      first = false;
    }
    encoded.resize((at + 7) / 8);
    const std::size_t room = repeat % 5 == 0 ? random() % 20000 : 60000;
    const auto wanted = decode_simply(encoded, room, old);
    const auto made = decode(*codec, encoded, room);
    ASSERT_EQ(made.ok(), wanted.has_value()) << repeat;
    ++(made.ok() ? decoded : refused);
    if (!made.ok()) continue;
    ASSERT_EQ(*made, *wanted) << repeat;
  }
  EXPECT_GT(decoded, 100);
  EXPECT_GT(refused, 10);
}

TEST(TiffPackBits, DecodesRunsAndLiteralsAndRefusesTruncation) {
  const auto codec = make_tiff_packbits_codec();
  const bytes encoded = of({0xFE, 0xAA, 0x02, 0x80, 0x00, 0x2A, 0x80, 0xFD, 0xAA});
  const auto made = decode(*codec, encoded, 64);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(*made, of({0xAA, 0xAA, 0xAA, 0x80, 0x00, 0x2A, 0xAA, 0xAA, 0xAA, 0xAA}));
  EXPECT_FALSE(decode(*codec, of({0x02, 0x80}), 64).ok());
  EXPECT_FALSE(decode(*codec, of({0xFE}), 64).ok());
  EXPECT_EQ(decode(*codec, of({0x81, 0x07}), 5)->size(), 5U);
}

template <class T>
void check_sums(std::uint32_t step, bool swap) {
  std::mt19937_64 random(step);
  for (std::size_t count : {0U, 1U, 7U, 16U, 31U, 200U}) {
    std::vector<T> values(count), wanted(count);
    for (T& each : values) each = static_cast<T>(random());
    for (std::size_t i = 0; i < count; ++i) {
      T value = values[i];
      if (swap) {
        auto* const at = reinterpret_cast<std::byte*>(&value);
        std::reverse(at, at + sizeof(T));
      }
      wanted[i] = static_cast<T>(value + (i >= step ? wanted[i - step] : T{0}));
    }
    std::vector<T> made(count);
    sum_row(reinterpret_cast<std::byte*>(made.data()), reinterpret_cast<const std::byte*>(values.data()), count,
            sizeof(T), step, swap);
    EXPECT_EQ(made, wanted) << sizeof(T) << " bytes, step " << step << ", count " << count;
  }
}

TEST(TiffRows, UnpacksIntegersOfAnyWidth) {
  std::mt19937 random(5);
  for (std::uint32_t bits = 1; bits <= 64; ++bits) {
    const std::uint32_t item_bytes = bits <= 8 ? 1 : bits <= 16 ? 2 : bits <= 32 ? 4 : 8;
    for (std::size_t count = 1; count <= 75; ++count) {
      bytes packed((count * bits + 7) / 8);
      for (std::byte& each : packed) each = static_cast<std::byte>(random());
      for (const bool is_signed : {false, true}) {
        bytes made(count * item_bytes);
        unpack_row(made.data(), packed.data(), count, bits, item_bytes, is_signed);
        for (std::size_t i = 0; i < count; ++i) {
          std::uint64_t expected = 0, item = 0;
          for (std::size_t bit = i * bits; bit < (i + 1) * bits; ++bit)
            expected = expected << 1 | (std::to_integer<unsigned>(packed[bit / 8]) >> (7 - bit % 8) & 1U);
          if (is_signed && (expected >> (bits - 1) & 1) != 0) expected |= ~std::uint64_t{0} << (bits - 1);
          if (item_bytes < 8) expected &= (std::uint64_t{1} << 8 * item_bytes) - 1;
          for (std::size_t b = 0; b < item_bytes; ++b)
            item |= std::to_integer<std::uint64_t>(made[i * item_bytes + b]) << 8 * b;
          ASSERT_EQ(item, expected) << bits << " bits, item " << i << " of " << count;
        }
      }
    }
  }
}

TEST(TiffRows, SumsEqualOneByOneAdditionAtEveryWidthAndStep) {
  for (std::uint32_t step = 1; step <= 6; ++step) {
    for (const bool swap : {false, true}) {
      check_sums<std::uint8_t>(step, false);
      check_sums<std::uint16_t>(step, swap);
      check_sums<std::uint32_t>(step, swap);
      check_sums<std::uint64_t>(step, swap);
    }
  }
}

}  // namespace
}  // namespace penstock
