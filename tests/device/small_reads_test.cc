// The cost of a small read: the driver's calls, from the read to the last use of its memory.

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <penstock/penstock.h>
#include "engine/blocking_read.h"
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

// Ten chunks of 8 KiB in ten files.
TEST_P(DeviceSmallRead, NeedsFewDriverCalls) {
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
      // Waits until the engine has processed all completions: otherwise, the next read would have to query them.
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    };
    for (int i = 0; i < 10; ++i) read_once();
    constexpr std::uint64_t kReads = 20, kStreams = 10;
    penstock_fake_cuda_reset_counts();
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < kReads; ++i) read_once();
    const std::uint64_t calls = calls_but_queries() - kReads;  // without our wait for the stream
    // A driver that has no batched copies (before 12.8) gets a call for each range that is not adjacent.
    const bool in_batches = driver.copy_batch != nullptr;
    EXPECT_LE(calls / kReads, in_batches ? GetParam().most_calls : 25) << threads << " threads, " << calls << " calls";
    // Chunks that arrived in another order than that of the array are one batch.
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
    // The engine queries the first event of each stream that has any: every 20 us at first, and at most 1 ms apart.
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

// 64 raw chunks of 16 KiB in a shard, which the file store reads in requests of at most 256 KiB.
struct raw_shard_case {
  const char* name;
  bool has_gaps;
  unsigned threads;
};

class DeviceSmallReadOfShards : public FakeDevice, public testing::WithParamInterface<raw_shard_case> {};

// Chunks that are adjacent in the shard and in the result are one copy: 16 of a request, or fewer if there are gaps.
TEST_P(DeviceSmallReadOfShards, AdjacentRawChunksAreOneCopy) {
  constexpr std::uint64_t kChunks = 64, kChunkItems = 4096, kChunkBytes = 4 * kChunkItems;
  const auto folder = std::filesystem::temp_directory_path() / ("penstock_raw_shard_" + std::to_string(::getpid()));
  std::filesystem::remove_all(folder);
  const std::shared_ptr<store> files = open_file_store(folder.string());
  model_options wanted;
  wanted.shape = {kChunks * kChunkItems};
  wanted.chunks = {kChunkItems};
  wanted.shards = wanted.shape;
  wanted.dtype = "float32";
  wanted.codecs = kRaw;
  const model_array model = write_model(*files, "a/", wanted);
  context_options with;
  with.threads = GetParam().threads;
  open_options where;
  where.context = context::make(with).value();
  where.path = "a";
  const array opened = open_array(files, where).value();
  // The model's shards have gaps; the library writes chunks one after the other.
  if (!GetParam().has_gaps) {
    auto values = model.values;
    ASSERT_TRUE(opened
                    .write(basic_selection(), tensor_view::contiguous(values.data(), opened.type(), opened.shape()),
                           write_options())
                    .ok());
  }

  // The index determines the number of runs of adjacent chunks.
  const auto shard = read_and_wait(*files, "a/c/0", {}, std::uint64_t{1} << 24).value().bytes;
  constexpr std::size_t kIndexBytes = 16 * kChunks + 4;
  std::uint64_t runs = 1;
  for (std::size_t i = 1; i < kChunks; ++i) {
    std::uint64_t before = 0, here = 0;
    std::memcpy(&before, shard.data() + shard.size() - kIndexBytes + 16 * (i - 1), 8);
    std::memcpy(&here, shard.data() + shard.size() - kIndexBytes + 16 * i, 8);
    if (here != before + kChunkBytes) ++runs;
  }
  ASSERT_EQ(runs > 1, GetParam().has_gaps);

  std::vector<std::byte> seen(model.values.size());
  for (int i = 0; i < 3; ++i) {
    penstock_fake_cuda_reset_counts();
    ASSERT_TRUE(where.context->start_profile().ok());
    auto made = read_to_device(opened, basic_selection());
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    ASSERT_TRUE(made->copy_to_host(seen.data()).ok());
    EXPECT_EQ(seen, model.values);
    const std::uint64_t requests = where.context->stop_profile().store_requests;
    if (i == 0) continue;  // the first read also reads the index, and copies zeros to the records of failures
    EXPECT_GE(requests, 4U);
    EXPECT_LE(requests, 8U);
    const std::uint64_t copies =
        penstock_fake_cuda_count("cuMemcpyHtoDAsync") + penstock_fake_cuda_count("cuMemcpyBatchAsync");
    // A batch is one call for all runs of a request. A driver before 12.8 gets a call for each run, and a run that two
    // requests share is two.
    EXPECT_LE(copies, driver.copy_batch != nullptr ? requests : requests + runs - 1) << runs << " runs";
    EXPECT_GE(copies, runs == 1 ? requests : 1);
  }
  std::filesystem::remove_all(folder);
}

class DeviceBatchedCopy : public FakeDevice, public testing::WithParamInterface<cuda::driver_status> {};

// 64 raw chunks with gaps between them in their shard: each request is a batch.
TEST_P(DeviceBatchedCopy, IsNotUsedAfterTheDriverHasRefusedIt) {
  if (driver.copy_batch == nullptr) GTEST_SKIP() << "drivers before 12.8 have no batches";
  const auto folder = std::filesystem::temp_directory_path() / ("penstock_batched_copy_" + std::to_string(::getpid()));
  std::filesystem::remove_all(folder);
  const std::shared_ptr<store> files = open_file_store(folder.string());
  model_options wanted;
  wanted.shape = {64 * 4096};
  wanted.chunks = {4096};
  wanted.shards = wanted.shape;
  wanted.dtype = "float32";
  wanted.codecs = kRaw;
  const model_array model = write_model(*files, "a/", wanted);
  context_options with;
  with.threads = 1;
  open_options where;
  where.context = context::make(with).value();
  where.path = "a";
  const array opened = open_array(files, where).value();
  penstock_fake_cuda_reset_counts();
  penstock_fake_cuda_fail("cuMemcpyBatchAsync", 0, GetParam());
  std::vector<std::byte> seen(model.values.size());
  for (int i = 0; i < 2; ++i) {
    auto made = read_to_device(opened, basic_selection());
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    const auto copied = made->copy_to_host(seen.data());
    ASSERT_TRUE(copied.ok()) << copied.error().to_string();
    EXPECT_EQ(seen, model.values);
  }
  EXPECT_EQ(penstock_fake_cuda_count("cuMemcpyBatchAsync"), 1U);
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Refusals, DeviceBatchedCopy, testing::Values(cuda::kNotSupported, cuda::kInvalidValue));

INSTANTIATE_TEST_SUITE_P(Cases, DeviceSmallReadOfShards,
                         testing::Values(raw_shard_case{"Adjacent", false, 1},
                                         raw_shard_case{"AdjacentFourThreads", false, 4},
                                         raw_shard_case{"WithGaps", true, 1}),
                         [](const auto& each) { return std::string(each.param.name); });

INSTANTIATE_TEST_SUITE_P(Cases, DeviceSmallRead,
                         testing::Values(small_case{"Raw", kRaw, {10 * 2048}, {2048}, 15, 1},
                                         small_case{"RawInTwoDimensions", kRaw, {32, 640}, {32, 64}, 25, 2},
                                         small_case{"Zstd", kZstd, {10 * 2048}, {2048}, 25, 2},
                                         small_case{"Lz4", kLz4, {10 * 2048}, {2048}, 25, 2},
                                         small_case{"Blosc", kBlosc, {10 * 2048}, {2048}, 25, 2}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace penstock::test
