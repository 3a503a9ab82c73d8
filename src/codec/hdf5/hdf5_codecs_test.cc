// HDF5's filters on streams made by hand; the Python tests use streams of h5py and its plugins.

#include <cstring>

#include "codec/byte_codecs.h"
#include "codec/codec_fixture.h"

namespace penstock::inline v0 {
namespace {

bytes of(std::initializer_list<int> values) {
  bytes made;
  for (const int value : values) made.push_back(static_cast<std::byte>(value));
  return made;
}

std::shared_ptr<const byte_codec> codec(std::string_view name, std::string_view settings) {
  auto made = make_byte_codec({std::string(name), json::parse(settings).value()}, 1);
  EXPECT_TRUE(made.ok()) << made.error().to_string();
  return made.ok() ? *made : nullptr;
}

/// The decoded bytes, or the text of the error.
std::string decoded(std::string_view name, std::string_view settings, const bytes& from, std::size_t room = 64) {
  const auto with = codec(name, settings);
  if (with == nullptr) return "no codec";
  worker_scratch scratch;
  bytes out(room);
  auto made = with->decode(from, out, scratch);
  if (!made.ok()) return made.error().to_string();
  std::string text;
  for (const std::byte each : *made) text += (text.empty() ? "" : " ") + std::to_string(static_cast<int>(each));
  return text;
}

TEST(Hdf5Codecs, LzfCopiesLiteralsAndReferencesThatOverlap) {
  EXPECT_EQ(decoded("hdf5.lzf", "{}", of({1, 7, 8, 0x20, 0})), "7 8 8 8 8");              // 3 bytes from 1 before
  EXPECT_EQ(decoded("hdf5.lzf", "{}", of({0, 5, 0xe0, 1, 0})), "5 5 5 5 5 5 5 5 5 5 5");  // 7 + 1 + 2 bytes
  EXPECT_NE(decoded("hdf5.lzf", "{}", of({0, 5, 0x20, 1})).find("begins before the output"), std::string::npos);
  EXPECT_NE(decoded("hdf5.lzf", "{}", of({2, 5})).find("ends within a run"), std::string::npos);
  EXPECT_NE(decoded("hdf5.lzf", "{}", of({0, 5, 0xe0})).find("ends within a reference"), std::string::npos);
  EXPECT_NE(decoded("hdf5.lzf", "{}", of({1, 5, 6}), 1).find("the output has room for 1"), std::string::npos);
}

TEST(Hdf5Codecs, Lz4BlocksThatDidNotShrinkAreStoredUnchanged) {
  const bytes stored = of({0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 3, 1, 2, 3, 0, 0, 0, 2, 4, 5});
  EXPECT_EQ(decoded("hdf5.lz4", "{}", stored), "1 2 3 4 5");
  bytes none = stored;
  none[11] = std::byte{0};
  EXPECT_NE(decoded("hdf5.lz4", "{}", none).find("blocks of 0 bytes"), std::string::npos);
  bytes cut(stored.begin(), stored.end() - 1);
  EXPECT_NE(decoded("hdf5.lz4", "{}", cut).find("a block of 2 bytes, there are 1"), std::string::npos);
  bytes huge = stored;
  huge[0] = std::byte{0x7f};
  EXPECT_NE(decoded("hdf5.lz4", "{}", huge).find("the output has room for 64"), std::string::npos);
}

TEST(Hdf5Codecs, BitshuffleKeepsAnIncompleteGroupOfEight) {
  // Plane b has bit b of each of eight elements: element i is 1 << i here, then two elements unchanged.
  const bytes planes = of({1, 2, 4, 8, 16, 32, 64, 128, 200, 201});
  EXPECT_EQ(decoded("hdf5.bitshuffle", R"({"elementsize":1,"blocksize":0,"compression":"none"})", planes),
            "1 2 4 8 16 32 64 128 200 201");
  const bytes ones = of({255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 15});
  EXPECT_EQ(decoded("hdf5.bitshuffle", R"({"elementsize":2,"blocksize":8,"compression":"none"})", ones),
            "1 128 1 128 1 128 1 128 1 0 1 0 1 0 1 0");
  EXPECT_NE(decoded("hdf5.bitshuffle", R"({"elementsize":2,"blocksize":9,"compression":"none"})", ones)
                .find("blocks of 9 elements"),
            std::string::npos);
}

TEST(Hdf5Codecs, NbitTakesTheHighestBitsFirst) {
  // 5 bits from bit 2 of a byte: 10110 and 00001 packed into 10110000 01000000.
  EXPECT_EQ(decoded("hdf5.nbit", R"({"parameters":[8,0,2,1,1,0,5,2]})", of({0xb0, 0x40})), "88 4");
  // 12 bits of a big-endian pair: 0xabc.
  EXPECT_EQ(decoded("hdf5.nbit", R"({"parameters":[8,0,1,1,2,1,12,0]})", of({0xab, 0xc0})), "10 188");
  EXPECT_NE(
      decoded("hdf5.nbit", R"({"parameters":[8,0,3,1,1,0,5,2]})", of({0xb0})).find("ends before its last element"),
      std::string::npos);
  for (const char* bad : {R"([8,0,2,1,1,0,9,0])", R"([8,0,2,9,1,0,5,2])", R"([8,0,2,1,1,0])",
                          R"([8,0,2,2,7,1,2,0,9,0])", R"([12,0,2,3,4,1,3,1,2,0,9,0])", R"([3,0,2])",
                          // A part behind the end of an element: in an array of 0 bytes, and in one of a compound that
                          // is larger than the array.
                          R"([14,0,2,3,8,1,8,2,0,1,8,0,64,0])", R"([10,0,2,2,10,3,4096,1,2048,4,1])"}) {
    const auto made =
        make_byte_codec({"hdf5.nbit", json::parse(std::string(R"({"parameters":)") + bad + "}").value()}, 1);
    EXPECT_FALSE(made.ok()) << bad;
  }
}

TEST(Hdf5Codecs, NbitOfArraysOfCompoundsStaysInTheElement) {
  // Two compounds of 4 bytes, each with 2 plain bytes from its byte 2 on.
  EXPECT_EQ(decoded("hdf5.nbit", R"({"parameters":[10,0,2,2,8,3,4,1,2,4,2]})", of({1, 2, 3, 4, 5, 6, 7, 8})),
            "0 0 1 2 0 0 3 4 0 0 5 6 0 0 7 8");
  // An array of plain items is one part, as the filter writes it.
  EXPECT_EQ(decoded("hdf5.nbit", R"({"parameters":[7,0,2,2,4,4,2]})", of({1, 2, 3, 4, 5, 6, 7, 8})), "1 2 3 4 5 6 7 8");
  // Parts that share bytes are not read if their bits are not there, however many they are; parts of 0 bytes are not.
  EXPECT_NE(decoded("hdf5.nbit", R"({"parameters":[12,0,1,3,268435456,2,0,4,268435456,0,4,268435456]})", of({1}))
                .find("ends before its last element"),
            std::string::npos);
  EXPECT_EQ(decoded("hdf5.nbit", R"({"parameters":[12,0,2,3,1,2,0,4,0,0,4,1]})", of({7, 8})), "7 8");
  // Many compounds without members: no part is repeated 2^28 times.
  EXPECT_EQ(decoded("hdf5.nbit", R"({"parameters":[9,0,0,3,268435456,1,0,2,268435456,3,1,0]})", {}), "");
}

TEST(Hdf5Codecs, NbitLeavesOtherTypesUnchanged) {
  // What the filter stores for text, opaque bytes and enumerations: that it does nothing.
  EXPECT_EQ(decoded("hdf5.nbit", R"({"parameters":[3,1,9]})", of({3, 0, 255})), "3 0 255");
}

TEST(Hdf5Codecs, ScaleOffsetAddsTheLeastValue) {
  bytes stream(21);
  stream[0] = std::byte{4};  // bits
  stream[4] = std::byte{8};
  stream[5] = std::byte{100};
  stream.push_back(std::byte{0x3f});
  const std::string settings = R"({"parameters":[2,0,2,0,2,1,0,1,9]})";
  EXPECT_EQ(decoded("hdf5.scaleoffset", settings, stream), "103 0 9 0") << "all ones are the fill value";
  EXPECT_EQ(decoded("hdf5.scaleoffset", R"({"parameters":[2,0,2,0,2,1,1,0]})", stream), "0 103 0 115");
  stream[0] = std::byte{17};
  EXPECT_NE(decoded("hdf5.scaleoffset", settings, stream).find("values of 17 bits"), std::string::npos);
  stream.resize(20);
  EXPECT_NE(decoded("hdf5.scaleoffset", settings, stream).find("header has 21 bytes"), std::string::npos);
}

TEST(Hdf5Codecs, ScaleOffsetSwapsValuesOfAllBitsToo) {
  bytes stream(21);
  stream[0] = std::byte{16};  // bits
  stream[4] = std::byte{8};
  for (const int each : {1, 2, 3, 4}) stream.push_back(static_cast<std::byte>(each));
  EXPECT_EQ(decoded("hdf5.scaleoffset", R"({"parameters":[2,0,2,0,2,1,0,0]})", stream), "1 2 3 4");
  EXPECT_EQ(decoded("hdf5.scaleoffset", R"({"parameters":[2,0,2,0,2,1,1,0]})", stream), "2 1 4 3");
}

TEST(Hdf5Codecs, SmallIntegersGetTheirSignBack) {
  EXPECT_EQ(decoded("hdf5.bits", R"({"elementsize":2,"precision":5,"offset":3,"signed":true})", of({0xb8, 0, 0x78, 0})),
            "247 255 15 0");
  EXPECT_EQ(decoded("hdf5.bits", R"({"elementsize":2,"precision":9,"offset":0,"endian":"big"})", of({0xff, 3})), "1 3");
}

TEST(Hdf5Codecs, TextIsClearedAfterItsEnd) {
  EXPECT_EQ(decoded("hdf5.string", R"({"elementsize":6,"fields":[[0,1,3,0],[3,1,3,1]]})", of({97, 0, 98, 32, 99, 32})),
            "97 0 0 32 99 0");
  for (const char* bad : {R"([[2,1,3,0]])", R"([[0,1,3,0],[2,1,2,0]])"}) {  // outside of the item, overlapping
    const auto settings = json::parse(std::string(R"({"elementsize":4,"fields":)") + bad + "}");
    EXPECT_FALSE(make_byte_codec({"hdf5.string", settings.value()}, 1).ok()) << bad;
  }
  EXPECT_EQ(decoded("hdf5.string", R"({"elementsize":2,"fields":[[0,2,0,0]]})", of({97, 98})), "97 98");
}

TEST(Hdf5Codecs, ShuffleKeepsTheRest) {
  EXPECT_EQ(decoded("hdf5.shuffle", R"({"elementsize":2})", of({1, 3, 2, 4, 9})), "1 2 3 4 9");
  EXPECT_NE(decoded("shuffle", R"({"elementsize":2})", of({1, 3, 2, 4, 9})).find("not a multiple"), std::string::npos);
}

TEST(Hdf5Codecs, FieldIsCutFromEachItem) {
  const char* const settings = R"({"elementsize":4,"offset":1,"bytes":2})";
  EXPECT_EQ(decoded("hdf5.field", settings, of({1, 2, 3, 4, 5, 6, 7, 8})), "2 3 6 7");
  EXPECT_NE(decoded("hdf5.field", settings, of({1, 2, 3})).find("3 bytes are not a multiple"), std::string::npos);
  EXPECT_NE(decoded("hdf5.field", settings, bytes(400)).find("the output has room for 64"), std::string::npos);
  for (const char* bad : {R"({"elementsize":4,"offset":3,"bytes":2})", R"({"elementsize":4,"offset":0,"bytes":0})"})
    EXPECT_FALSE(make_byte_codec({"hdf5.field", json::parse(bad).value()}, 1).ok()) << bad;
}

TEST(Hdf5Codecs, Blosc2ReportsTheFaultOfAFrame) {
  // A frame of one chunk, 0 to 5 in 16 bits, as hdf5plugin writes it; the chunk begins at byte 97, its index at 141.
  const bytes frame = of(
      {158, 168, 98, 50, 102, 114, 97,  109, 101, 0,   210, 0, 0, 0,   97,  207, 0,   0,   0, 0,   0,   0,   0,   216,
       164, 18,  0,  81, 3,   211, 0,   0,   0,   0,   0,   0, 0, 12,  211, 0,   0,   0,   0, 0,   0,   0,   44,  210,
       0,   0,   0,  2,  210, 0,   0,   0,   12,  210, 0,   0, 0, 12,  209, 0,   0,   209, 0, 1,   194, 216, 6,   0,
       0,   0,   0,  0,  1,   1,   0,   0,   0,   0,   0,   0, 0, 0,   0,   147, 205, 0,   7, 222, 0,   0,   220, 0,
       0,   5,   1,  7,  2,   12,  0,   0,   0,   12,  0,   0, 0, 44,  0,   0,   0,   0,   0, 0,   0,   0,   1,   1,
       0,   0,   0,  0,  0,   0,   0,   0,   0,   0,   0,   1, 0, 2,   0,   3,   0,   4,   0, 5,   0,   5,   1,   7,
       8,   8,   0,  0,  0,   8,   0,   0,   0,   40,  0,   0, 0, 0,   0,   0,   0,   0,   1, 0,   0,   0,   0,   0,
       0,   0,   0,  0,  0,   0,   0,   0,   0,   0,   0,   0, 0, 148, 1,   147, 205, 0,   6, 222, 0,   0,   220, 0,
       0,   206, 0,  0,  0,   35,  216, 0,   0,   0,   0,   0, 0, 0,   0,   0,   0,   0,   0, 0,   0,   0,   0,   0});
  EXPECT_EQ(decoded("hdf5.blosc2", "{}", frame), "0 0 1 0 2 0 3 0 4 0 5 0");
  const auto with = [&frame](std::size_t at, int value) {
    bytes changed = frame;
    changed.at(at) = static_cast<std::byte>(value);
    return decoded("hdf5.blosc2", "{}", changed);
  };
  const auto expect = [](const std::string& got, const char* text) {
    EXPECT_NE(got.find(text), std::string::npos) << got;
  };
  expect(decoded("hdf5.blosc2", "{}", frame, 11), "it decodes to 12 bytes, the output has room for 11");
  expect(decoded("hdf5.blosc2", "{}", bytes(frame.begin(), frame.begin() + 80)), "it has 80 bytes");
  expect(decoded("hdf5.blosc2", "{}", bytes(frame.begin(), frame.end() - 1)), "a frame of 216 bytes");
  expect(with(2, 'c'), "it is not a Blosc 2 frame");
  expect(with(0x1a, 1), "a frame whose chunks are files is not readable");
  expect(with(0x2e, 200), "chunks of 200 bytes, there are 119");
  expect(with(0x33, 0), "items of 0 bytes");
  expect(with(0x3d, 0), "it has chunks of 0 bytes");
  expect(with(0x3d, 5), "an index of 8 bytes for 3 chunks");
  expect(with(97, 2), "blosc2 chunk has format version 2");
  expect(with(97 + 3, 0), "has items of 0 bytes");
  expect(with(97 + 4, 11), "plain copy of 11");
  expect(with(97 + 12, 255), "declares 255 bytes, there are 44");
  expect(with(97 + 30, 1), "unsupported: blosc2 chunk has blocks of different lengths");
  expect(with(97 + 31, 0x10), "0 0 0 0 0 0 0 0 0 0 0 0");
  expect(with(97 + 31, 0x20), "consists of NaN, its items have 2 bytes");
  expect(with(97 + 31, 0x50), "special values of kind 5");
  expect(with(97 + 2, 0xc5), "codec 1, which belongs to a plugin");
  expect(with(97 + 2, 0x45), "has codec 2");
  expect(with(97 + 2, 0x05), "block 0 at byte 65536");
  bytes plugin = frame;
  plugin.at(97 + 2) = std::byte{0x05};
  plugin.at(97 + 16) = std::byte{35};
  expect(decoded("hdf5.blosc2", "{}", plugin), "unsupported: blosc2 chunk has filter 35, which belongs to a plugin");
}

TEST(Hdf5Codecs, CastEndsAtTheLimitsOfTheOtherType) {
  const bytes shorts = of({0x80, 0, 0, 100, 0x7f, 0xff, 0xff, 0xff});  // -32768, 100, 32767, -1
  EXPECT_EQ(decoded("hdf5.cast", R"({"from":">i2","to":"|i1"})", shorts), "128 100 127 255");
  EXPECT_EQ(decoded("hdf5.cast", R"({"from":">i2","to":"|u1"})", shorts), "0 100 255 0");
  EXPECT_EQ(decoded("hdf5.cast", R"({"from":"<f4","to":"|u1"})", of({0, 0, 0xc0, 0x7f, 0, 0, 0x3f, 0x40})), "0 2");
  EXPECT_EQ(decoded("hdf5.cast", R"({"from":"<f2","to":"<f4"})", of({0, 0x3c})), "0 0 128 63");
  for (const char* bad : {R"({"from":"<i2","to":"<f2"})", R"({"from":"<i2","to":">i4"})",
                          R"({"from":"|S2","to":"<i4"})", R"({"to":"<i4"})"})
    EXPECT_FALSE(make_byte_codec({"hdf5.cast", json::parse(bad).value()}, 1).ok()) << bad;
}

TEST(Hdf5Codecs, SzipRefusesPartsOfSamples) {
  const bytes stream = of({2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_NE(decoded("hdf5.szip", R"({"options":169,"block":4,"bits":64,"scanline":16})", stream)
                .find("samples have 8 bytes, the header has 2 in total"),
            std::string::npos);
}

TEST(Hdf5Codecs, AreOnlyRead) {
  worker_scratch scratch;
  bytes room(100);
  auto made = codec("hdf5.lzf", "{}")->encode(of({1, 2}), room, scratch);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().to_string(), "unsupported: codec 'hdf5.lzf' can only decode");
}

}  // namespace
}  // namespace penstock::inline v0
