#include "cuda/chain_split.h"

#include <gtest/gtest.h>

#include <string>

#include "codec/byte_codecs.h"

namespace penstock::inline v0::cuda {
namespace {

// A codec that exists only in Python, as far as an engine can determine.
class foreign_codec final : public byte_codec {
 public:
  std::string_view name() const override { return "foreign"; }
  std::string describe() const override { return "foreign"; }
  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override { return decoded_bytes + 64; }
  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte>,
                                            worker_scratch&) const override {
    return encoded;
  }
  result<std::uint64_t> encode(std::span<const std::byte>, std::span<std::byte>, worker_scratch&) const override {
    return 0;
  }
  bool via_python() const noexcept override { return true; }
};

class foreign_codecs final : public codec_provider {
 public:
  result<compiled_codec> make(const codec_config& config, const stage_type& input) const override {
    if (config.name != "foreign") return error(errc::unsupported, "no such codec");
    return compressed_stage(std::make_shared<foreign_codec>(), input);
  }
};

codec_chain chain_of(const char* codecs, const char* type = "float32", const extents& chunk = {16, 32}) {
  static const foreign_codecs foreign;
  const json document = *json::parse(codecs);
  std::vector<codec_config> configs;
  for (const json& each : *document.as_array()) {
    const json* const settings = each.find("configuration");
    configs.push_back({*each.find("name")->as_string(), settings == nullptr ? json() : *settings});
  }
  codec_chain_options options;
  options.external = &foreign;
  auto made = codec_chain::compile(configs, *dtype::from_name(type), chunk, options);
  EXPECT_TRUE(made.ok()) << made.error().to_string();
  return std::move(made).value();
}

struct expected {
  const char *type, *codecs, *text;
  std::size_t stages, on_device;
};

#define PENSTOCK_BYTES R"({"name":"bytes","configuration":{"endian":"little"}})"

const expected kChains[] = {
    {"float32", "[" PENSTOCK_BYTES "]", "no codec", 0, 0},
    {"float32", "[" PENSTOCK_BYTES R"(,{"name":"zstd","configuration":{"level":3}}])", "zstd(level=3) on the device", 1,
     1},
    {"float32",
     "[" PENSTOCK_BYTES R"(,{"name":"shuffle","configuration":{"elementsize":4}},)"
     R"({"name":"gzip","configuration":{"level":5}},{"name":"crc32c"}])",
     "crc32c, gzip(level=5), shuffle(elementsize=4) on the device", 3, 3},
    {"float32",
     "[" PENSTOCK_BYTES
     R"(,{"name":"blosc","configuration":{"cname":"lz4","clevel":5,"shuffle":"shuffle","typesize":4,"blocksize":0}}])",
     nullptr, 1, 1},
    {"float32", "[" PENSTOCK_BYTES R"(,{"name":"foreign"}])", "foreign on the host (foreign has no device decoder)", 1,
     0},
    {"float32", "[" PENSTOCK_BYTES R"(,{"name":"zstd","configuration":{"level":0}},{"name":"foreign"}])",
     "foreign on the host (foreign has no device decoder), zstd(level=0) on the device", 2, 1},
    // A decoder needs headers that the host can see.
    {"float32", "[" PENSTOCK_BYTES R"(,{"name":"foreign"},{"name":"zstd","configuration":{"level":0}}])",
     "zstd(level=0), foreign on the host (foreign has no device decoder)", 2, 0},
    {"int32",
     R"([{"name":"numcodecs.delta","configuration":{"dtype":"<i4"}},)" PENSTOCK_BYTES
     R"(,{"name":"zstd","configuration":{"level":0}}])",
     "zstd(level=0), delta(int32, astype=int32) on the device", 2, 2},
    {"float32",
     R"([{"name":"numcodecs.delta","configuration":{"dtype":"<f4"}},)" PENSTOCK_BYTES
     R"(,{"name":"zstd","configuration":{"level":0}}])",
     "zstd(level=0), delta(float32, astype=float32) on the host (delta(float32, astype=float32) has no device decoder)",
     2, 0},
    {"float32",
     R"([{"name":"transpose","configuration":{"order":[1,0]}},)" PENSTOCK_BYTES
     R"(,{"name":"zstd","configuration":{"level":0}}])",
     "zstd(level=0) on the device", 1, 1},
    {"float32",
     "[" PENSTOCK_BYTES R"(,{"name":"hdf5.bitshuffle","configuration":{"elementsize":4,"compression":"lz4"}}])",
     "hdf5.bitshuffle(elementsize=4, blocksize=0, compression=lz4) on the device", 1, 1},
    // The device expects the checksum after the content only.
    {"float32", "[" PENSTOCK_BYTES R"(,{"name":"numcodecs.crc32c","configuration":{"location":"end"}}])", nullptr, 1,
     1},
    {"float32", "[" PENSTOCK_BYTES R"(,{"name":"numcodecs.crc32c","configuration":{"location":"start"}}])",
     "crc32c(location=start) on the host (crc32c(location=start) has no device decoder)", 1, 0},
    {"bool", R"([{"name":"numcodecs.packbits"},)" PENSTOCK_BYTES R"(,{"name":"numcodecs.lz4"}])",
     "lz4(acceleration=1), packbits on the device", 2, 2},
    {"float32",
     "[" PENSTOCK_BYTES
     R"(,{"name":"numcodecs.shuffle","configuration":{"elementsize":4}},{"name":"bz2","configuration":{"level":1}}])",
     nullptr, 2, 1},
};

TEST(ChainSplit, SupportedStagesRunOnTheDevice) {
  for (const expected& each : kChains) {
    const codec_chain chain = chain_of(each.codecs, each.type);
    const device_chain split = split_chain(chain);
    EXPECT_EQ(chain.stages(), each.stages) << each.codecs;
    EXPECT_EQ(split.device_stages, each.on_device) << each.codecs << ": " << split.reason;
    EXPECT_EQ(split.reason.empty(), each.stages == each.on_device) << each.codecs << ": " << split.reason;
    if (each.text != nullptr) {
      EXPECT_EQ(describe(split), each.text);
    }
  }
}

TEST(ChainSplit, ChunksTooLargeForADecoderStayOnTheHost) {
  const auto where = [](const char* codec, const extents& chunk) {
    const codec_chain chain = chain_of(codec, "uint8", chunk);
    return describe(split_chain(chain));
  };
  constexpr const char* kZstd = R"([{"name":"bytes"},{"name":"zstd","configuration":{"level":3}}])";
  constexpr const char* kGzip = R"([{"name":"bytes"},{"name":"gzip","configuration":{"level":3}}])";
  EXPECT_EQ(where(kZstd, {1 << 27}), "zstd(level=3) on the device");
  EXPECT_EQ(where(kZstd, {(1 << 27) + 1}),
            "zstd(level=3) on the host (zstd of more than 128 MiB has no device decoder)");
  EXPECT_EQ(where(kGzip, {(1 << 27) + 1}), "gzip(level=3) on the device");
  EXPECT_EQ(where(kGzip, {device::kMostChunkBytes}), "gzip(level=3) on the device");
  EXPECT_EQ(where(kGzip, {device::kMostChunkBytes + 1}),
            "gzip(level=3) on the host (chunks of more than 4032 MiB have no device decoder)");
}

TEST(ChainSplit, HasAJsonDocumentWithTheReason) {
  const codec_chain chain =
      chain_of("[" PENSTOCK_BYTES R"(,{"name":"zstd","configuration":{"level":0}},{"name":"foreign"}])");
  const std::string document = to_json(split_chain(chain)).dump();
  const char* const wanted =
      R"x({"host":["foreign"],"device":["zstd(level=0)"],"reason":"foreign has no device decoder"})x";
  EXPECT_EQ(document, wanted);
  EXPECT_EQ(describe(host_chain(chain, "a dictionary")), "foreign, zstd(level=0) on the host (a dictionary)");
}

}  // namespace
}  // namespace penstock::inline v0::cuda
