// Codecs of arrays. python/tests/test_codec_numcodecs.py compares their numbers with NumPy's; these tests cover
// refusals, and rules that no other implementation has.

#include <cmath>
#include <cstring>

#include "codec/codec_fixture.h"
#include "codec/filters/number.h"

namespace penstock::inline v0 {
namespace {

template <class T>
bytes bytes_of(std::initializer_list<T> values) {
  bytes made(values.size() * sizeof(T));
  std::memcpy(made.data(), values.begin(), made.size());
  return made;
}

bytes hex(std::initializer_list<int> values) {
  bytes made;
  for (const int value : values) made.push_back(static_cast<std::byte>(value));
  return made;
}

codec_chain chain_of(std::string_view text, std::string_view type, std::uint64_t length) {
  auto made = compile(text, type, {length});
  EXPECT_TRUE(made.ok()) << text << made.error().to_string();
  return std::move(made).value();
}

void expect_stored(std::string_view text, std::string_view type, std::uint64_t length, const bytes& items,
                   const bytes& stored) {
  worker_scratch scratch;
  const codec_chain chain = chain_of(text, type, length);
  EXPECT_EQ(encode_all(chain, items, scratch), stored) << chain.describe();
  bytes out(items.size());
  const auto done = decode_all(chain, stored, out, scratch);
  ASSERT_TRUE(done.ok()) << done.error().to_string();
  EXPECT_EQ(out, items) << chain.describe();
}

TEST(Half, HoldsEveryBinary16AndRoundsToTheNearest) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    half value;
    value.bits = static_cast<std::uint16_t>(bits);
    const double wide = static_cast<double>(value);
    if (std::isnan(wide)) continue;
    ASSERT_EQ(half(wide).bits, value.bits);
    if ((bits & 0x7fff) >= 0x7bff) continue;
    half above;
    above.bits = static_cast<std::uint16_t>(bits + 1);
    const double middle = (wide + static_cast<double>(above)) / 2;
    ASSERT_EQ(half(middle).bits, bits % 2 == 0 ? bits : bits + 1) << bits;
    ASSERT_EQ(half(std::nextafter(middle, wide)).bits, bits);
    ASSERT_EQ(half(std::nextafter(middle, static_cast<double>(above))).bits, bits + 1);
  }
  EXPECT_EQ(half(65519.99).bits, 0x7bff);
  EXPECT_EQ(half(65520.0).bits, 0x7c00);
}

TEST(Numbers, PromoteAsNumPyDoes) {
  EXPECT_EQ(promote(number::int8, number::uint8), number::int16);
  EXPECT_EQ(promote(number::uint64, number::int8), number::float64);
  EXPECT_EQ(promote(number::int64, number::uint32), number::int64);
  EXPECT_EQ(promote(number::float16, number::int16), number::float32);
  EXPECT_EQ(promote(number::float16, number::uint8), number::float16);
  EXPECT_EQ(promote(number::float32, number::int32), number::float64);
  EXPECT_EQ(promote(number::boolean, number::int8), number::int8);
}

TEST(Delta, KeepsItsByteOrderBeforeBytes) {
  // Values are passed from codec to codec: '>i2' is what bytes(little) then swaps.
  expect_stored(
      R"([{"name":"numcodecs.delta","configuration":{"dtype":"<i4","astype":">i2"}},{"name":"bytes","configuration":{"endian":"little"}}])",
      "int32", 3, bytes_of<std::int32_t>({5, 7, 4}), bytes_of<std::int16_t>({5, 2, -3}));
  expect_stored(
      R"([{"name":"numcodecs.delta","configuration":{"dtype":"<i4"}},{"name":"bytes","configuration":{"endian":"big"}}])",
      "int32", 2, bytes_of<std::int32_t>({5, 7}), hex({0, 0, 0, 5, 0, 0, 0, 2}));
}

TEST(Packbits, StoresTheLowestBitFirst) {
  expect_stored(R"(["packbits"])", "bool", 10, hex({1, 0, 1, 1, 0, 0, 0, 0, 0, 1}), hex({0x0d, 0x02}));
  expect_stored(R"([{"name":"packbits","configuration":{"padding_encoding":"first_byte"}}])", "bool", 3, hex({1, 1, 0}),
                hex({5, 0x03}));
  expect_stored(R"([{"name":"packbits","configuration":{"padding_encoding":"last_byte"}}])", "uint4", 3,
                hex({1, 2, 15}), hex({0x21, 0x0f, 4}));
  expect_stored(R"(["packbits"])", "int4", 2, hex({0xff, 0x07}), hex({0x7f}));
  expect_stored(R"(["packbits"])", "int2", 4, hex({0x00, 0x01, 0xfe, 0xff}), hex({0xe4}));
  expect_stored(R"([{"name":"packbits","configuration":{"first_bit":4,"last_bit":11}}])", "int16", 2,
                bytes_of<std::int16_t>({0x7f0, -0x10}), hex({0x7f, 0xff}));
  expect_stored(R"(["packbits"])", "float32", 1, bytes_of<float>({1.5f}), bytes_of<float>({1.5f}));
}

TEST(Packbits, RefusesOtherSizesAndPaddings) {
  worker_scratch scratch;
  bytes out(3);
  const codec_chain chain =
      chain_of(R"([{"name":"packbits","configuration":{"padding_encoding":"first_byte"}}])", "bool", 3);
  EXPECT_FALSE(decode_all(chain, hex({4, 3}), out, scratch).ok());
  EXPECT_FALSE(decode_all(chain, hex({5}), out, scratch).ok());
  EXPECT_FALSE(decode_all(chain, hex({5, 3, 0}), out, scratch).ok());
  EXPECT_TRUE(decode_all(chain, hex({5, 3}), out, scratch).ok());
}

TEST(Packbits, NumcodecsFormRefusesLossyValues) {
  constexpr std::string_view kText = R"([{"name":"numcodecs.packbits"},"bytes"])";
  expect_stored(kText, "uint8", 3, hex({1, 0, 1}), hex({5, 0xa0}));
  expect_stored(kText, "int16", 1, bytes_of<std::int16_t>({0x101}), hex({6, 0xc0}));
  worker_scratch scratch;
  buffer room;
  bytes items = hex({1, 0, 7});
  const dtype type = dtype::from_name("uint8").value();
  const auto made = chain_of(kText, "uint8", 3).encode(tensor_view::contiguous(items.data(), type, {3}), room, scratch);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code(), errc::invalid_argument);
  EXPECT_NE(made.error().to_string().find("a byte of 7"), std::string::npos) << made.error().to_string();
}

TEST(Bitround, KeepsTheHighestBitsOfIntegers) {
  worker_scratch scratch;
  const codec_chain chain = chain_of(R"([{"name":"bitround","configuration":{"keepbits":3}},"bytes"])", "uint8", 7);
  EXPECT_EQ(encode_all(chain, hex({0, 7, 9, 13, 100, 250, 255}), scratch), hex({0, 7, 8, 12, 96, 224, 224}));
}

TEST(Reshape, ChangesTheInputOfTheNextTranspose) {
  expect_stored(
      R"([{"name":"reshape","configuration":{"shape":[2,-1]}},{"name":"transpose","configuration":{"order":[1,0]}},"bytes"])",
      "uint8", 6, hex({1, 2, 3, 4, 5, 6}), hex({1, 4, 2, 5, 3, 6}));
  for (const char* shape : {"[4]", "[-1,-1]", "[[0],2]", "[0,6]", "[[1]]", "[\"a\"]", "[[]]", "[[0],-1,7]"}) {
    EXPECT_FALSE(
        compile(std::string(R"([{"name":"reshape","configuration":{"shape":)") + shape + R"(}},"bytes"])", "uint8", {6})
            .ok())
        << shape;
  }
  EXPECT_TRUE(
      compile(R"([{"name":"reshape","configuration":{"shape":[[0,1],[2]]}},"bytes"])", "uint8", {2, 3, 4}).ok());
  EXPECT_FALSE(
      compile(R"([{"name":"reshape","configuration":{"shape":[[0,2],[1]]}},"bytes"])", "uint8", {2, 3, 4}).ok());
  EXPECT_TRUE(
      compile(R"(["squeeze",{"name":"transpose","configuration":{"order":[1,0]}},"bytes"])", "uint8", {2, 1, 4}).ok());
}

const std::string kN5 =
    R"([{"name":"n5_default","configuration":{"codecs":[{"name":"transpose","configuration":{"order":[1,0]}},{"name":"bytes","configuration":{"endian":"big"}}]}}])";

TEST(N5Default, WritesTheBlocksShapeAndItsFirstDimensionFastest) {
  worker_scratch scratch;
  const codec_chain chain = compile(kN5, "int16", {2, 3}).value();
  const bytes items = bytes_of<std::int16_t>({1, 2, 3, 4, 5, 6});
  const bytes stored = hex({0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3, 0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6});
  EXPECT_TRUE(chain.fixed_size());
  EXPECT_EQ(encode_all(chain, items, scratch), stored);
  bytes out(items.size());
  ASSERT_TRUE(decode_all(chain, stored, out, scratch).ok());
  EXPECT_EQ(out, items);
}

TEST(N5Default, ReadsBlocksThatEndAtTheArraysEdge) {
  worker_scratch scratch;
  const codec_chain chain = compile(kN5, "int16", {2, 3}).value();
  bytes out(12, std::byte{0xa5});
  const bytes cut = hex({0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 1, 0, 4});
  ASSERT_TRUE(decode_all(chain, cut, out, scratch).ok());
  EXPECT_EQ(out, bytes_of<std::int16_t>({1, 0, 0, 4, 0, 0}));
}

TEST(N5Default, RefusesOtherModesShapesAndCodecs) {
  worker_scratch scratch;
  const codec_chain chain = compile(kN5, "int16", {2, 3}).value();
  bytes out(12);
  for (const bytes& stored :
       {hex({0, 1, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 1, 0, 4}), hex({0, 0, 0, 1, 0, 0, 0, 2, 0, 1}),
        hex({0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 1, 0, 1, 0, 4, 0, 5}), hex({0, 0, 0, 2, 0}),
        hex({0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 1, 0})}) {
    EXPECT_FALSE(decode_all(chain, stored, out, scratch).ok());
  }
  EXPECT_FALSE(compile(R"([{"name":"n5_default","configuration":{"codecs":["bytes"]}}])", "uint8", {2, 3}).ok());
}

TEST(ScaleOffset, RefusesResultsThatTheTypeCannotHold) {
  worker_scratch scratch;
  const codec_chain chain =
      chain_of(R"([{"name":"scale_offset","configuration":{"offset":10,"scale":3}},"bytes"])", "uint8", 2);
  EXPECT_EQ(encode_all(chain, hex({10, 20}), scratch), hex({0, 30}));
  bytes out(2), room(chain.max_encoded_bytes());
  ASSERT_TRUE(decode_all(chain, hex({0, 30}), out, scratch).ok());
  EXPECT_EQ(out, hex({10, 20}));
  const auto inexact = decode_all(chain, hex({1, 30}), out, scratch);
  ASSERT_FALSE(inexact.ok());
  EXPECT_EQ(inexact.error().code(), errc::corrupt_data);
  bytes small = hex({9, 20});
  EXPECT_FALSE(chain.encode(tensor_view::contiguous(small.data(), chain.type(), chain.cell()), room, scratch).ok());
  EXPECT_FALSE(compile(R"([{"name":"scale_offset","configuration":{"scale":0}},"bytes"])", "uint8", {2}).ok());
  EXPECT_FALSE(compile(R"([{"name":"scale_offset","configuration":{"offset":300}},"bytes"])", "uint8", {2}).ok());
}

TEST(CastValue, RefusesValuesThatItsRulesDoNotAllow) {
  worker_scratch scratch;
  const codec_chain strict =
      chain_of(R"([{"name":"cast_value","configuration":{"data_type":"uint8"}},"bytes"])", "float64", 1);
  bytes room(strict.max_encoded_bytes());
  for (const double value : {255.5, -1.0, 1e300, std::nan(""), static_cast<double>(INFINITY)}) {
    bytes item = bytes_of<double>({value});
    EXPECT_FALSE(strict.encode(tensor_view::contiguous(item.data(), strict.type(), strict.cell()), room, scratch).ok())
        << value;
  }
  EXPECT_EQ(encode_all(strict, bytes_of<double>({254.5}), scratch), hex({254}));
  EXPECT_FALSE(
      compile(R"([{"name":"cast_value","configuration":{"data_type":"float32","out_of_range":"wrap"}},"bytes"])",
              "float64", {1})
          .ok());
}

TEST(Filters, RefuseTypesWithoutArithmetic) {
  EXPECT_FALSE(compile(R"([{"name":"numcodecs.delta","configuration":{"dtype":"|S4"}},"bytes"])", "uint8", {4}).ok());
  EXPECT_FALSE(compile(R"([{"name":"numcodecs.delta","configuration":{"dtype":"<i4"}},"bytes"])", "uint8", {5}).ok());
  EXPECT_FALSE(
      compile(R"([{"name":"numcodecs.quantize","configuration":{"digits":1,"dtype":"<i4"}},"bytes"])", "int32", {5})
          .ok());
}

TEST(Window, DecodesABoxOfAChunk) {
  // Of 3 x 4 chunks, every other column of the last two rows.
  const codec_chain chain = chain_of(
      R"(["bytes",{"name":"reference.window","configuration":{"chunk":12,"offset":4,"shape":[2,2],"strides":[4,2]}}])",
      "uint8", 4);
  worker_scratch scratch;
  bytes out(4);
  const auto done = decode_all(chain, hex({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), out, scratch);
  ASSERT_TRUE(done.ok()) << done.error().to_string();
  EXPECT_EQ(out, hex({4, 6, 8, 10}));
  EXPECT_EQ(decode_all(chain, hex({0, 1, 2}), out, scratch).error().code(), errc::corrupt_data);
  for (const char* const wrong : {
           R"({"chunk":11,"offset":4,"shape":[2,2],"strides":[4,3]})",
           R"({"chunk":12,"offset":12,"shape":[4],"strides":[0]})",
           R"({"chunk":12,"offset":0,"shape":[3],"strides":[1]})",
           R"({"chunk":12,"offset":0,"shape":[2,2],"strides":[1]})",
           R"({"chunk":12,"offset":0,"shape":[4,0],"strides":[1,1]})",
           R"({"chunk":12,"offset":0,"shape":[4],"strides":[9223372036854775807]})",
           R"({"chunk":12,"offset":-1,"shape":[4],"strides":[1]})",
       }) {
    const std::string text = std::string(R"(["bytes",{"name":"reference.window","configuration":)") + wrong + "}]";
    const auto made = compile(text, "uint8", {4});
    EXPECT_TRUE(!made.ok() && made.error().code() == errc::corrupt_data) << wrong;
  }
}

}  // namespace
}  // namespace penstock::inline v0
