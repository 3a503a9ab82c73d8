// The CUDA engine with the fake driver: reads equal the model, for any order of streams, and forbidden calls do not
// occur.

#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include <penstock/penstock.h>
#include "chains.h"
#include "fake_device.h"
#include "model_reads.h"
#include "support/cases.h"
#include "support/deterministic_executor.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

struct engine_options {
  unsigned threads = 3;
  std::uint64_t page_locked = 0, device_memory = 0;
  std::shared_ptr<penstock::executor> runs;
};

std::shared_ptr<context> context_with(const engine_options& with) {
  context_options options;
  options.threads = with.threads;
  options.page_locked_bytes = with.page_locked;
  options.device_memory_bytes = with.device_memory;
  options.executor = with.runs;
  return context::make(options).value();
}

std::vector<std::byte> read_device(const array& from, const selection& which, const device_read_options& options = {}) {
  auto made = read_to_device(from, which, options);
  EXPECT_TRUE(made.ok()) << made.error().to_string();
  if (!made.ok()) return {};
  std::uint64_t bytes = from.type().item_bytes();
  for (const std::uint64_t each : made->view().extents) bytes *= each;
  std::vector<std::byte> out(bytes);
  const auto copied = made->copy_to_host(out.data());
  EXPECT_TRUE(copied.ok()) << copied.error().to_string();
  return out;
}

class DeviceEngine : public FakeDevice {
 protected:
  void TearDown() override {
    EXPECT_EQ(penstock_fake_cuda_count("legacy stream"), 0U);
    FakeDevice::TearDown();
  }
};

class DeviceParity : public DeviceEngine, public testing::WithParamInterface<std::uint64_t> {};

selection random_part(std::mt19937_64& random, const model_options& of) {
  return random_any_selection(random, of.shape, of.shards.value_or(of.chunks));
}

// zarr-python always writes the size. Metadata without it is equally valid.
TEST_F(DeviceEngine, ShuffleDefaultsToTheItemSizeOfTheArray) {
  for (const char* dtype : {"uint8", "int16", "float32", "float64", "complex128"}) {
    model_options options;
    options.shape = {1000};
    options.chunks = {300};
    options.dtype = dtype;
    options.codecs =
        R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"numcodecs.shuffle"},{"name":"zstd","configuration":{"level":3,"checksum":false}}])";
    const auto store = make_memory_store();
    const model_array model = write_model(*store, "a/", options);
    EXPECT_EQ(read_device(open_in(store, context_with({})), basic_selection()), model.values) << dtype;
  }
}

TEST_P(DeviceParity, DeviceReadsEqualTheModel) {
  std::mt19937_64 random(GetParam());
  penstock_fake_cuda_configure(GetParam(), 0, GetParam() % 2 == 0 ? 0 : 30);
  const auto roomy = context_with({});
  const auto narrow = context_with({2, 4096, 3 * 65536, nullptr});
  const auto folder = std::filesystem::temp_directory_path() /
                      ("penstock_device_" + std::to_string(GetParam()) + "_" + std::to_string(::getpid()));
  for (std::uint64_t round = 0; round < cases(16); ++round) {
    model_options options = random_model(random);
    std::filesystem::remove_all(folder);
    const std::shared_ptr<store> store = round % 2 == 0 ? make_memory_store() : open_file_store(folder.string());
    const model_array model = write_model(*store, "a/", options);
    for (const auto& ctx : {roomy, narrow}) {
      const array opened = open_in(store, ctx);
      for (int i = 0; i < 4; ++i) {
        const selection which = i == 0 ? selection(basic_selection()) : random_part(random, options);
        ASSERT_EQ(read_device(opened, which), model.select(which))
            << "shape " << to_string(options.shape) << " chunks " << to_string(options.chunks) << " " << options.dtype
            << " " << options.codecs << " [" << to_text(which) << "] seed " << options.seed;
      }
    }
  }
  std::filesystem::remove_all(folder);
}

TEST_P(DeviceParity, EveryScheduleReturnsTheSameBytes) {
  std::mt19937_64 random(GetParam() + 1000);
  penstock_fake_cuda_configure(GetParam(), 1, 0);
  for (std::uint64_t round = 0; round < cases(15); ++round) {
    model_options options = random_model(random);
    if (round % 2 == 0) options.codecs = kZstd;
    const auto store = make_memory_store();
    if (round % 2 == 0) options.dtype = "int16";
    const model_array model = write_model(*store, "a/", options);
    const auto seeded = std::make_shared<deterministic_executor>(random());
    seeded->pending = [] { return penstock_fake_cuda_pending(); };
    seeded->deliver = [](std::uint64_t) { penstock_fake_cuda_pump(1); };
    seeded->wakes_from_outside = kCompletionTime;
    const array opened = open_in(store, context_with({3, 8192, 3 * 65536, seeded}));
    for (int i = 0; i < 4; ++i) {
      const selection which = i == 0 ? selection(basic_selection()) : random_part(random, options);
      ASSERT_EQ(read_device(opened, which), model.select(which)) << "round " << round << " read " << i;
      ASSERT_FALSE(seeded->stuck());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, DeviceParity, testing::Range<std::uint64_t>(1, 7));

model_options benchmark_like() {
  model_options options;
  options.shape = {64 * 1024};
  options.chunks = {1024};
  options.shards = extents{16 * 1024};
  options.dtype = "float32";
  options.codecs = kZstd;
  return options;
}

TEST_F(DeviceEngine, ReturnsBeforeTheDeviceIsDoneAndOrdersAStream) {
  const auto store = make_memory_store();
  const model_array model = write_model(*store, "a/", benchmark_like());
  const array opened = open_in(store, context_with({}));
  read_device(opened, basic_selection());  // warm

  penstock_fake_cuda_configure(3, 1, 0);  // from here on nothing runs by itself
  auto made = read_to_device(opened, basic_selection());
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  const auto mine = make_stream();
  ASSERT_TRUE(made->order(reinterpret_cast<stream_handle>(mine)).ok());
  EXPECT_TRUE(made->queued());
  EXPECT_FALSE(made->done());
  const auto address = reinterpret_cast<cuda::device_address>(made->view().data);
  const auto copy = allocate(model.values.size());
  ASSERT_EQ(driver.copy_on_device(copy, address, model.values.size(), mine), cuda::kSuccess);
  ASSERT_EQ(driver.stream_synchronize(mine), cuda::kSuccess);
  const auto seen = peek(copy, model.values.size());
  EXPECT_EQ(std::memcmp(seen.data(), model.values.data(), seen.size()), 0);
  EXPECT_TRUE(made->done());
  ASSERT_EQ(driver.mem_free(copy), cuda::kSuccess);
}

struct warm_case {
  const char* name;
  const char* codecs;
  bool in_shards, in_files, is_delayed;
  std::int64_t step;  // of the selection: more than 1 leaves a scatter to do
};

class DeviceWarm : public DeviceEngine, public testing::WithParamInterface<warm_case> {};

// Any of the waves may be idle when the next one is opened.
TEST_P(DeviceWarm, NothingIsAllocatedAndNothingWaits) {
  const warm_case& how = GetParam();
  const auto folder = std::filesystem::temp_directory_path() / ("penstock_device_warm_" + std::to_string(::getpid()));
  std::filesystem::remove_all(folder);
  const std::shared_ptr<store> store = how.in_files ? open_file_store(folder.string()) : make_memory_store();
  model_options wanted = benchmark_like();
  wanted.codecs = how.codecs;
  if (!how.in_shards) {
    wanted.shards.reset();
    wanted.shape = {12 * 1024};
  }
  const model_array model = write_model(*store, "a/", wanted);
  const array opened = open_in(store, context_with({}));
  penstock_fake_cuda_configure(5, 0, how.is_delayed ? 30 : 0);
  basic_selection which;
  which.items = {slice{std::nullopt, std::nullopt, how.step}};
  const auto mine = make_stream();
  const auto read_once = [&] {
    device_read_options options;
    options.stream = reinterpret_cast<stream_handle>(mine);
    auto made = read_to_device(opened, which, options);
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    ASSERT_TRUE(made->order(reinterpret_cast<stream_handle>(mine)).ok());
  };
  ASSERT_EQ(read_device(opened, which), model.select(which));
  for (int i = 0; i < 2; ++i) read_once();
  ASSERT_EQ(driver.stream_synchronize(mine), cuda::kSuccess);
  penstock_fake_cuda_reset_counts();
  for (int i = 0; i < 10; ++i) read_once();
  for (const char* const call : {"cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuMemFreeHost", "cuStreamCreate",
                                 "cuStreamDestroy", "cuEventCreate", "cuEventDestroy", "cuStreamSynchronize",
                                 "cuEventSynchronize", "cuModuleLoadData", "pageable copy", "legacy stream"})
    EXPECT_EQ(penstock_fake_cuda_count(call), 0U) << call;
  // A few calls for each request to storage and each wave, none for each of the 64 chunks except where it is alone.
  if (how.in_shards && how.codecs == kZstd) {
    EXPECT_LE(calls_but_queries() / 10, 300U);
  }
  ASSERT_EQ(driver.stream_synchronize(mine), cuda::kSuccess);
  std::filesystem::remove_all(folder);
}

constexpr const char* kRaw = R"([{"name":"bytes","configuration":{"endian":"little"}}])";
constexpr const char* kBlosc =
    R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"blosc","configuration":{"cname":"lz4","clevel":5,"shuffle":"shuffle","typesize":4,"blocksize":0}}])";
// The host decodes a part: the device does not have such a decoder.
constexpr const char* kBzip2 =
    R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"numcodecs.bz2","configuration":{"level":1}}])";

INSTANTIATE_TEST_SUITE_P(
    Cases, DeviceWarm,
    testing::Values(
        warm_case{"Shards", kZstd, true, false, false, 1}, warm_case{"ShardsLate", kZstd, true, false, true, 1},
        warm_case{"ShardFiles", kZstd, true, true, false, 1}, warm_case{"Chunks", kZstd, false, false, false, 1},
        warm_case{"ChunkFiles", kZstd, false, true, true, 1}, warm_case{"Scattered", kZstd, true, false, false, 3},
        warm_case{"ScatteredLate", kZstd, true, true, true, 3}, warm_case{"Blosc", kBlosc, true, false, false, 1},
        warm_case{"Raw", kRaw, true, false, false, 1}, warm_case{"RawScattered", kRaw, true, true, false, 3},
        warm_case{"OfTheHost", kBzip2, true, false, false, 1}, warm_case{"OfTheHostLate", kBzip2, true, true, true, 3}),
    [](const auto& each) { return std::string(each.param.name); });

// The benchmark's chunks have 193 KB: a host that decodes reads less than two of them at once.
TEST_F(DeviceEngine, ALocalStoreIsReadInLongRequests) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("penstock_device_requests_" + std::to_string(::getpid()));
  std::filesystem::remove_all(folder);
  const std::shared_ptr<store> store = open_file_store(folder.string());
  model_options wanted;
  wanted.shape = {48 * 50'000};
  wanted.chunks = {50'000};
  wanted.shards = extents{48 * 50'000};
  wanted.dtype = "float32";
  wanted.codecs = kZstd;
  wanted.values = 256;
  const model_array model = write_model(*store, "a/", wanted);
  const array opened = open_in(store, context_with({2, 0, 0, nullptr}));
  penstock_fake_cuda_reset_counts();
  EXPECT_EQ(read_device(opened, basic_selection()), model.values);
  // Eight requests, four for each worker, and the tables of a few waves: fewer than one for each of the 48 chunks.
  EXPECT_LE(penstock_fake_cuda_count("cuMemcpyHtoDAsync"), 16U);
  EXPECT_GE(penstock_fake_cuda_count("cuMemcpyHtoDAsync"), 8U);
  std::filesystem::remove_all(folder);
}

// A completion between the end of a read and that of its job must not end the read twice: the record of failures would
// be copied twice, and only the second copy would be waited for. Here, earlier reads hold all page-locked memory: a
// read that finds no space for its first request must also be woken.
TEST_F(DeviceEngine, AReadEndsOnceForAnyOrderOfEvents) {
  const auto store = make_memory_store();
  const model_array model = write_model(*store, "a/", benchmark_like());
  const array opened = open_in(store, context_with({3, 64 * 1024, 3 * 65536, nullptr}));
  const auto mine = make_stream();
  penstock_fake_cuda_configure(7, 0, 20);
  penstock_fake_cuda_reset_counts();
  constexpr std::uint64_t kReads = 40;
  for (std::uint64_t i = 0; i < kReads; ++i) {
    auto made = read_to_device(opened, basic_selection());
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    ASSERT_TRUE(made->order(reinterpret_cast<stream_handle>(mine)).ok());
  }
  ASSERT_EQ(driver.stream_synchronize(mine), cuda::kSuccess);
  EXPECT_EQ(penstock_fake_cuda_count("cuMemcpyDtoHAsync"), kReads);
}

TEST_F(DeviceEngine, AReadThatFailsAtItsEndReleasesEverything) {
  const auto store = make_memory_store();
  const model_array model = write_model(*store, "a/", benchmark_like());
  model_options bad = benchmark_like();
  bad.shards.reset();
  bad.shape = {4 * 1024};
  write_model(*store, "b/", bad);
  // Headers that the device's scan refuses: the host decodes the chunk, and reports the reason.
  const std::vector<std::byte> none(100, std::byte{0x17});
  const part whole(none);
  ASSERT_TRUE(store->put("b/c/3", {&whole, 1}, {}).ok());
  const auto ctx = context_with({});
  const array good = open_in(store, ctx);
  open_options where;
  where.context = ctx;
  where.path = "b";
  const array broken = open_array(store, where).value();
  for (int i = 0; i < 20; ++i) {
    {
      auto made = read_to_device(broken, basic_selection());
      ASSERT_TRUE(made.ok());
      const auto outcome = made->synchronize();
      ASSERT_FALSE(outcome.ok());
      EXPECT_EQ(outcome.error().code(), errc::corrupt_data);
    }
    ASSERT_EQ(read_device(good, basic_selection()), model.values);
  }
}

// Once a kernel has faulted, no wave ends, and all reads wait for one: the completion thread detects the fault.
TEST_F(DeviceEngine, AReadOutlivesAFaultOfTheDevice) {
  constexpr int kIllegalAddress = 700;
  const auto store = make_memory_store();
  const model_array model = write_model(*store, "a/", benchmark_like());
  for (const bool polls : {false, true}) {
    const array opened = open_in(store, context_with({2, 0, 3 * 65536, nullptr}));
    penstock_fake_cuda_hold_kernels(1);
    auto made = read_to_device(opened, basic_selection());
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    EXPECT_FALSE(made->wait_for(std::chrono::milliseconds(200)));
    penstock_fake_cuda_fault(kIllegalAddress);
    if (polls) {
      for (int i = 0; i < 1000 && !made->wait_for(std::chrono::milliseconds(10)); ++i) {
      }
      EXPECT_TRUE(made->queued());
    }
    const auto outcome = made->synchronize();
    EXPECT_FALSE(outcome.ok());
    EXPECT_FALSE(read_to_device(opened, basic_selection()).ok());
    penstock_fake_cuda_fault(0);
    opened.context()->clear_caches();
    EXPECT_EQ(read_device(opened, basic_selection()), model.values);
  }
}

// Our streams would join the capture, and record the read's work instead of doing it.
TEST_F(DeviceEngine, AStreamThatCapturesAGraphIsRefused) {
  const auto store = make_memory_store();
  const model_array model = write_model(*store, "a/", benchmark_like());
  const array opened = open_in(store, context_with({}));
  const auto mine = make_stream();
  device_read_options options;
  options.stream = reinterpret_cast<stream_handle>(mine);
  const auto source = read_to_device(opened, basic_selection());
  ASSERT_TRUE(source.ok()) << source.error().to_string();
  write_options how;
  how.stream = options.stream;
  ASSERT_EQ(penstock_fake_cuda_capture_on(mine, 1), cuda::kSuccess);
  const auto read = read_to_device(opened, basic_selection(), options);
  const auto written = opened.write(basic_selection(), source->view(), how);
  const auto begun = opened.write_async(basic_selection(), source->view(), how);
  ASSERT_EQ(penstock_fake_cuda_capture_on(mine, 0), cuda::kSuccess);
  ASSERT_FALSE(read.ok() || written.ok() || begun.ok());
  for (const error* const each : {&read.error(), &written.error(), &begun.error()}) {
    EXPECT_EQ(each->code(), errc::invalid_argument);
    EXPECT_NE(each->to_string().find("captures a CUDA graph"), std::string::npos) << each->to_string();
  }
  EXPECT_EQ(read_device(opened, basic_selection(), options), model.values);
}

// A loop that waits for `done` ends, and the outcome has the error.
TEST_F(DeviceEngine, AReadIsDoneAfterAFaultOfTheDevice) {
  constexpr int kIllegalAddress = 700;
  const auto store = make_memory_store();
  const model_array model = write_model(*store, "a/", benchmark_like());
  const array opened = open_in(store, context_with({}));
  penstock_fake_cuda_hold_kernels(1);
  {
    auto made = read_to_device(opened, basic_selection());
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    ASSERT_TRUE(made->wait().ok());
    EXPECT_FALSE(made->done());
    penstock_fake_cuda_fault(kIllegalAddress);
    EXPECT_TRUE(made->done());
    EXPECT_FALSE(made->outcome().ok());
    (void)opened.context()->synchronize();  // queries the device, so that `clear_caches` drops the engine
  }
  penstock_fake_cuda_fault(0);
  opened.context()->clear_caches();
  EXPECT_EQ(read_device(opened, basic_selection()), model.values);
}

TEST_F(DeviceEngine, ReadsWhileAGraphIsCaptured) {
  const auto store = make_memory_store();
  const model_array model = write_model(*store, "a/", benchmark_like());
  penstock_fake_cuda_capture(1);
  {
    const array opened = open_in(store, context_with({}));
    EXPECT_EQ(read_device(opened, basic_selection()), model.values);
    opened.context()->clear_caches();
    EXPECT_EQ(read_device(opened, basic_selection()), model.values);
  }
  penstock_fake_cuda_capture(0);
  EXPECT_EQ(penstock_fake_cuda_count("broken capture"), 0U);
}

// The thread that destroys a context may have no current device.
TEST_F(DeviceEngine, PageLockedMemoryIsReturnedWithTheContext) {
  const auto store = make_memory_store();
  const model_array model = write_model(*store, "a/", benchmark_like());
  const std::uint64_t before = penstock_fake_cuda_page_locked_bytes();
  std::thread([&] {
    const array opened = open_in(store, context_with({}));
    EXPECT_EQ(read_device(opened, basic_selection()), model.values);
    EXPECT_GT(penstock_fake_cuda_page_locked_bytes(), before);
  }).join();
  EXPECT_EQ(penstock_fake_cuda_page_locked_bytes(), before);
}

TEST_F(DeviceEngine, WritesNothingBeforeTheCallersStreamIsDone) {
  const auto store = make_memory_store();
  model_options raw = benchmark_like();
  for (const char* const codecs : {kZstd, R"([{"name":"bytes","configuration":{"endian":"little"}}])"}) {
    raw.codecs = codecs;
    const model_array model = write_model(*store, "a/", raw);
    const array opened = open_in(store, context_with({}));
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      penstock_fake_cuda_configure(seed, 1, 0);
      const auto bytes = model.values.size();
      const auto target = allocate(bytes), kept = allocate(bytes);
      const auto mine = make_stream();
      // The caller still reads the old contents of `target` when it requests new ones.
      ASSERT_EQ(driver.set_bytes(target, 7, bytes, mine), cuda::kSuccess);
      ASSERT_EQ(driver.copy_on_device(kept, target, bytes, mine), cuda::kSuccess);
      tensor_view out = tensor_view::contiguous(reinterpret_cast<void*>(target), opened.type(), opened.shape());
      out.space = memory_space::cuda;
      device_read_options options;
      options.stream = reinterpret_cast<stream_handle>(mine);
      auto made = read_to_device(opened, basic_selection(), out, options);
      ASSERT_TRUE(made.ok()) << made.error().to_string();
      ASSERT_TRUE(made->synchronize().ok());
      EXPECT_EQ(peek(kept, bytes), std::vector<std::uint8_t>(bytes, 7)) << "seed " << seed;
      EXPECT_EQ(std::memcmp(peek(target, bytes).data(), model.values.data(), bytes), 0);
      ASSERT_EQ(driver.mem_free(target), cuda::kSuccess);
      ASSERT_EQ(driver.mem_free(kept), cuda::kSuccess);
      ASSERT_EQ(driver.stream_destroy(mine), cuda::kSuccess);
    }
    penstock_fake_cuda_configure(1, 0, 0);
  }
}

TEST_F(DeviceEngine, MemoryIsReusedOnlyAfterItsLastReader) {
  const auto store = make_memory_store();
  const model_array model = write_model(*store, "a/", benchmark_like());
  const array opened = open_in(store, context_with({}));
  const auto bytes = model.values.size();
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    penstock_fake_cuda_configure(seed, 1, 0);
    const auto kept = allocate(bytes);
    const auto mine = make_stream();
    cuda::device_address first = 0;
    {
      auto made = read_to_device(opened, basic_selection());
      ASSERT_TRUE(made.ok());
      ASSERT_TRUE(made->order(reinterpret_cast<stream_handle>(mine)).ok());
      first = reinterpret_cast<cuda::device_address>(made->view().data);
      ASSERT_EQ(driver.copy_on_device(kept, first, bytes, mine), cuda::kSuccess);
    }  // the tensor is destroyed before the copy has begun
    auto again = read_to_device(opened, basic_selection());
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(reinterpret_cast<cuda::device_address>(again->view().data), first);
    ASSERT_TRUE(again->synchronize().ok());
    ASSERT_EQ(driver.stream_synchronize(mine), cuda::kSuccess);
    EXPECT_EQ(std::memcmp(peek(kept, bytes).data(), model.values.data(), bytes), 0);
    ASSERT_EQ(driver.mem_free(kept), cuda::kSuccess);
    ASSERT_EQ(driver.stream_destroy(mine), cuda::kSuccess);
  }
}

}  // namespace
}  // namespace penstock::test
