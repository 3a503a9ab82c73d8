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
    constexpr std::uint64_t kReads = 20;
    penstock_fake_cuda_reset_counts();
    for (std::uint64_t i = 0; i < kReads; ++i) read_once();
    const std::uint64_t calls = calls_but_queries() - kReads;  // without our wait for the stream
    EXPECT_LE(calls / kReads, GetParam().most_calls) << threads << " threads, " << calls << " calls";
    // Chunks that arrived in another order than they have in the array are one batch.
    EXPECT_EQ(penstock_fake_cuda_count("cuMemcpyHtoDAsync") + penstock_fake_cuda_count("cuMemcpyBatchAsync"),
              GetParam().copies * kReads);
    EXPECT_EQ(penstock_fake_cuda_count("cuMemsetD8Async"), 0U);
    EXPECT_EQ(penstock_fake_cuda_count("pageable copy"), 0U);
    auto last = read_to_device(opened, basic_selection());
    ASSERT_TRUE(last.ok());
    std::vector<std::byte> seen(model.values.size());
    ASSERT_TRUE(last->copy_to_host(seen.data()).ok());
    EXPECT_EQ(seen, model.values);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, DeviceSmallRead,
                         testing::Values(small_case{"Raw", kRaw, {10 * 2048}, {2048}, 15, 1},
                                         small_case{"RawInTwoDimensions", kRaw, {32, 640}, {32, 64}, 25, 2},
                                         small_case{"Zstd", kZstd, {10 * 2048}, {2048}, 25, 2},
                                         small_case{"Blosc", kBlosc, {10 * 2048}, {2048}, 25, 2}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace penstock::test
