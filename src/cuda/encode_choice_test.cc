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

TEST(EncodeChoice, IsTheDeviceIfTheHostTakesMuchLonger) {
  const auto of_zstd = choose_encoder(chain_of("zstd", zstd_of(1)), large());
  EXPECT_TRUE(of_zstd.on_device) << of_zstd.why;
  EXPECT_GT(of_zstd.host_seconds, 2 * of_zstd.device_seconds);
  EXPECT_NE(of_zstd.why.find("4000 chunks"), std::string::npos) << of_zstd.why;
  // liblz4 takes less than twice as long as the device on 16 cores, and more on four.
  EXPECT_FALSE(choose_encoder(chain_of("numcodecs.lz4", kLz4), large()).on_device);
  encode_work four_workers = large();
  four_workers.workers = 4;
  EXPECT_TRUE(choose_encoder(chain_of("numcodecs.lz4", kLz4), four_workers).on_device);
}

// A warp encodes each block of 128 KiB of zstd, but a whole chunk of LZ4.
TEST(EncodeChoice, CountsTheBlocksOfLargeChunksAndTheMemoryOfWaves) {
  encode_work large_chunks = large();
  large_chunks.chunks = 64;
  constexpr std::uint64_t kElements = 4 << 20;
  const codec_chain zstd = chain_of("zstd", zstd_of(1), kElements);
  const auto choice = choose_encoder(zstd, large_chunks);
  EXPECT_TRUE(choice.on_device) << choice.why;
  EXPECT_LT(choice.device_seconds, 0.2);
  const auto of_lz4 = choose_encoder(chain_of("numcodecs.lz4", kLz4, kElements), large_chunks);
  EXPECT_FALSE(of_lz4.on_device);
  EXPECT_GT(of_lz4.device_seconds, 1.5);
  large_chunks.memory_bytes = std::uint64_t{1} << 30;  // two chunks a wave
  EXPECT_GT(choose_encoder(zstd, large_chunks).device_seconds, 4 * choice.device_seconds);
  large_chunks.memory_bytes = std::uint64_t{256} << 20;
  EXPECT_NE(choose_encoder(zstd, large_chunks).why.find("more memory"), std::string::npos);
}

TEST(EncodeChoice, IsTheHostIfItIsFastEnough) {
  encode_work many_workers = large();
  many_workers.workers = 1000;
  EXPECT_FALSE(choose_encoder(chain_of("numcodecs.lz4", kLz4), many_workers).on_device);
  encode_work few_chunks = large();
  few_chunks.chunks = 16;  // one chunk for each core, and cores are faster than a warp
  EXPECT_FALSE(choose_encoder(chain_of("numcodecs.lz4", kLz4), few_chunks).on_device);
  encode_work small_device = large();
  small_device.multiprocessors = 1;
  EXPECT_FALSE(choose_encoder(chain_of("numcodecs.lz4", kLz4), small_device).on_device);
  // A small write: launches and copies cost more than is saved.
  EXPECT_FALSE(choose_encoder(chain_of("numcodecs.lz4", kLz4, 16), large()).on_device);
}

TEST(EncodeChoice, ReportsWhyItIsTheHost) {
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
  EXPECT_NE(why(chain_of("numcodecs.lz4", kLz4), nothing).find("no whole chunk is replaced"), std::string::npos);
  nothing = large();
  nothing.multiprocessors = 0;
  EXPECT_NE(why(chain_of("numcodecs.lz4", kLz4), nothing).find("no device"), std::string::npos);
}

}  // namespace
}  // namespace penstock::inline v0::cuda
