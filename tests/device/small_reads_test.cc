// What a small read costs: the driver's calls, from the read to the last use of its memory.

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <penstock/penstock.h>
#include "fake_device.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

constexpr const char* kRaw = R"([{"name":"bytes","configuration":{"endian":"little"}}])";
constexpr const char* kZstd =
    R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"zstd","configuration":{"level":1,"checksum":false}}])";
constexpr const char* kLz4 =
    R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"numcodecs.lz4","configuration":{"acceleration":1}}])";
constexpr const char* kBlosc =
    R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"blosc","configuration":{"cname":"lz4","clevel":5,"shuffle":"shuffle","typesize":4,"blocksize":0}}])";

struct small_case {
  const char* name;
  const char* codecs;
  extents shape, chunks;
  std::uint64_t most_calls;
  std::uint64_t copies;  // to the device
};

class DeviceSmallRead : public FakeDevice, public testing::WithParamInterface<small_case> {
 protected:
  ~DeviceSmallRead() override { std::filesystem::remove_all(folder); }
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("penstock_small_reads_" + std::to_string(::getpid()));
};

using DeviceSmallReadOfShards = FakeDevice;

// Ten chunks of 8 KiB in ten files.
TEST_P(DeviceSmallRead, TakesFewDriverCalls) {
  std::filesystem::remove_all(folder);
  const std::shared_ptr<store> files = open_file_store(folder.string());
  model_options wanted;
  wanted.shape = GetParam().shape;
  wanted.chunks = GetParam().chunks;
  wanted.dtype = "float32";
  wanted.codecs = GetParam().codecs;
  const model_array model = write_model(*files, "a/", wanted);
  for (const unsigned threads : {1U, 4U}) {
    context_options with;
    with.threads = threads;
    open_options where;
    where.context = context::make(with).value();
    where.path = "a";
    const array opened = open_array(files, where).value();
    const auto mine = make_stream();
    const auto read_once = [&] {
      auto made = read_to_device(opened, basic_selection());
      ASSERT_TRUE(made.ok()) << made.error().to_string();
      ASSERT_TRUE(made->order(reinterpret_cast<stream_handle>(mine)).ok());
      ASSERT_EQ(driver.stream_synchronize(mine), cuda::kSuccess);
      // Until the engine has noted what ended: the next read would have to query for that.
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    };
    for (int i = 0; i < 10; ++i) read_once();
    constexpr std::uint64_t kReads = 20, kStreams = 10;
    penstock_fake_cuda_reset_counts();
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < kReads; ++i) read_once();
    const std::uint64_t calls = calls_but_queries() - kReads;  // without our wait for the stream
    // A driver that has no copies of several spans (before 12.8) gets a call each for what does not adjoin.
    const bool in_batches = driver.copy_batch != nullptr;
    EXPECT_LE(calls / kReads, in_batches ? GetParam().most_calls : 25) << threads << " threads, " << calls << " calls";
    // Chunks that arrived in another order than they have in the array are one batch.
    const std::uint64_t copies =
        penstock_fake_cuda_count("cuMemcpyHtoDAsync") + penstock_fake_cuda_count("cuMemcpyBatchAsync");
    if (in_batches) {
      EXPECT_EQ(copies, GetParam().copies * kReads);
    } else {
      EXPECT_GE(copies, GetParam().copies * kReads);
      EXPECT_LE(copies, 10 * kReads);
      EXPECT_EQ(penstock_fake_cuda_count("cuMemcpyBatchAsync"), 0U);
    }
    EXPECT_EQ(penstock_fake_cuda_count("cuMemsetD8Async"), 0U);
    // Queries come every 20 us at first and at most 1 ms apart, of the first event of each stream that has any.
    const auto most_queries = std::chrono::steady_clock::now() - begin;
    EXPECT_LE(penstock_fake_cuda_count("cuEventQuery"),
              kStreams * static_cast<std::uint64_t>(most_queries / std::chrono::microseconds(20) + kReads));
    EXPECT_EQ(penstock_fake_cuda_count("pageable copy"), 0U);
    auto last = read_to_device(opened, basic_selection());
    ASSERT_TRUE(last.ok());
    std::vector<std::byte> seen(model.values.size());
    ASSERT_TRUE(last->copy_to_host(seen.data()).ok());
    EXPECT_EQ(seen, model.values);
  }
}

// A shard of raw chunks whose bytes adjoin, and so do their places: such chunks are one copy.
TEST_F(DeviceSmallReadOfShards, AdjoiningRawChunksAreOneCopy) {
  const auto folder = std::filesystem::temp_directory_path() / ("penstock_raw_shard_" + std::to_string(::getpid()));
  std::filesystem::remove_all(folder);
  const std::shared_ptr<store> files = open_file_store(folder.string());
  model_options wanted;
  wanted.shape = {64 * 4096};
  wanted.chunks = {4096};
  wanted.shards = wanted.shape;
  wanted.dtype = "float32";
  wanted.codecs = kRaw;
  const model_array model = write_model(*files, "a/", wanted);
  open_options where;
  context_options one_thread;
  one_thread.threads = 1;
  where.context = context::make(one_thread).value();
  where.path = "a";
  const array opened = open_array(files, where).value();
  std::vector<std::byte> seen(model.values.size());
  for (int i = 0; i < 3; ++i) {
    penstock_fake_cuda_reset_counts();
    auto made = read_to_device(opened, basic_selection());
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    ASSERT_TRUE(made->copy_to_host(seen.data()).ok());
    EXPECT_EQ(seen, model.values);
  }
  // The file store reads 256 KiB at most with a request. A driver without batches (before 12.8) shows the copies
  // themselves: far fewer than there are chunks, which a shard need not hold in their order.
  const std::uint64_t copies =
      penstock_fake_cuda_count("cuMemcpyHtoDAsync") + penstock_fake_cuda_count("cuMemcpyBatchAsync");
  EXPECT_LE(copies, driver.copy_batch != nullptr ? 5U : 24U) << "of 64 chunks";
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Cases, DeviceSmallRead,
                         testing::Values(small_case{"Raw", kRaw, {10 * 2048}, {2048}, 15, 1},
                                         small_case{"RawInTwoDimensions", kRaw, {32, 640}, {32, 64}, 25, 2},
                                         small_case{"Zstd", kZstd, {10 * 2048}, {2048}, 25, 2},
                                         small_case{"Lz4", kLz4, {10 * 2048}, {2048}, 25, 2},
                                         small_case{"Blosc", kBlosc, {10 * 2048}, {2048}, 25, 2}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace penstock::test
