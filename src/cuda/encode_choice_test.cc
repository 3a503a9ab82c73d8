#include "cuda/encode_choice.h"

#include <gtest/gtest.h>

#include <vector>

#include <penstock/extend/json.h>

namespace penstock::inline v0::cuda {
namespace {

codec_chain chain_of(const char* name, const char* configuration, std::uint64_t elements = 64 << 10) {
  const std::vector<codec_config> codecs = {{"bytes", json::parse(R"({"endian":"little"})").value()},
                                            {name, json::parse(configuration).value()}};
  return codec_chain::compile(codecs, dtype::from_name("float32").value(), {elements}).value();
}

constexpr const char* kLz4 = R"({"acceleration":1})";
const char* zstd_of(int level) {
  return level == 1 ? R"({"level":1,"checksum":false})" : R"({"level":19,"checksum":false})";
}

encode_work large() {
  encode_work out;
  out.chunks = 4000;
  out.workers = 16;
  out.multiprocessors = 132;
  out.clock_hz = 1.7e9;
  return out;
}

TEST(EncodeChoice, IsTheDeviceWhereTheHostTakesMuchLonger) {
  const auto of_zstd = choose_encoder(chain_of("zstd", zstd_of(1)), large());
  EXPECT_TRUE(of_zstd.on_device) << of_zstd.why;
  EXPECT_GT(of_zstd.host_seconds, 2 * of_zstd.device_seconds);
  EXPECT_NE(of_zstd.why.find("4000 chunks"), std::string::npos) << of_zstd.why;
  // liblz4 on 16 cores takes less than twice as long as the device, on eight it takes longer.
  EXPECT_FALSE(choose_encoder(chain_of("numcodecs.lz4", kLz4), large()).on_device);
  encode_work eight_workers = large();
  eight_workers.workers = 8;
  EXPECT_TRUE(choose_encoder(chain_of("numcodecs.lz4", kLz4), eight_workers).on_device);
}

TEST(EncodeChoice, IsTheHostWhereItIsFastEnough) {
  encode_work many_workers = large();
  many_workers.workers = 1000;
  EXPECT_FALSE(choose_encoder(chain_of("numcodecs.lz4", kLz4), many_workers).on_device);
  encode_work few_chunks = large();
  few_chunks.chunks = 16;  // a chunk each, on cores that are faster than a warp
  EXPECT_FALSE(choose_encoder(chain_of("numcodecs.lz4", kLz4), few_chunks).on_device);
  encode_work small_device = large();
  small_device.multiprocessors = 1;
  EXPECT_FALSE(choose_encoder(chain_of("numcodecs.lz4", kLz4), small_device).on_device);
  // Small in all: launches and copies cost more than is saved.
  EXPECT_FALSE(choose_encoder(chain_of("numcodecs.lz4", kLz4, 16), large()).on_device);
}

TEST(EncodeChoice, SaysWhyItIsTheHost) {
  const auto why = [](const codec_chain& chain, const encode_work& work) {
    const auto choice = choose_encoder(chain, work);
    EXPECT_FALSE(choice.on_device);
    return choice.why;
  };
  EXPECT_NE(why(chain_of("zstd", zstd_of(19)), large()).find("level 19"), std::string::npos);
  EXPECT_NE(why(chain_of("gzip", R"({"level":1})"), large()).find("gzip(level=1) has no device encoder"),
            std::string::npos);
  encode_work nothing = large();
  nothing.chunks = 0;
  EXPECT_NE(why(chain_of("numcodecs.lz4", kLz4), nothing).find("no chunk is replaced whole"), std::string::npos);
  nothing = large();
  nothing.multiprocessors = 0;
  EXPECT_NE(why(chain_of("numcodecs.lz4", kLz4), nothing).find("no device"), std::string::npos);
}

}  // namespace
}  // namespace penstock::inline v0::cuda
