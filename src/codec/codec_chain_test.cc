#include "codec/codec_chain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "array/strided_copy.h"
#include "codec/codec_fixture.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kZstd = R"({"name":"zstd","configuration":{"level":3}})";

void expect_refused(std::string_view text, errc code, std::string_view message, std::string_view type = "int32",
                    const extents& cell = {4, 6}) {
  const auto made = compile(text, type, cell);
  ASSERT_FALSE(made.ok()) << text;
  EXPECT_EQ(made.error().code(), code) << made.error().message();
  EXPECT_NE(made.error().message().find(message), std::string::npos) << made.error().message();
}

std::string one(std::string_view name, std::string_view configuration) {
  return R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":")" + std::string(name) +
         R"(","configuration":)" + std::string(configuration) + "}]";
}

TEST(CodecChain, DescribesItselfInEncodingOrder) {
  const auto chain = compile(
      R"([{"name":"transpose","configuration":{"order":[1,0]}},{"name":"bytes","configuration":{"endian":"big"}},
          {"name":"zstd","configuration":{"level":0,"checksum":true}},{"name":"crc32c"}])",
      "int32", {4, 6});
  ASSERT_TRUE(chain.ok()) << chain.error().message();
  EXPECT_EQ(chain->describe(), "transpose(1, 0) | bytes(big) | zstd(level=0, checksum) | crc32c");
  EXPECT_EQ(chain->decoded_bytes(), 96u);
  EXPECT_FALSE(chain->fixed_size());
  EXPECT_FALSE(chain->is_identity());
  EXPECT_EQ(compile(one("blosc", R"({"cname":"lz4","clevel":5,"shuffle":"bitshuffle","typesize":4,"blocksize":0})"),
                    "int32", {4})
                ->describe(),
            "bytes(little) | blosc(cname=lz4, clevel=5, shuffle=bitshuffle)");
  EXPECT_EQ(compile(one("gzip", R"({"level":6})"), "int32", {4})->describe(), "bytes(little) | gzip(level=6)");
}

TEST(CodecChain, IsAnIdentityIfStoredBytesAreTheCell) {
  const auto identity = [](std::string_view text, std::string_view type, const extents& cell) {
    const auto chain = compile(text, type, cell);
    EXPECT_TRUE(chain.ok()) << chain.error().message();
    return chain->is_identity();
  };
  EXPECT_TRUE(identity(R"(["bytes"])", "uint8", {4, 6}));
  EXPECT_TRUE(identity(R"([{"name":"bytes","configuration":{"endian":"little"}}])", "int32", {4, 6}));
  EXPECT_TRUE(identity(R"([{"name":"bytes","configuration":{"endian":"big"}}])", "uint8", {4, 6}));
  EXPECT_TRUE(identity(R"([{"name":"transpose","configuration":{"order":[1,0]}},"bytes"])", "uint8", {1, 6}));
  EXPECT_FALSE(identity(R"([{"name":"transpose","configuration":{"order":[1,0]}},"bytes"])", "uint8", {4, 6}));
  EXPECT_FALSE(identity(R"([{"name":"bytes","configuration":{"endian":"big"}}])", "int32", {4, 6}));
  EXPECT_FALSE(identity(R"(["bytes","crc32c"])", "uint8", {4, 6}));
  EXPECT_TRUE(identity(R"(["bytes"])", "uint8", {}));
}

TEST(CodecChain, ReportsWhichChainsHaveAFixedSize) {
  const auto plain = compile(R"(["bytes"])", "uint8", {4, 6});
  EXPECT_TRUE(plain->fixed_size());
  EXPECT_EQ(plain->max_encoded_bytes(), 24u);
  const auto checked = compile(R"(["bytes","crc32c","crc32c"])", "uint8", {4, 6});
  EXPECT_TRUE(checked->fixed_size());
  EXPECT_EQ(checked->max_encoded_bytes(), 32u);
  const auto packed = compile("[\"bytes\"," + std::string(kZstd) + "]", "uint8", {4, 6});
  EXPECT_FALSE(packed->fixed_size());
  EXPECT_EQ(packed->max_encoded_bytes(), 2 * 24u + 65536u);
}

TEST(CodecChain, RefusesCodecsByName) {
  expect_refused(R"([{"name":"bytes","configuration":{"endian":"little"}},"gdeflate"])", errc::unsupported,
                 "'gdeflate'");
  expect_refused(R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"numcodecs.pcodec"}])",
                 errc::unsupported, "'numcodecs.pcodec'");
  expect_refused(R"(["jpegxl"])", errc::unsupported, "'jpegxl'");
  expect_refused(R"(["sharding_indexed"])", errc::unsupported, "'sharding_indexed'");
  expect_refused(R"(["vlen-utf8"])", errc::unsupported, "codec 'vlen-utf8' does not support int32");
}

TEST(CodecChain, RefusesAWrongOrderOfCodecs) {
  expect_refused("[]", errc::corrupt_data, "the list of 0 codecs has no array-to-bytes codec");
  expect_refused(R"([{"name":"transpose","configuration":{"order":[1,0]}}])", errc::corrupt_data,
                 "the list of 1 codec has no array-to-bytes codec");
  expect_refused("[" + std::string(kZstd) + R"(,{"name":"bytes","configuration":{"endian":"little"}}])",
                 errc::corrupt_data, "codec 'zstd' works on bytes");
  expect_refused(
      R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"transpose","configuration":{"order":[1,0]}}])",
      errc::corrupt_data, "codec 'transpose' works on arrays");
  expect_refused(
      R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"bytes","configuration":{"endian":"little"}}])",
      errc::corrupt_data, "codec 'bytes' works on arrays");
}

TEST(CodecChain, NeedsAByteOrderForItemsOfSeveralBytesOnly) {
  expect_refused(R"(["bytes"])", errc::corrupt_data, "codec 'bytes' needs the setting 'endian'");
  expect_refused(R"([{"name":"bytes","configuration":{"endian":"middle"}}])", errc::corrupt_data, "\"middle\"");
  expect_refused(R"([{"name":"bytes","configuration":{"endian":1}}])", errc::corrupt_data, "'endian' should be one of");
  EXPECT_TRUE(compile(R"(["bytes"])", "bool", {4}).ok());
  EXPECT_TRUE(compile(R"(["bytes"])", "r24", {4}).ok());
  EXPECT_TRUE(compile(R"([{"name":"bytes","configuration":{}}])", "int8", {4}).ok());
}

TEST(CodecChain, ChecksTheOrderOfATranspose) {
  const auto text = [](std::string_view order) {
    return R"([{"name":"transpose","configuration":{"order":)" + std::string(order) +
           R"(}},{"name":"bytes","configuration":{"endian":"little"}}])";
  };
  for (const char* order : {"[0]", "[0,0]", "[0,2]", "[0,-1]", "[0,1,2]", "[1.0,0]", "[]"}) {
    expect_refused(text(order), errc::corrupt_data, "'order' should be a permutation of 2 dimensions");
  }
  expect_refused(text("\"F\""), errc::corrupt_data, "'order' should be an array");
  expect_refused(R"([{"name":"transpose"},{"name":"bytes","configuration":{"endian":"little"}}])", errc::corrupt_data,
                 "codec 'transpose' needs the setting 'order'");
  EXPECT_TRUE(compile(text("[1,0]"), "int32", {4, 6}).ok());
  EXPECT_TRUE(compile(text("[]"), "int32", {}).ok());
}

TEST(CodecChain, ChecksEachSettingOfEachCodec) {
  expect_refused(one("zstd", "{}"), errc::corrupt_data, "codec 'zstd' needs the setting 'level'");
  expect_refused(one("zstd", R"({"level":23})"), errc::corrupt_data, "'level' should be an integer from -131072 to 22");
  expect_refused(one("zstd", R"({"level":3,"checksum":1})"), errc::corrupt_data, "'checksum' should be true or false");
  expect_refused(one("zstd", R"({"level":3,"dictionary":"x"})"), errc::unsupported, "no setting 'dictionary'");
  expect_refused(one("zstd", "[]"), errc::corrupt_data, "configuration should be an object");
  expect_refused(one("gzip", R"({"level":10})"), errc::corrupt_data, "'level' should be an integer from 0 to 9");
  expect_refused(one("gzip", R"({"level":"5"})"), errc::corrupt_data, "'level' should be an integer from 0 to 9");
  expect_refused(one("crc32c", R"({"location":"start"})"), errc::unsupported, "no setting 'location'");
  expect_refused(one("blosc", R"({"clevel":5,"shuffle":"noshuffle"})"), errc::corrupt_data,
                 "needs the setting 'cname'");
  expect_refused(one("blosc", R"({"cname":"lz5","clevel":5,"shuffle":"noshuffle"})"), errc::corrupt_data, "\"lz5\"");
  expect_refused(one("blosc", R"({"cname":"lz4","clevel":10,"shuffle":"noshuffle"})"), errc::corrupt_data, "'clevel'");
  expect_refused(one("blosc", R"({"cname":"lz4","clevel":5,"shuffle":1})"), errc::corrupt_data, "'shuffle'");
  expect_refused(one("blosc", R"({"cname":"lz4","clevel":5,"shuffle":"shuffle"})"), errc::corrupt_data,
                 "needs the setting 'typesize'");
  expect_refused(one("blosc", R"({"cname":"lz4","clevel":5,"shuffle":"shuffle","typesize":0})"), errc::corrupt_data,
                 "'typesize'");
  expect_refused(one("blosc", R"({"cname":"lz4","clevel":5,"shuffle":"noshuffle","blocksize":-1})"), errc::corrupt_data,
                 "'blocksize'");
  EXPECT_TRUE(compile(one("blosc", R"({"cname":"lz4","clevel":5,"shuffle":"noshuffle","typesize":null,"blocksize":0})"),
                      "int32", {4})
                  .ok());
}

TEST(CodecChain, RefusesTypesAndShapesWithoutASize) {
  expect_refused(R"(["bytes"])", errc::unsupported, "elements of variable length (string)", "string");
  const std::uint64_t big = std::uint64_t{1} << 31;
  expect_refused(R"(["bytes"])", errc::unsupported, "2^63 bytes", "uint8", {big, big, 2});
  EXPECT_FALSE(compile(R"(["bytes"])", "uint8", {big, big, big}).ok());
}

TEST(CodecChain, BoundsDoNotWrap) {
  const std::uint64_t big = (std::uint64_t{1} << 62) - 1;
  for (const std::string& text : byte_codec_texts()) {
    const codec_chain chain = byte_chain(text + "," + text + "," + text, big);
    EXPECT_GE(chain.max_encoded_bytes(), big) << text;
  }
}

TEST(CodecChain, NamesEveryCodecOnceAndSorted) {
  const std::vector<std::string> names = codec_names();
  for (std::size_t i = 1; i < names.size(); ++i) EXPECT_LT(names[i - 1], names[i]);
  for (const char* name : {"blosc", "bytes", "crc32c", "transpose", "vlen-utf8", "zlib"}) {
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  }
}

TEST(CodecChain, KnowsThePlacesOfCodecs) {
  EXPECT_EQ(place_of_codec("numcodecs.delta"), codec_place::array);
  EXPECT_EQ(place_of_codec("numcodecs.packbits"), codec_place::array);
  EXPECT_EQ(place_of_codec("packbits"), codec_place::array_to_bytes);
  EXPECT_EQ(place_of_codec("zstd"), codec_place::bytes);
  EXPECT_FALSE(place_of_codec("bytes").has_value());
}

TEST(CodecChain, ReportsTheSizeThatTheShapeNeeds) {
  worker_scratch scratch;
  const std::string zstd(kZstd);
  const bytes encoded = encode_all(byte_chain(zstd, 4080), smooth_bytes(4080, 1), scratch);
  bytes out(5000);
  const auto shorter = decode_all(byte_chain(zstd, 4096), encoded, out, scratch);
  ASSERT_FALSE(shorter.ok());
  EXPECT_EQ(shorter.error().code(), errc::corrupt_data);
  EXPECT_EQ(shorter.error().message(), "chunk decoded to 4080 bytes, its shape needs 4096");
  EXPECT_EQ(shorter.error().notes(), std::vector<std::string>{"decoding with zstd(level=3)"});

  const auto longer = decode_all(byte_chain(zstd, 4000), encoded, out, scratch);
  ASSERT_FALSE(longer.ok());
  EXPECT_EQ(longer.error().message(), "zstd frame declares 4080 decoded bytes, the output has room for 4000");

  const auto plain = decode_all(compile(R"(["bytes"])", "uint8", {7}).value(), bytes(8), out, scratch);
  ASSERT_FALSE(plain.ok());
  EXPECT_EQ(plain.error().message(), "chunk decoded to 8 bytes, its shape needs 7");
  EXPECT_EQ(plain.error().notes(), std::vector<std::string>{"decoding with bytes"});
}

TEST(CodecChain, IgnoresBytesAfterZlibStreamsWithAnOptionOnly) {
  worker_scratch scratch;
  const std::string zlib = R"({"name":"numcodecs.zlib"})";
  const bytes content = smooth_bytes(4096, 1);
  bytes encoded = encode_all(byte_chain(zlib, 4096), content, scratch);
  encoded.resize(encoded.size() + 3);
  bytes out(4096);
  const auto refused = decode_all(byte_chain(zlib, 4096), encoded, out, scratch);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), errc::corrupt_data);
  codec_chain_options options;
  options.padded_streams = true;
  ASSERT_TRUE(decode_all(byte_chain(zlib, 4096, options), encoded, out, scratch).ok());
  EXPECT_EQ(out, content);
}

TEST(CodecChain, EncodesRandomBytesWithinEachCodecsBound) {
  worker_scratch scratch;
  for (const std::string& text : byte_codec_texts()) {
    for (const std::size_t size :
         {0, 1, 2, 15, 16, 17, 127, 128, 255, 256, 4999, 5000, 5001, 65535, 131071, 131072, 300'000}) {
      const codec_config config = parse_codecs("[" + text + "]").front();
      const auto codec = make_byte_codec(config, 1).value();
      const bytes content = random_bytes(size, size);
      bytes encoded(codec->max_encoded_bytes(size));
      const auto made = codec->encode(content, encoded, scratch);
      ASSERT_TRUE(made.ok()) << text << " " << size << " " << made.error().to_string();
      ASSERT_LE(*made, encoded.size());
      bytes out(size);
      const auto decoded = codec->decode(std::span(encoded).first(*made), out, scratch);
      ASSERT_TRUE(decoded.ok()) << text << " " << size << " " << decoded.error().to_string();
      ASSERT_TRUE(std::equal(decoded->begin(), decoded->end(), content.begin(), content.end())) << text << " " << size;
    }
  }
}

// With items of every size, cells with short and long rows, and boxes that begin, step and end anywhere.
TEST(CodecChain, ShuffledItemsAreDecodedIntoTheTarget) {
  constexpr std::pair<std::string_view, std::uint32_t> kTypes[] = {
      {"int16", 2}, {"int32", 4}, {"int64", 8}, {"complex128", 16}, {"r24", 3}};
  for (const auto& [type, item] : kTypes) {
    for (const extents& cell : {extents{7, 5}, extents{5, 300}, extents{1, 9}, extents{3, 4, 70}}) {
      const std::string order =
          type == "r24" ? R"("bytes")" : R"({"name":"bytes","configuration":{"endian":"little"}})";
      const auto chain = compile("[" + order + R"(,{"name":"numcodecs.shuffle","configuration":{"elementsize":)" +
                                     std::to_string(item) + "}}," + std::string(kZstd) + "]",
                                 type, cell);
      ASSERT_TRUE(chain.ok()) << chain.error().message();
      std::vector<std::byte> items(chain->decoded_bytes());
      for (std::size_t i = 0; i < items.size(); ++i) items[i] = static_cast<std::byte>(i * 131 + i / 256);
      const strides packed = c_order_strides(cell, item);
      worker_scratch scratch;
      buffer room;
      const auto encoded = chain->encode(tensor_view::contiguous(items.data(), chain->type(), cell), room, scratch);
      ASSERT_TRUE(encoded.ok()) << encoded.error().message();

      // Decodes the whole cell into rows with gaps between them.
      strides apart = packed;
      for (std::size_t d = 0; d + 1 < cell.size(); ++d) apart[d] = packed[d] * 2;
      std::vector<std::byte> wide(2 * items.size() + items.size());
      worker_scratch fresh;
      decode_target target;
      target.data = wide.data();
      target.strides = apart;
      target.covers_cell = true;
      ASSERT_TRUE(chain->decode(*encoded, target, fresh).ok());
      EXPECT_LT(fresh.stage(2).capacity(), 17U << 10) << "there is no room for all of a cell";
      std::vector<std::byte> back(items.size());
      strided_copy(back.data(), packed, wide.data(), apart, cell, item, 1);
      EXPECT_EQ(back, items) << type << " " << to_string(cell);

      // Every second row and item in the middle.
      strided_box box(cell.size());
      extents counts(cell.size());
      strides steps(cell.size());
      std::int64_t first = 0;
      for (std::size_t d = 0; d < cell.size(); ++d) {
        const std::uint64_t start = cell[d] > 2 ? 1 : 0;
        box[d] = {static_cast<std::int64_t>(start), 2, (cell[d] - start + 1) / 2};
        counts[d] = box[d].count;
        steps[d] = 2 * packed[d];
        first += static_cast<std::int64_t>(start) * packed[d];
      }
      std::uint64_t wanted = item;
      for (const std::uint64_t length : counts) wanted *= length;
      std::vector<std::byte> got(wanted), expected(wanted);
      target.data = got.data();
      target.strides = c_order_strides(counts, item);
      target.covers_cell = false;
      target.in_cell = &box;
      ASSERT_TRUE(chain->decode(*encoded, target, fresh).ok());
      strided_copy(expected.data(), target.strides, items.data() + first, steps, counts, item, 1);
      EXPECT_EQ(got, expected) << type << " " << to_string(cell);

      // A stream of another cell.
      extents longer = cell;
      ++longer[0];
      const auto other = compile("[" + order + R"(,{"name":"numcodecs.shuffle","configuration":{"elementsize":)" +
                                     std::to_string(item) + "}}," + std::string(kZstd) + "]",
                                 type, longer);
      target.data = wide.data();
      target.strides = apart;
      target.covers_cell = true;
      target.in_cell = nullptr;
      const auto refused = other->decode(*encoded, target, fresh);
      ASSERT_FALSE(refused.ok());
      EXPECT_EQ(refused.error().code(), errc::corrupt_data);
      EXPECT_NE(refused.error().to_string().find("its shape needs"), std::string::npos) << refused.error().to_string();
    }
  }
}

TEST(CodecChain, NeverRequestsMoreThanTheLedgerHas) {
  ledger accounts(100'000, 0);
  worker_scratch scratch(&accounts);
  const codec_chain chain = byte_chain(std::string(kZstd) + "," + std::string(kZstd), std::uint64_t{1} << 40);
  bytes out(16);
  const auto done = decode_all(chain, random_bytes(100, 1), out, scratch);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), errc::resource_exhausted);
  EXPECT_LE(accounts.held(memory_use::scratch), 100'000u);
}

TEST(CodecChain, ReturnsItsMemoryToTheLedger) {
  ledger accounts(std::uint64_t{1} << 30, 0);
  for (const std::string& text : byte_codec_texts()) {
    worker_scratch scratch(&accounts);
    const codec_chain chain = byte_chain(text + "," + text, 10'000);
    const bytes cell = smooth_bytes(10'000, 1), encoded = encode_all(chain, cell, scratch);
    bytes out(10'000);
    ASSERT_TRUE(decode_all(chain, encoded, out, scratch).ok());
    EXPECT_EQ(out, cell);
    EXPECT_GT(accounts.held(memory_use::scratch), 0u);
  }
  EXPECT_EQ(accounts.held(memory_use::scratch), 0u);
}

TEST(CodecChain, RefusesToEncodeAnotherShapeOrIntoLessThanTheBound) {
  worker_scratch scratch;
  bytes cell(24), out(100'000);
  const auto plain = compile(R"(["bytes"])", "uint8", {4, 6}).value();
  const dtype type = plain.type();
  EXPECT_EQ(plain.encode(tensor_view::contiguous(cell.data(), type, {6, 4}), out, scratch).error().code(),
            errc::invalid_argument);
  EXPECT_EQ(plain.encode(tensor_view::contiguous(cell.data(), type, {4, 6}), std::span(out).first(23), scratch)
                .error()
                .code(),
            errc::invalid_argument);
  const auto packed = compile("[\"bytes\"," + std::string(kZstd) + "]", "uint8", {4, 6}).value();
  EXPECT_EQ(packed.encode(tensor_view::contiguous(cell.data(), type, {4, 6}), std::span(out).first(24), scratch)
                .error()
                .code(),
            errc::invalid_argument);
}

}  // namespace
}  // namespace penstock::inline v0
