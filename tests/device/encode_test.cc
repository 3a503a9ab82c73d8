// Values in device memory that the device encodes: storage holds the output of its encoders, and reads return the
// values.

#include <algorithm>
#include <cstring>
#include <new>
#include <random>

#include <penstock/penstock.h>
#include "chains.h"
#include "cuda/decode/host_run.h"
#include "cuda/encode/encode_parts.h"
#include "cuda/encode/encode_plan.h"
#include "cuda/timed_spans.h"
#include "engine/blocking_read.h"
#include "fake_device.h"
#include "model_reads.h"
#include "support/cases.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

constexpr const char* kLz4 =
    R"([{"name":"bytes","configuration":{"endian":"little"}},)"
    R"({"name":"numcodecs.shuffle","configuration":{"elementsize":4}},{"name":"numcodecs.lz4"},{"name":"crc32c"}])";
constexpr const char* kShuffle =
    R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"numcodecs.shuffle"}])";
constexpr const char* kGzip =
    R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"gzip","configuration":{"level":1}}])";
constexpr const char* kBigEndian = R"([{"name":"bytes","configuration":{"endian":"big"}},{"name":"numcodecs.lz4"}])";

class DeviceEncode : public FakeDevice {
 protected:
  // Writes `items`, in C order, from device memory of the test's own.
  result<> write(const array& to, const selection& which, const std::vector<std::byte>& items, const dtype& type,
                 write_options with) {
    PENSTOCK_ASSIGN(const auto resolved, to.select(which));
    const auto mine = make_stream();
    const cuda::device_address address = allocate(std::max<std::size_t>(items.size(), 1));
    EXPECT_EQ(driver.copy_to_device(address, items.data(), items.size(), mine), cuda::kSuccess);
    auto value = tensor_view::contiguous(reinterpret_cast<std::byte*>(address), type, resolved.shape);
    value.space = memory_space::cuda;
    with.stream = reinterpret_cast<stream_handle>(mine);
    auto done = to.write(resolved, value, with);
    driver.mem_free(address);
    driver.stream_destroy(mine);
    return done;
  }
  // The bytes of a chunk; empty if it does not exist.
  static std::vector<std::byte> stored_at(const store& from, std::size_t chunk) {
    return stored_at(from, std::to_string(chunk));
  }
  static std::vector<std::byte> stored_at(const store& from, const std::string& chunk) {
    auto got = read_and_wait(from, "a/c/" + chunk, {}, 1 << 20);
    return got.ok() ? std::move(got->bytes) : std::vector<std::byte>();
  }
  static write_options by_device() {
    write_options with;
    with.encoder = chunk_encoder::device;
    return with;
  }
  // Half of the values repeat, so that encoders find matches.
  static std::vector<std::byte> values_of(std::mt19937_64& random, std::uint64_t bytes) {
    std::vector<std::byte> out(bytes);
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = i >= 64 && random() % 8 != 0 ? out[i - 64] : static_cast<std::byte>(random());
    return out;
  }
};

class DeviceEncodeSeeds : public DeviceEncode, public testing::WithParamInterface<std::uint64_t> {};

TEST_P(DeviceEncodeSeeds, ReadsReturnTheValues) {
  std::mt19937_64 random(GetParam());
  penstock_fake_cuda_configure(GetParam(), GetParam() % 3 == 0 ? 1 : 0, GetParam() % 2 == 0 ? 0 : 20);
  if (GetParam() % 3 == 1) penstock_fake_cuda_block_at_random(4);
  context_options roomy, little_ring, little_memory;
  roomy.threads = little_ring.threads = little_memory.threads = 3;
  little_ring.page_locked_bytes = 8192;
  little_memory.device_memory_bytes = 128 << 10;
  std::uint64_t turn = GetParam() / 2;
  for (const context_options& options : {roomy, little_ring, little_memory}) {
    if (!all_cases() && turn++ % 3 != 0) continue;  // one of the three for each seed, another one for the next
    const auto ctx = context::make(options).value();
    for (const char* codecs : {kLz4, kZstd, kShuffle}) {
      for (const bool sharded : {false, true}) {
        model_options how;
        how.shape = {45, 38};
        how.chunks = {10, 8};
        if (sharded) how.shards = extents{20, 16};
        how.codecs = codecs;
        const auto store = make_memory_store();
        model_array model = write_model(*store, "a/", how);
        const array opened = open_in(store, ctx);
        for (const selection& which : {selection(basic_selection()), selection(random_selection(random, how.shape))}) {
          const auto resolved = opened.select(which).value();
          std::uint64_t bytes = 4;
          for (const std::uint64_t each : resolved.shape) bytes *= each;
          const auto items = values_of(random, bytes);
          const auto done = write(opened, which, items, opened.type(), by_device());
          ASSERT_TRUE(done.ok()) << done.error().to_string();
          model.assign(which, items);
          ASSERT_EQ(read_all(opened), model.values) << codecs << (sharded ? " sharded" : "");
        }
      }
    }
  }
  EXPECT_EQ(penstock_fake_cuda_count("legacy stream"), 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, DeviceEncodeSeeds, testing::Range<std::uint64_t>(1, 7));

// The encoders' output for one chunk, on the host.
std::vector<std::byte> encoded(std::span<const device::device_step> steps, std::span<const std::byte> chunk) {
  const auto plan = device::encode_plan::make(steps, chunk.size(), ~0ull).value();
  struct aligned_free {
    void operator()(std::byte* block) const { ::operator delete(block, std::align_val_t{256}); }
  };
  const std::unique_ptr<std::byte, aligned_free> block(
      static_cast<std::byte*>(::operator new(plan.bytes(1), std::align_val_t{256})));
  std::vector<device::kernel_launch> launches;
  plan.emit(1, {block.get(), plan.table_bytes(1)}, reinterpret_cast<std::uintptr_t>(block.get()), launches);
  std::memcpy(block.get() + plan.values_at(1, 0), chunk.data(), chunk.size());
  for (const auto& each : launches) device::run_on_host(each.kernel, each.grid, each.threads, each.argument.data());
  std::uint32_t made = 0;
  std::memcpy(&made, block.get(), 4);
  const std::byte* const from = block.get() + plan.encoded_at(1, 0);
  return {from, from + made};
}

TEST_F(DeviceEncode, StoresTheBytesOfTheDevice) {
  std::mt19937_64 random(1);
  const auto store = make_memory_store();
  model_options how;
  how.shape = {10'000};
  how.chunks = {1000};
  how.codecs = kLz4;
  write_model(*store, "a/", how);
  const array opened = open_in(store, context::make({}).value());
  const auto items = values_of(random, 40'000);
  ASSERT_TRUE(write(opened, basic_selection(), items, opened.type(), by_device()).ok());
  const device::device_step steps[] = {
      {device::step_kind::shuffle, 4}, {device::step_kind::lz4}, {device::step_kind::crc32c}};
  for (std::size_t i = 0; i < 10; ++i) {
    const auto stored = stored_at(*store, i);
    const auto expected = encoded(steps, std::span(items).subspan(4000 * i, 4000));
    ASSERT_EQ(stored, expected) << i;
  }
}

// A warp encodes each block of a chunk of zstd.
TEST_F(DeviceEncode, StoresChunksOfSeveralBlocks) {
  std::mt19937_64 random(1);
  const auto store = make_memory_store();
  model_options how;
  how.shape = {80'000};
  how.chunks = {40'000};
  how.codecs = kZstd;
  write_model(*store, "a/", how);
  const array opened = open_in(store, context::make({}).value());
  const auto items = values_of(random, 320'000);
  penstock_fake_cuda_reset_counts();
  ASSERT_TRUE(write(opened, basic_selection(), items, opened.type(), by_device()).ok());
  EXPECT_EQ(penstock_fake_cuda_count("ran penstock_encode_zstd_blocks"), 1U);
  EXPECT_EQ(penstock_fake_cuda_count("ran penstock_join_zstd_blocks"), 1U);
  EXPECT_EQ(penstock_fake_cuda_count("ran penstock_encode_zstd"), 0U);
  const device::device_step steps[] = {{device::step_kind::zstd, 1, 1}};
  for (std::size_t i = 0; i < 2; ++i)
    ASSERT_EQ(stored_at(*store, i), encoded(steps, std::span(items).subspan(160'000 * i, 160'000))) << i;
  EXPECT_EQ(read_all(opened), items);
}

TEST_F(DeviceEncode, ConvertsBeforeItEncodes) {
  const auto store = make_memory_store();
  model_options how;
  how.shape = {600};
  how.chunks = {100};
  how.dtype = "float32";
  how.codecs = kLz4;
  write_model(*store, "a/", how);
  const array opened = open_in(store, context::make({}).value());
  std::vector<double> doubles(600);
  for (std::size_t i = 0; i < doubles.size(); ++i) doubles[i] = static_cast<double>(i) / 3;
  std::vector<std::byte> items(doubles.size() * 8);
  std::memcpy(items.data(), doubles.data(), items.size());
  const auto done = write(opened, basic_selection(), items, dtype::from_name("float64").value(), by_device());
  ASSERT_TRUE(done.ok()) << done.error().to_string();
  const auto back = read_all(opened);
  for (std::size_t i = 0; i < doubles.size(); ++i) {
    float got;
    std::memcpy(&got, back.data() + 4 * i, 4);
    ASSERT_EQ(got, static_cast<float>(doubles[i])) << i;
  }
}

TEST_F(DeviceEncode, OmitsChunksOfTheFillValue) {
  for (const bool keeps : {false, true}) {
    const auto store = make_memory_store();
    model_options how;
    how.shape = {4000};
    how.chunks = {1000};
    how.codecs = kZstd;
    how.missing = 1;
    write_model(*store, "a/", how);
    const array opened = open_in(store, context::make({}).value());
    std::vector<std::byte> items = read_all(opened);  // the fill value
    items[4 * 1500] ^= std::byte{1};
    write_options with = by_device();
    with.write_empty_chunks = keeps;
    ASSERT_TRUE(write(opened, basic_selection(), items, opened.type(), with).ok());
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(!stored_at(*store, i).empty(), keeps || i == 1) << i;
    EXPECT_EQ(read_all(opened), items);
  }
}

TEST_F(DeviceEncode, NamesTheCodecThatHasNoDeviceEncoder) {
  context_options by_context;
  by_context.encoder = chunk_encoder::device;
  const auto ctx = context::make(by_context).value();
  for (const auto& [codecs, named] : {std::pair{kGzip, "gzip(level=1)"}, std::pair{kBigEndian, "bytes(big)"}}) {
    const auto store = make_memory_store();
    model_options how;
    how.shape = {400};
    how.chunks = {100};
    how.codecs = codecs;
    write_model(*store, "a/", how);
    const array opened = open_in(store, ctx);
    std::mt19937_64 random(1);
    const auto items = values_of(random, 1600);
    const auto refused = write(opened, basic_selection(), items, opened.type(), by_device());
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), errc::unsupported);
    EXPECT_NE(refused.error().to_string().find(named), std::string::npos) << refused.error().to_string();
    // The context's choice leaves such arrays to the host.
    ASSERT_TRUE(write(opened, basic_selection(), items, opened.type(), {}).ok());
    EXPECT_EQ(read_all(opened), items);
  }
}

// The kernel reports for every second chunk that there was no space.
void refuse_every_second(const void* parameters) {
  const auto& wave = *static_cast<const device::encode_wave*>(parameters);
  auto* const sizes = reinterpret_cast<std::uint32_t*>(wave.encoded_bytes);
  for (std::uint32_t i = 0; i < wave.part_count; i += 2) sizes[i] = device::kDoesNotFit;
}

TEST_F(DeviceEncode, TheHostEncodesChunksThatDoNotFit) {
  std::mt19937_64 random(1);
  for (const bool sharded : {false, true}) {
    const auto store = make_memory_store();
    model_options how;
    how.shape = {16'000};
    how.chunks = {1000};
    if (sharded) how.shards = extents{4000};
    how.codecs = kLz4;
    write_model(*store, "a/", how);
    const array opened = open_in(store, context::make({}).value());
    const auto items = values_of(random, 64'000);
    ASSERT_TRUE(write(opened, basic_selection(), items, opened.type(), by_device()).ok());
    std::vector<std::vector<std::byte>> by_device_alone;
    for (std::size_t i = 0; i < 16 && !sharded; ++i) by_device_alone.push_back(stored_at(*store, i));
    write_options by_host;
    by_host.encoder = chunk_encoder::host;
    ASSERT_TRUE(write(opened, basic_selection(), items, opened.type(), by_host).ok());
    std::vector<std::vector<std::byte>> by_host_alone;
    for (std::size_t i = 0; i < 16 && !sharded; ++i) by_host_alone.push_back(stored_at(*store, i));

    penstock_fake_cuda_after_kernel("penstock_encode_lz4", refuse_every_second);
    ASSERT_TRUE(write(opened, basic_selection(), items, opened.type(), by_device()).ok());
    penstock_fake_cuda_configure(1, 0, 0);
    EXPECT_EQ(read_all(opened), items);
    for (std::size_t i = 0; i < 16 && !sharded; ++i)
      EXPECT_EQ(stored_at(*store, i), i % 2 == 0 ? by_host_alone[i] : by_device_alone[i]) << i;
  }
}

// Simulates a device with a faulty encoder.
void damage_the_first(const void* parameters) {
  const auto& wave = *static_cast<const device::encode_wave*>(parameters);
  const auto& part = *reinterpret_cast<const device::encode_part*>(wave.parts);
  reinterpret_cast<std::uint8_t*>(part.target)[20] ^= 1;
}

TEST_F(DeviceEncode, ChunksThatDoNotDecodeToTheirValuesAreNotStored) {
  std::mt19937_64 random(1);
  const auto store = make_memory_store();
  model_options how;
  how.shape = {4000};
  how.chunks = {1000};
  how.codecs = kZstd;
  const model_array model = write_model(*store, "a/", how);
  const array opened = open_in(store, context::make({}).value());
  penstock_fake_cuda_after_kernel("penstock_encode_zstd", damage_the_first);
  const auto failed = write(opened, basic_selection(), values_of(random, 16'000), opened.type(), by_device());
  penstock_fake_cuda_configure(1, 0, 0);
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.error().to_string().find("do not decode to its values"), std::string::npos)
      << failed.error().to_string();
  EXPECT_EQ(read_all(opened), model.values);
}

TEST_F(DeviceEncode, MemoryStaysBelowItsLimit) {
  std::mt19937_64 random(1);
  for (const std::uint64_t limit : {std::uint64_t{256} << 10, std::uint64_t{1} << 20}) {
    if (!all_cases() && limit > 256 << 10) break;  // the values of fewer cases would be below it
    const auto store = make_memory_store();
    model_options how;
    how.shape = {all_cases() ? 400'000U : 100'000U};
    how.chunks = {1000};
    how.codecs = kLz4;
    write_model(*store, "a/", how);
    context_options with;
    with.device_memory_bytes = limit;
    const array opened = open_in(store, context::make(with).value());
    const auto items = values_of(random, 4 * how.shape[0]);
    (void)penstock_fake_cuda_peak_bytes();
    ASSERT_TRUE(write(opened, basic_selection(), items, opened.type(), by_device()).ok());
    EXPECT_LE(penstock_fake_cuda_peak_bytes(), limit + items.size()) << limit;  // the values are the test's own
    EXPECT_EQ(read_all(opened), items);
  }
}

// The events of a write in a profile: the device's spans, and each kernel that was launched for it.
TEST_F(DeviceEncode, ProfilesHoldTheTimesOfTheEncoder) {
  std::mt19937_64 random(1);
  constexpr std::uint64_t kRows = 60, kColumns = 64;  // chunks of 10 by 8: gathered by a kernel each
  const auto store = make_memory_store();
  model_options how;
  how.shape = {kRows, kColumns};
  how.chunks = {10, 8};
  how.codecs = kLz4;
  write_model(*store, "a/", how);
  context_options three;
  three.threads = 3;
  const auto ctx = context::make(three).value();
  const array opened = open_in(store, ctx);
  const auto items = values_of(random, 4 * kRows * kColumns);
  const auto sum_of = [](const profile_report& report, stage what) {
    return *std::find_if(report.stages.begin(), report.stages.end(),
                         [&](const profile_stage& each) { return each.what == what; });
  };
  ASSERT_TRUE(write(opened, basic_selection(), items, opened.type(), by_device()).ok());
  std::uint64_t stored = 0;
  for (const char* row : {"0", "1", "2", "3", "4", "5"})
    for (std::size_t column = 0; column < 8; ++column)
      stored += stored_at(*store, std::string(row) + "/" + std::to_string(column)).size();

  ASSERT_TRUE(ctx->start_profile().ok());
  const std::uint64_t before = penstock_fake_cuda_count("kernel");
  ASSERT_TRUE(write(opened, basic_selection(), items, opened.type(), by_device()).ok());
  const std::uint64_t launches = penstock_fake_cuda_count("kernel") - before;
  const profile_report report = ctx->stop_profile();
  std::uint64_t seen = 0;
  for (const profile_kernel& each : report.kernels) {
    seen += each.launches;
    EXPECT_GT(each.busy_ns, 0U) << each.name;
  }
  // One more launch than encoded: to verify, the device gathers the values of one cell, and the host compares.
  EXPECT_EQ(seen + 1, launches);
  for (const char* name : {"penstock_gather", "penstock_shuffle", "penstock_encode_lz4", "penstock_append_crc32c"})
    EXPECT_TRUE(std::any_of(report.kernels.begin(), report.kernels.end(), [&](const profile_kernel& each) {
      return each.name == name;
    })) << name;
  // Bytes count once: the device has encoded all of them, and the workers only waited.
  const profile_stage encode = sum_of(report, stage::encode), transfer = sum_of(report, stage::transfer);
  EXPECT_EQ(encode.bytes_in, items.size());
  EXPECT_EQ(encode.bytes_out, stored);
  EXPECT_GE(transfer.bytes_in, stored);  // and the fill value's chunk
  EXPECT_EQ(transfer.bytes_out, 0U);
  for (const profile_event& each : report.events) {
    if (each.what != stage::encode && each.what != stage::transfer) continue;
    EXPECT_EQ(each.worker, each.what == stage::encode ? cuda::kEncodeWorker : cuda::kEncodeWorker + 1);
    EXPECT_EQ(each.device, 0);
    EXPECT_LE(each.begin_ns, each.end_ns);
  }
  EXPECT_GT(report.device.computing_ns, 0U);
  EXPECT_GT(report.device.copying_ns, 0U);
  // Nothing is timed without a profile.
  penstock_fake_cuda_reset_counts();
  ASSERT_TRUE(write(opened, basic_selection(), items, opened.type(), by_device()).ok());
  EXPECT_EQ(penstock_fake_cuda_count("cuEventElapsedTime"), 0U);
}

// The kernel reports for every second chunk that there was no space: the host records those that it encodes.
TEST_F(DeviceEncode, ProfilesCountTheBytesOfEachEncoderOnce) {
  std::mt19937_64 random(1);
  const auto store = make_memory_store();
  model_options how;
  how.shape = {16'000};
  how.chunks = {1000};
  how.codecs = kLz4;
  write_model(*store, "a/", how);
  const auto ctx = context::make({}).value();
  const array opened = open_in(store, ctx);
  const auto items = values_of(random, 64'000);
  penstock_fake_cuda_after_kernel("penstock_encode_lz4", refuse_every_second);
  ASSERT_TRUE(ctx->start_profile().ok());
  ASSERT_TRUE(write(opened, basic_selection(), items, opened.type(), by_device()).ok());
  const profile_report report = ctx->stop_profile();
  penstock_fake_cuda_configure(1, 0, 0);
  std::uint64_t by_host = 0, by_device_alone = 0;
  for (const profile_event& each : report.events)
    if (each.what == stage::encode) (each.device < 0 ? by_host : by_device_alone) += each.bytes_in;
  EXPECT_EQ(by_host, items.size() / 2);
  EXPECT_EQ(by_device_alone, items.size() / 2);
}

// One worker, and a device of one multiprocessor or of many.
TEST_F(DeviceEncode, AutomaticFollowsTheModel) {
  std::mt19937_64 random(1);
  model_options how;
  const std::uint64_t chunks = all_cases() ? 512 : 256;  // the host encodes fewer
  const std::uint64_t elements = all_cases() ? 1 << 13 : 1 << 11;
  how.shape = {chunks * elements};
  how.chunks = {elements};
  how.codecs = R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"numcodecs.lz4"}])";
  const auto items = values_of(random, 4 * chunks * elements);
  for (const unsigned multiprocessors : {1U, 132U}) {
    const auto store = make_memory_store();
    write_model(*store, "a/", how);
    penstock_fake_cuda_attribute(cuda::kAttributeMultiprocessors, static_cast<int>(multiprocessors), cuda::kSuccess);
    context_options one;
    one.threads = 1;
    const array opened = open_in(store, context::make(one).value());
    const std::string why = device_encoder_choice(opened, opened.select(basic_selection()).value());
    EXPECT_EQ(why.starts_with("the device"), multiprocessors == 132) << why;
    penstock_fake_cuda_reset_counts();
    ASSERT_TRUE(write(opened, basic_selection(), items, opened.type(), {}).ok());
    EXPECT_EQ(penstock_fake_cuda_count("ran penstock_encode_lz4") != 0, multiprocessors == 132) << why;
    write_options by_host;
    by_host.encoder = chunk_encoder::host;
    penstock_fake_cuda_reset_counts();
    ASSERT_TRUE(write(opened, basic_selection(), items, opened.type(), by_host).ok());
    EXPECT_EQ(penstock_fake_cuda_count("ran penstock_encode_lz4"), 0U);
  }
}

TEST_F(DeviceEncode, ValuesInHostMemoryAreRefused) {
  const auto store = make_memory_store();
  model_options how;
  how.shape = {4};
  how.chunks = {2};
  how.codecs = kLz4;
  write_model(*store, "a/", how);
  const array opened = open_in(store, context::make({}).value());
  std::int32_t here[4] = {};
  const auto value = tensor_view::contiguous(reinterpret_cast<std::byte*>(here), opened.type(), opened.shape());
  EXPECT_EQ(opened.write(basic_selection(), value, by_device()).error().code(), errc::invalid_argument);
}

TEST_F(DeviceEncode, FailuresOfTheDriverEndTheWrite) {
  std::mt19937_64 random(1);
  const std::pair<const char*, std::uint64_t> failures[] = {
      {"cuStreamCreate", 0},    {"cuStreamCreate", 1},    {"cuLaunchKernel", 0},    {"cuLaunchKernel", 17},
      {"cuMemcpyHtoDAsync", 0}, {"cuMemcpyDtoHAsync", 0}, {"cuMemcpyDtoHAsync", 2}, {"cuEventSynchronize", 0}};
  for (const auto& [call, after] : failures) {
    const auto store = make_memory_store();
    model_options how;
    how.shape = {64, 64};
    how.chunks = {16, 16};
    how.codecs = kLz4;
    write_model(*store, "a/", how);
    const array opened = open_in(store, context::make({}).value());
    const auto items = values_of(random, 4 * 64 * 64);
    const auto done = write(opened, basic_selection(), items, opened.type(), by_device());
    ASSERT_TRUE(done.ok()) << done.error().to_string();  // the engine has its streams now
    const auto mine = make_stream();
    const cuda::device_address address = allocate(items.size());
    ASSERT_EQ(driver.copy_to_device(address, items.data(), items.size(), mine), cuda::kSuccess);
    auto value = tensor_view::contiguous(reinterpret_cast<std::byte*>(address), opened.type(), opened.shape());
    value.space = memory_space::cuda;
    penstock_fake_cuda_fail(call, after, 719);
    const auto failed = opened.write(basic_selection(), value, by_device());
    ASSERT_FALSE(failed.ok()) << call << " " << after;
    EXPECT_NE(failed.error().to_string().find(call), std::string::npos) << failed.error().to_string();
    EXPECT_EQ(driver.mem_free(address), cuda::kSuccess);
    EXPECT_EQ(driver.stream_destroy(mine), cuda::kSuccess);
  }
}

}  // namespace
}  // namespace penstock::test
