#include "codec/tiff/tiff_pictures.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "codec/worker_scratch.h"

namespace penstock {
namespace {

using maker = result<std::shared_ptr<const byte_codec>> (*)(tiff_picture);
struct subject {
  const char* name;
  std::uint16_t compression;
  maker make;
  std::uint32_t bits;
  std::vector<int> begin;  ///< of a stream, so that later checks are reached
};

void PrintTo(const subject& one, std::ostream* to) { *to << one.name; }

tiff_picture picture_of(const subject& one) {
  tiff_picture out;
  out.rows = 24;
  out.width = 40;
  out.bits = one.bits;
  out.compression = one.compression;
  return out;
}

class Pictures : public testing::TestWithParam<subject> {
 protected:
  void SetUp() override {
    auto made = GetParam().make(picture_of(GetParam()));
    if (!made.ok() && made.error().code() == errc::unsupported)
      GTEST_SKIP() << "this build was made without the library: " << made.error().to_string();
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    codec = *made;
  }
  std::shared_ptr<const byte_codec> codec;
};

TEST_P(Pictures, AnyBytesAreRefusedOrFillTheTile) {
  std::mt19937 random(7);
  worker_scratch scratch;
  const std::size_t needed = picture_of(GetParam()).bytes();
  for (int round = 0; round < 300; ++round) {
    std::vector<std::byte> stream;
    for (const int value : GetParam().begin) stream.push_back(static_cast<std::byte>(value));
    for (std::size_t i = random() % 200; i > 0; --i) stream.push_back(static_cast<std::byte>(random()));
    std::vector<std::byte> out(needed);
    const auto made = codec->decode(stream, out, scratch);
    if (made.ok()) {
      EXPECT_EQ(made->size(), needed);
    } else {
      EXPECT_EQ(made.error().code(), errc::corrupt_data) << made.error().to_string();
    }
  }
}

TEST_P(Pictures, NeedSpaceForTheTile) {
  worker_scratch scratch;
  std::vector<std::byte> out(picture_of(GetParam()).bytes() - 1), stream(8);
  EXPECT_FALSE(codec->decode(stream, out, scratch).ok());
  EXPECT_TRUE(scratch.out_of_room);
}

TEST_P(Pictures, AreRefusedIfTheSizeExceeds31Bits) {
  tiff_picture huge = picture_of(GetParam());
  huge.rows = huge.width = std::uint64_t{1} << 20;
  const auto made = GetParam().make(huge);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code(), errc::unsupported);
}

INSTANTIATE_TEST_SUITE_P(
    TiffCodecs, Pictures,
    testing::Values(
        subject{"jpeg", 7, make_tiff_library_codec, 8, {0xff, 0xd8, 0xff, 0xc0, 0, 11, 8, 0, 24, 0, 40, 1, 1, 0x11, 0}},
        subject{"ccitt_rle", 2, make_tiff_library_codec, 1, {}},
        subject{"ccitt_fax3", 3, make_tiff_library_codec, 1, {0, 1}},
        subject{"ccitt_fax4", 4, make_tiff_library_codec, 1, {}},
        subject{"lerc", 34887, make_tiff_library_codec, 8, {'L', 'e', 'r', 'c', '2', ' ', 4, 0, 0, 0}},
        subject{
            "webp", 50001, make_tiff_library_codec, 8, {'R', 'I', 'F', 'F', 60, 0, 0, 0,    'W', 'E',  'B', 'P', 'V',
                                                        'P', '8', 'L', 40,  0,  0, 0, 0x2f, 39,  0xc0, 5,   0}},
        subject{"jpeg2000", 34712, make_tiff_jpeg2000_codec, 8, {0xff, 0x4f, 0xff, 0x51, 0, 41, 0, 0,  0, 0, 0, 40,
                                                                 0,    0,    0,    24,   0, 0,  0, 0,  0, 0, 0, 0,
                                                                 0,    0,    0,    40,   0, 0,  0, 24, 0, 0, 0, 0,
                                                                 0,    0,    0,    0,    0, 1,  7, 1,  1}},
        subject{"jpegxl", 50002, make_tiff_jpegxl_codec, 8, {0xff, 0x0a}}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(PicturesOfTiff, UnsupportedSamplesAreRefusedByName) {
  tiff_picture wide;
  wide.rows = wide.width = 8;
  wide.bits = 12;
  wide.compression = 7;
  const auto made = make_tiff_library_codec(wide);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().to_string(),
            "unsupported: compression 7 of 1 sample of 12 bits is not readable in this build");
}

// A library that has it reports that the stream is too short.
TEST(PicturesOfTiff, AnUnsupportedJpegProcessIsNotReportedAsDamage) {
  tiff_picture picture;
  picture.rows = picture.width = 8;
  picture.compression = 7;
  auto made = make_tiff_library_codec(picture);
  if (!made.ok()) GTEST_SKIP() << "needs libtiff";
  constexpr std::array<std::uint8_t, 15> kArithmetic{0xff, 0xd8, 0xff, 0xcb, 0, 11, 8, 0, 8, 0, 8, 1, 1, 0x11, 0};
  worker_scratch scratch;
  std::vector<std::byte> out(picture.bytes());
  const auto decoded = (*made)->decode(std::as_bytes(std::span(kArithmetic)), out, scratch);
  ASSERT_FALSE(decoded.ok());
  const bool has_it = decoded.error().to_string().find("Unsupported JPEG process") == std::string::npos;
  EXPECT_EQ(decoded.error().code(), has_it ? errc::corrupt_data : errc::unsupported) << decoded.error().to_string();
}

}  // namespace
}  // namespace penstock
