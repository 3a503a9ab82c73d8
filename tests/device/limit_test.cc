// `device_memory_limit`: reads use at most this memory, whatever the chunks contain, and return the same bytes with a
// lower limit.

#include <cstring>
#include <random>
#include <thread>

#include <penstock/penstock.h>
#include "fake_device.h"
#include "model_reads.h"
#include "support/fake_nvcomp/fake_nvcomp.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

constexpr const char* kBytes = R"({"name":"bytes","configuration":{"endian":"little"}})";
/// Records of failures, which are not counted.
constexpr std::uint64_t kBeside = 16 << 10;

std::string chain(const std::string& codec) { return std::string("[") + kBytes + "," + codec + "]"; }
const std::string kZstd = chain(R"({"name":"zstd","configuration":{"level":3,"checksum":false}})");
const std::string kShuffled = chain(
    R"({"name":"numcodecs.shuffle","configuration":{"elementsize":4}},{"name":"zstd","configuration":{"level":3,"checksum":true}})");
const std::string kBlosc = chain(
    R"({"name":"blosc","configuration":{"cname":"zstd","clevel":5,"shuffle":"shuffle","typesize":4,"blocksize":0}})");

class DeviceLimit : public FakeDevice {
 protected:
  void TearDown() override {
    unsetenv("PENSTOCK_NVCOMP");
    EXPECT_EQ(penstock_fake_cuda_count("legacy stream"), 0U);
    FakeDevice::TearDown();
  }

  static std::shared_ptr<penstock::context> context_with(std::uint64_t limit, unsigned threads = 2,
                                                         const char* decoder = "") {
    context_options options;
    options.threads = threads;
    options.device_memory_bytes = limit;
    options.device_decoder = decoder;
    return context::make(options).value();
  }
  // Reads into memory that already exists, so that only the engine allocates.
  result<std::vector<std::byte>> read(const array& from, const model_array& model, const selection& which,
                                      std::uint64_t& taken) {
    const extents shape = from.select(which).value().shape;
    const std::vector<std::byte> wanted = model.select(which);
    const auto target = allocate(std::max<std::size_t>(wanted.size(), 1));
    tensor_view out = tensor_view::contiguous(reinterpret_cast<void*>(target), from.type(), shape);
    out.space = memory_space::cuda;
    const std::uint64_t before = penstock_fake_cuda_live_bytes();
    penstock_fake_cuda_peak_bytes();
    std::vector<std::byte> seen(wanted.size());
    const auto run = [&]() -> result<> {
      PENSTOCK_ASSIGN(auto made, read_to_device(from, which, out));
      PENSTOCK_TRY(made.synchronize());
      return made.copy_to_host(seen.data());
    };
    auto outcome = run();
    taken = penstock_fake_cuda_peak_bytes() - before;
    EXPECT_EQ(driver.mem_free(target), cuda::kSuccess);
    if (!outcome.ok()) return std::move(outcome).error();
    return seen;
  }
};

// A constant compresses so well that one request returns all chunks of a shard: far more than fits into a wave.
TEST_F(DeviceLimit, ARequestLargerThanAWaveUsesSeveral) {
  for (const std::string& codecs : {kZstd, kShuffled, kBlosc}) {
    model_options options;
    options.shape = {512, 512};
    options.chunks = {64, 64};
    options.shards = extents{512, 512};
    options.dtype = "int32";
    options.codecs = codecs;
    options.least = 5;
    options.values = 1;
    const auto store = make_memory_store();
    const model_array model = write_model(*store, "a/", options);
    constexpr std::uint64_t kLimit = 384 << 10;
    const auto ctx = context_with(kLimit);
    for (const std::uint64_t seed : {1, 2, 3}) {
      penstock_fake_cuda_configure(seed, 0, seed == 3 ? 30 : 0);
      std::uint64_t taken = 0;
      auto seen = read(open_in(store, ctx), model, basic_selection(), taken);
      ASSERT_TRUE(seen.ok()) << seen.error().to_string();
      ASSERT_EQ(*seen, model.values) << codecs;
      const context_usage usage = ctx->usage();
      EXPECT_GT(usage.device_wave_bytes, 0U);
      EXPECT_LE(usage.device_wave_bytes, kLimit) << codecs;
    }
  }
}

TEST_F(DeviceLimit, TablesAndWorkspaceAreCounted) {
  setenv("PENSTOCK_NVCOMP", PENSTOCK_FAKE_NVCOMP, 1);
  std::mt19937_64 random(3);
  for (const char* const decoder : {"", "nvcomp"}) {
    for (const std::string& codecs : {kZstd, kShuffled, kBlosc, std::string("[") + kBytes + "]"}) {
      for (const std::uint64_t kib : {160, 384, 1024, 4096}) {
        model_options options;
        options.shape = {320, 320};
        options.chunks = {32, 32};
        options.shards = extents{160, 320};
        options.dtype = "int32";
        options.codecs = codecs;
        options.values = 40;
        options.missing = 0.1;
        options.seed = random();
        const auto store = make_memory_store();
        const model_array model = write_model(*store, "a/", options);
        const auto ctx = context_with(kib << 10, 3, decoder);
        std::uint64_t taken = 0;
        for (int i = 0; i < 2; ++i) {
          const selection which = i == 0 ? selection(basic_selection()) : random_selection(random, options.shape);
          auto seen = read(open_in(store, ctx), model, which, taken);
          ASSERT_TRUE(seen.ok()) << seen.error().to_string();
          ASSERT_EQ(*seen, model.select(which)) << codecs << " " << kib;
          EXPECT_LE(ctx->usage().device_wave_bytes, kib << 10) << codecs << " " << decoder;
          if (i == 0) {
            EXPECT_LE(taken, (kib << 10) + kBeside) << codecs << " " << decoder;
          }
        }
      }
    }
  }
}

// The host decodes chunks that are too large to be decoded on the device, and the device copies if nothing must be
// moved.
TEST_F(DeviceLimit, AChunkLargerThanAWaveIsDecodedOnTheHost) {
  model_options options;
  options.shape = {4, 64 * 1024};
  options.chunks = {1, 64 * 1024};
  options.dtype = "int32";
  options.codecs = kZstd;
  options.values = 200;
  const auto store = make_memory_store();
  const model_array model = write_model(*store, "a/", options);
  constexpr std::uint64_t kLimit = 384 << 10;  // three waves of less than a chunk
  const auto ctx = context_with(kLimit);
  std::uint64_t taken = 0;
  auto seen = read(open_in(store, ctx), model, basic_selection(), taken);
  ASSERT_TRUE(seen.ok()) << seen.error().to_string();
  EXPECT_EQ(*seen, model.values);
  EXPECT_LE(ctx->usage().device_wave_bytes, kLimit);
  // Every other element has to be moved by a kernel, from a chunk that is on the device.
  basic_selection every_other;
  every_other.items = {slice{}, slice{0, 64 * 1024, 2}};
  auto none = read(open_in(store, ctx), model, every_other, taken);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code(), errc::resource_exhausted);
  const std::string text = none.error().to_string();
  EXPECT_NE(text.find("device_memory_limit"), std::string::npos) << text;
  EXPECT_NE(text.find("chunk ("), std::string::npos) << text;
  // The engine continues.
  seen = read(open_in(store, ctx), model, basic_selection(), taken);
  ASSERT_TRUE(seen.ok()) << seen.error().to_string();
  EXPECT_EQ(*seen, model.values);
}

TEST_F(DeviceLimit, WavesAreSmallerIfOthersHoldTheMemory) {
  model_options options;
  options.shape = {512, 512};
  options.chunks = {64, 64};
  options.dtype = "int32";
  options.codecs = kZstd;
  const auto store = make_memory_store();
  const model_array model = write_model(*store, "a/", options);
  const auto whole = context_with(0), less = context_with(0);
  std::uint64_t taken = 0;
  auto seen = read(open_in(store, whole), model, basic_selection(), taken);
  ASSERT_TRUE(seen.ok()) << seen.error().to_string();
  // The target is allocated first, records of failures second; then the first wave.
  constexpr int kOutOfMemory = 2;
  penstock_fake_cuda_fail("cuMemAlloc", 2, kOutOfMemory);
  seen = read(open_in(store, less), model, basic_selection(), taken);
  ASSERT_TRUE(seen.ok()) << seen.error().to_string();
  EXPECT_EQ(*seen, model.values);
  EXPECT_LT(less->usage().device_wave_bytes, whole->usage().device_wave_bytes);
}

TEST_F(DeviceLimit, ManyFillsStayBelowIt) {
  model_options options;
  options.shape = {300, 300};
  options.chunks = {3, 3};
  options.dtype = "int16";
  options.missing = 1;
  const auto store = make_memory_store();
  const model_array model = write_model(*store, "a/", options);
  constexpr std::uint64_t kLimit = 24 << 10;
  const auto ctx = context_with(kLimit);
  std::uint64_t taken = 0;
  auto seen = read(open_in(store, ctx), model, basic_selection(), taken);
  ASSERT_TRUE(seen.ok()) << seen.error().to_string();
  EXPECT_EQ(*seen, model.values);
  EXPECT_LE(ctx->usage().device_wave_bytes, kLimit);
  EXPECT_LE(taken, kLimit + kBeside);
}

// The pool rounds sizes up, which must not wrap around.
TEST_F(DeviceLimit, AResultOfNearly2To64BytesIsRefused) {
  create_options how;
  how.path = "a";
  how.shape = {(std::uint64_t{1} << 61) - 1};
  how.chunks = extents{std::uint64_t{1} << 20};
  how.type = dtype::from_name("uint8").value();
  const auto made = create_array(std::shared_ptr<store>(make_memory_store()), how);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  device_read_options wider;
  wider.type = dtype::from_name("float64").value();
  const auto read = read_to_device(*made, basic_selection(), wider);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code(), errc::resource_exhausted) << read.error().to_string();
}

TEST_F(DeviceLimit, ACancelledReadReturnsEverything) {
  model_options options;
  options.shape = {256, 256};
  options.chunks = {16, 16};
  options.shards = extents{64, 256};
  options.dtype = "int32";
  options.codecs = kZstd;
  const auto store = make_memory_store();
  const model_array model = write_model(*store, "a/", options);
  const auto ctx = context_with(192 << 10);
  const array opened = open_in(store, ctx);
  std::mt19937_64 random(9);
  for (int round = 0; round < 60; ++round) {
    penstock_fake_cuda_configure(random(), 0, round % 2 == 0 ? 0 : 20);
    {
      auto made = read_to_device(opened, basic_selection());
      ASSERT_TRUE(made.ok()) << made.error().to_string();
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 600));
      made->cancel();
      const auto outcome = made->synchronize();
      if (!outcome.ok()) {
        EXPECT_EQ(outcome.error().code(), errc::cancelled) << outcome.error().to_string();
      }
    }
    if (round % 10 != 9) continue;
    std::uint64_t taken = 0;
    auto seen = read(opened, model, basic_selection(), taken);
    ASSERT_TRUE(seen.ok()) << seen.error().to_string();
    ASSERT_EQ(*seen, model.values);
  }
}

}  // namespace
}  // namespace penstock::test
