// The requirements of the compressions of TIFF that decode bytes to bytes: a new one is one more line in `codecs`, with
// a stream of another writer. They are not in the registry, and stop when the output is full. Codecs of pictures are
// tested in src/codec/tiff/tiff_pictures_test.cc.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/device_form.h"
#include "codec/tiff/tiff_codecs.h"
#include "contract/decode_exactly.h"
#include "cuda/decode/host_decode.h"
#include "cuda/decode/step_settings.h"
#include "support/cases.h"

namespace penstock::contract {
namespace {

using tiff_codec = std::shared_ptr<const byte_codec>;

bytes of(std::initializer_list<int> values) {
  bytes out;
  for (const int value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

bytes text(std::string_view from) {
  const auto all = std::as_bytes(std::span(from));
  return {all.begin(), all.end()};
}

struct tiff_row {
  std::string name;
  result<tiff_codec> (*make)();
  bytes encoded, decoded;
};
void PrintTo(const tiff_row& row, std::ostream* out) { *out << row.name; }

// Packed by Python's zlib and lzma, and by zstandard.
constexpr std::string_view kText = "penstock penstock penstock";

std::vector<tiff_row> codecs() {
  return {
      // The examples of the specification, sections 13 and 9.
      {"lzw", []() -> result<tiff_codec> { return make_tiff_lzw_codec(); },
       of({0x80, 0x01, 0xE0, 0x40, 0x80, 0x44, 0x08, 0x0C, 0x06, 0x80, 0x80}), of({7, 7, 7, 8, 8, 7, 7, 6, 6})},
      {"packbits", []() -> result<tiff_codec> { return make_tiff_packbits_codec(); },
       of({0xFE, 0xAA, 0x02, 0x80, 0x00, 0x2A, 0xFD, 0xAA, 0x03, 0x80, 0x00, 0x2A, 0x22, 0xF7, 0xAA}),
       of({0xAA, 0xAA, 0xAA, 0x80, 0x00, 0x2A, 0xAA, 0xAA, 0xAA, 0xAA, 0x80, 0x00,
           0x2A, 0x22, 0xAA, 0xAA, 0xAA, 0xAA, 0xAA, 0xAA, 0xAA, 0xAA, 0xAA, 0xAA})},
      {"bit_reversal", []() -> result<tiff_codec> { return make_bit_reversal_codec(); }, of({1, 0x80, 0x0F, 0x53}),
       of({0x80, 1, 0xF0, 0xCA})},
      {"deflate", []() -> result<tiff_codec> { return make_tiff_deflate_codec(); },
       of({120, 218, 43, 72, 205, 43, 46, 201, 79, 206, 86, 40, 64, 103, 0, 0, 141, 131, 10, 118}), text(kText)},
      {"zstd", make_tiff_zstd_codec,
       of({40, 181, 47, 253, 32, 26, 125, 0, 0, 72, 112, 101, 110, 115, 116, 111, 99, 107, 32, 1, 0, 156, 203, 17}),
       text(kText)},
      {"lzma", make_tiff_lzma_codec,
       of({253, 55, 122, 88,  90,  0,   0,   1,   105, 34, 222, 54, 2,  0,   33,  1,   22, 0,
           0,   0,  116, 47,  229, 163, 224, 0,   25,  0,  15,  93, 0,  56,  25,  74,  34, 59,
           85,  98, 170, 40,  154, 64,  12,  182, 0,   0,  0,   0,  92, 118, 189, 195, 0,  1,
           39,  26, 52,  254, 33,  7,   144, 66,  153, 13, 1,   0,  0,  0,   0,   1,   89, 90}),
       text(kText)},
      // Two rows of a tile of three, of which the image needs one.
      {"short_tile", []() -> result<tiff_codec> { return make_short_tile_codec(make_tiff_packbits_codec(), 2, 2, 6); },
       of({3, 1, 2, 3, 4}), of({1, 2, 3, 4, 0, 0})},
  };
}

class TiffCodecContract : public testing::TestWithParam<tiff_row> {
 protected:
  void SetUp() override {
    auto made = GetParam().make();
    if (!made.ok() && made.error().code() == errc::unsupported) GTEST_SKIP() << made.error().to_string();
    codec_ = std::move(made).value();
  }
  std::optional<bytes> decode(std::span<const std::byte> encoded, std::size_t room) {
    const auto first = decode_exactly(*codec_, encoded, room, std::byte{0x3c}, scratch_);
    EXPECT_EQ(first, decode_exactly(*codec_, encoded, room, std::byte{0xc3}, scratch_));
    EXPECT_LE(first ? first->size() : 0, room);
    return first;
  }
  // Refuses it, or returns a beginning of what was encoded.
  void expect_beginning(const std::optional<bytes>& made, std::size_t which) const {
    if (!made) return;
    const bytes& all = GetParam().decoded;
    ASSERT_LE(made->size(), all.size()) << which;
    EXPECT_TRUE(std::equal(made->begin(), made->end(), all.begin())) << which;
  }

  tiff_codec codec_;
  ledger accounts_{kMostFilterMemory, 0};
  worker_scratch scratch_{&accounts_};
};

TEST_P(TiffCodecContract, DecodesToTheWrittenBytes) {
  EXPECT_EQ(decode(GetParam().encoded, GetParam().decoded.size()), GetParam().decoded);
}

TEST_P(TiffCodecContract, StopsWhenTheOutputIsFull) {
  for (std::size_t room = 0; room < GetParam().decoded.size(); ++room)
    expect_beginning(decode(GetParam().encoded, room), room);
}

TEST_P(TiffCodecContract, IgnoresOrRefusesBytesAfterItsStream) {
  if (GetParam().name == "bit_reversal") return;  // it has no end of its own
  bytes longer = GetParam().encoded;
  longer.resize(longer.size() + 3, std::byte{0});
  const auto made = decode(longer, GetParam().decoded.size());
  EXPECT_EQ(made.value_or(GetParam().decoded), GetParam().decoded);
}

TEST_P(TiffCodecContract, RefusesOrSurvivesDamage) {
  const bytes &encoded = GetParam().encoded, &decoded = GetParam().decoded;
  if (GetParam().name != "short_tile")  // which fills missing rows
    for (std::size_t length = 0; length < encoded.size(); ++length)
      expect_beginning(decode(std::span(encoded).first(length), decoded.size()), length);
  for (std::size_t i = 0; i < 8 * encoded.size(); ++i) {
    bytes damaged = encoded;
    damaged[i / 8] ^= std::byte{1} << i % 8;
    decode(damaged, decoded.size());
  }
  std::mt19937_64 random(8);
  for (std::uint64_t i = test::cases_of_one_thread(400); i > 0; --i) {
    const bytes noise = random_bytes(random() % 300, random());
    for (const std::size_t room : {std::size_t{0}, std::size_t{6}, std::size_t{480}}) decode(noise, room);
  }
}

TEST_P(TiffCodecContract, OnlyDecodes) {
  std::byte none[8];
  const auto made = codec_->encode(GetParam().decoded, none, scratch_);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code(), errc::unsupported);
}

TEST_P(TiffCodecContract, ItsDeviceFormDecodesToTheSameBytes) {
  const auto form = codec_->form_on_device();
  const auto step = form ? device::step_of(*form) : std::nullopt;
  if (!step) return;
  const device::device_step steps[] = {*step};
  bytes out(GetParam().decoded.size());
  const auto done = device::decode_on_host(steps, GetParam().encoded, out);
  if (GetParam().name == "short_tile") {  // a device refuses short tiles
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code(), errc::corrupt_data);
    return;
  }
  ASSERT_TRUE(done.ok()) << done.error().to_string();
  EXPECT_EQ(out, GetParam().decoded);
}

INSTANTIATE_TEST_SUITE_P(Tiff, TiffCodecContract, testing::ValuesIn(codecs()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace penstock::contract
