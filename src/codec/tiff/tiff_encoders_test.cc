#include "codec/tiff/tiff_encoders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "codec/tiff/tiff_codecs.h"
#include "codec/tiff/tiff_differences.h"
#include "codec/tiff/tiff_rows.h"
#include "codec/worker_scratch.h"

namespace penstock {
namespace {

using bytes = std::vector<std::byte>;

// Noise, runs and ramps of many lengths.
bytes sample(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  bytes out;
  while (out.size() < count) {
    const std::size_t run = random() % 300;
    const std::uint64_t kind = random() % 3, value = random();
    for (std::size_t i = 0; i < run && out.size() < count; ++i) {
      out.push_back(static_cast<std::byte>(kind == 0 ? value : kind == 1 ? random() : value + i));
    }
  }
  return out;
}

void check_round_trip(const byte_codec& decoder, const bytes& from, std::span<const std::byte> encoded) {
  worker_scratch scratch;
  bytes out(from.size() + 1, std::byte{0xEE});
  const auto made = decoder.decode(encoded, out, scratch);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  ASSERT_EQ(made->size(), from.size());
  EXPECT_TRUE(std::equal(made->begin(), made->end(), from.begin()));
}

TEST(TiffLzwEncoder, EncodesTheExampleOfTheSpecification) {
  const std::uint8_t text[] = {7, 7, 7, 8, 8, 7, 7, 6, 6};
  std::uint8_t out[128];
  const std::size_t made = encode_tiff_lzw(std::as_bytes(std::span(text)), reinterpret_cast<std::byte*>(out));
  const std::vector<std::uint8_t> wanted{0x80, 0x01, 0xE0, 0x40, 0x80, 0x44, 0x08, 0x0C, 0x06, 0x80, 0x80};
  EXPECT_EQ(std::vector<std::uint8_t>(out, out + made), wanted);
}

TEST(TiffLzwEncoder, OutputDecodesAndStaysWithinItsBound) {
  const auto decoder = make_tiff_lzw_codec();
  // Noise fills the table after about 3837 bytes: every length around the clear codes and the changes of width.
  for (std::size_t count = 0; count < 9000; count += count < 16 || (count > 240 && count < 270) ? 1 : 37) {
    std::mt19937 random(static_cast<unsigned>(count));
    bytes noise(count);
    for (std::byte& each : noise) each = static_cast<std::byte>(random());
    for (const bytes& from : {noise, sample(count, static_cast<unsigned>(count)), bytes(count)}) {
      bytes out(max_tiff_lzw_bytes(from.size()));
      const std::size_t made = encode_tiff_lzw(from, out.data());
      ASSERT_LE(made, out.size());
      check_round_trip(*decoder, from, std::span(out).first(made));
    }
  }
  for (std::size_t count = 3820; count < 3860; ++count) {
    const bytes from = sample(count, 5);
    bytes out(max_tiff_lzw_bytes(count));
    check_round_trip(*decoder, from, std::span(out).first(encode_tiff_lzw(from, out.data())));
  }
}

TEST(TiffPackBitsEncoder, OutputDecodesAndStaysWithinItsBound) {
  const auto decoder = make_tiff_packbits_codec();
  for (const std::size_t row : {1U, 2U, 3U, 127U, 128U, 129U, 130U, 257U, 1000U}) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      const bytes from = sample(row * 7, seed);
      bytes out(max_tiff_packbits_bytes(7, row));
      const std::size_t made = encode_tiff_packbits(from, row, out.data());
      ASSERT_LE(made, out.size());
      check_round_trip(*decoder, from, std::span(out).first(made));
    }
  }
}

TEST(TiffDifferences, AreUndoneBySumsAtEveryWidthAndStep) {
  for (const std::uint32_t item : {1U, 2U, 4U, 8U}) {
    for (std::size_t step = 1; step < 7; ++step) {
      for (const std::size_t count : {0U, 1U, 3U, 16U, 61U, 200U}) {
        const bytes from = sample(count * item, static_cast<unsigned>(count));
        bytes differences(from.size()), back(from.size()), work(from.size());
        subtract_row(differences.data(), from.data(), count, item, step);
        sum_row(back.data(), differences.data(), count, item, step, false);
        EXPECT_EQ(back, from) << item << " bytes, step " << step << ", count " << count;
        if (item == 1) continue;
        split_float_row(differences.data(), from.data(), count, item, step, work.data());
        restore_float_row(back.data(), differences.data(), count, item, step, work.data());
        EXPECT_EQ(back, from) << item << " bytes, step " << step << ", count " << count;
      }
    }
  }
}

TEST(TiffTileEncoder, RefusesInvalidLevelsAndPredictors) {
  tiff_samples samples;
  samples.rows = samples.width = 16;
  EXPECT_EQ(tiff_tile_encoder::make(samples, tiff_encoding::deflate, 13).error().code(), errc::invalid_argument);
  EXPECT_EQ(tiff_tile_encoder::make(samples, tiff_encoding::zstd, 0).error().code(), errc::invalid_argument);
  EXPECT_EQ(tiff_tile_encoder::make(samples, tiff_encoding::lzw, 1).error().code(), errc::invalid_argument);
  samples.predictor = 3;
  EXPECT_EQ(tiff_tile_encoder::make(samples, tiff_encoding::lzw, {}).error().code(), errc::invalid_argument);
  samples.predictor = 2;
  EXPECT_EQ(tiff_tile_encoder::make(samples, tiff_encoding::none, {}).error().code(), errc::invalid_argument);
  EXPECT_TRUE(tiff_tile_encoder::make(samples, tiff_encoding::lzma, 9).ok());
}

TEST(TiffTileEncoder, ReservesSpaceBeforeAndAfter) {
  tiff_samples samples;
  samples.rows = samples.width = 16;
  for (const auto encoding : {tiff_encoding::none, tiff_encoding::packbits, tiff_encoding::lzw, tiff_encoding::deflate,
                              tiff_encoding::zstd, tiff_encoding::lzma}) {
    const auto encoder = tiff_tile_encoder::make(samples, encoding, {});
    ASSERT_TRUE(encoder.ok());
    worker_scratch scratch;
    tiff_encoder_room room(nullptr);
    bytes items = sample(256, 1);
    const auto made = encoder->encode(items, 4, room, scratch);
    ASSERT_TRUE(made.ok());
    EXPECT_GE(made->data(), room.encoded.data() + 4);
    EXPECT_LE(made->data() + made->size() + 4, room.encoded.data() + room.encoded.capacity());
  }
}

}  // namespace
}  // namespace penstock
