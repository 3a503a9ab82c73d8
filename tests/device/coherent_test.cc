// A device whose memory is the host's: encoded bytes are decoded where they were read, and stay there until then.

#include <unistd.h>

#include <filesystem>
#include <random>

#include <penstock/penstock.h>
#include "chains.h"
#include "fake_device.h"
#include "model_reads.h"
#include "support/cases.h"
#include "support/deterministic_executor.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

constexpr std::uint64_t kKiB = 1024;

class Coherent : public FakeDevice {
 protected:
  void SetUp() override {
    FakeDevice::SetUp();
    configure(1, 0, 0);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder);
    FakeDevice::TearDown();
  }
  static void configure(std::uint64_t seed, int lazy, unsigned max_delay_us) {
    penstock_fake_cuda_configure(seed, lazy, max_delay_us);
    penstock_fake_cuda_attribute(cuda::kAttributeUsesHostPageTables, 1, cuda::kSuccess);
  }
  static std::shared_ptr<penstock::context> context_with(std::uint64_t page_locked, std::uint64_t device_memory = 0,
                                                         std::shared_ptr<penstock::executor> runs = nullptr) {
    context_options options;
    options.threads = 3;
    options.page_locked_bytes = page_locked;
    options.device_memory_bytes = device_memory;
    options.executor = std::move(runs);
    return penstock::context::make(options).value();
  }
  static std::vector<std::byte> read_device(const array& from, const selection& which) {
    auto made = read_to_device(from, which);
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    if (!made.ok()) return {};
    std::uint64_t bytes = from.type().item_bytes();
    for (const std::uint64_t each : made->view().extents) bytes *= each;
    std::vector<std::byte> out(bytes);
    const auto copied = made->copy_to_host(out.data());
    EXPECT_TRUE(copied.ok()) << copied.error().to_string();
    return out;
  }
  static selection random_part(std::mt19937_64& random, const model_options& of) {
    return random_any_selection(random, of.shape, of.shards.value_or(of.chunks));
  }

  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("penstock_coherent_" + std::to_string(::getpid()));
};

class CoherentParity : public Coherent, public testing::WithParamInterface<std::uint64_t> {};

// Kernels run late: by then, a block that was returned too early would hold other bytes.
TEST_P(CoherentParity, DeviceReadsEqualTheModel) {
  std::mt19937_64 random(GetParam());
  configure(GetParam(), 0, 60);
  const auto roomy = context_with(0);
  const auto narrow = context_with(4 * kKiB, 3 * 64 * kKiB);
  for (std::uint64_t round = 0; round < cases(16); ++round) {
    const model_options options = random_model(random);
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
}

TEST_P(CoherentParity, NoReadWaitsForBlocksOfAnOpenWave) {
  std::mt19937_64 random(GetParam() + 1000);
  configure(GetParam(), 1, 0);
  for (std::uint64_t round = 0; round < cases(15); ++round) {
    model_options options = random_model(random);
    if (round % 2 == 0) options.codecs = kZstd;
    if (round % 2 == 0) options.dtype = "int16";
    const auto store = make_memory_store();
    const model_array model = write_model(*store, "a/", options);
    const auto seeded = std::make_shared<deterministic_executor>(random());
    seeded->pending = [] { return penstock_fake_cuda_pending(); };
    seeded->deliver = [](std::uint64_t) { penstock_fake_cuda_pump(1); };
    seeded->wakes_from_outside = kCompletionTime;
    const array opened = open_in(store, context_with(8 * kKiB, 3 * 64 * kKiB, seeded));
    for (int i = 0; i < 4; ++i) {
      const selection which = i == 0 ? selection(basic_selection()) : random_part(random, options);
      ASSERT_EQ(read_device(opened, which), model.select(which)) << "round " << round << " read " << i;
      ASSERT_FALSE(seeded->stuck());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, CoherentParity, testing::Range<std::uint64_t>(1, 7));

TEST_F(Coherent, OnlyTheTablesOfWavesAreCopied) {
  model_options options;
  options.shape = {1024 * kKiB};
  options.chunks = {64 * kKiB};
  options.dtype = "uint8";
  options.values = 200;
  options.codecs = kZstd;
  const std::shared_ptr<store> files = open_file_store(folder.string());
  const model_array model = write_model(*files, "a/", options);
  const array opened = open_in(files, context_with(0));
  ASSERT_EQ(read_device(opened, basic_selection()), model.values);
  penstock_fake_cuda_reset_counts();
  ASSERT_EQ(read_device(opened, basic_selection()), model.values);
  EXPECT_EQ(penstock_fake_cuda_count("cuMemcpyHtoDAsync"), penstock_fake_cuda_count("ran penstock_move"));
  EXPECT_EQ(penstock_fake_cuda_count("cuMemcpyBatchAsync"), 0U);
  EXPECT_EQ(penstock_fake_cuda_count("cuMemHostAlloc"), 0U);
  EXPECT_EQ(penstock_fake_cuda_count("cuMemAlloc"), 0U);
  EXPECT_NE(device_path(opened).find("not copied"), std::string::npos) << device_path(opened);
  EXPECT_NE(device_path_json(opened).find(R"("copies":false)"), std::string::npos) << device_path_json(opened);
  configure(1, 0, 0);
  penstock_fake_cuda_attribute(cuda::kAttributeUsesHostPageTables, 0, cuda::kSuccess);
  EXPECT_EQ(device_path(opened).find("not copied"), std::string::npos) << device_path(opened);
}

// The second chunk needs nearly all of the page-locked memory; the first has some of it, in a wave that is not full.
TEST_F(Coherent, AWaveReturnsItsBlocksForALongerChunk) {
  constexpr std::uint64_t kChunk = 1024 * kKiB;
  model_options options;
  options.shape = {4 * kChunk};
  options.chunks = {kChunk};
  options.shards = extents{4 * kChunk};
  options.dtype = "uint8";
  options.codecs = kZstd;
  for (const bool lends : {false, true}) {
    std::filesystem::remove_all(folder);
    const std::shared_ptr<store> files = lends ? make_memory_store() : open_file_store(folder.string());
    write_model(*files, "a/", options);
    const array opened = open_in(files, context_with(kChunk * 9 / 8));
    // Random bytes, which zstd cannot make shorter; then zeros.
    std::vector<std::byte> values(4 * kChunk);
    std::mt19937_64 random(1);
    for (std::uint64_t chunk = 0; chunk < 4; ++chunk) {
      const std::uint64_t dense = chunk % 2 == 0 ? kChunk / 5 : kChunk;
      for (std::uint64_t i = 0; i < dense; ++i) values[chunk * kChunk + i] = static_cast<std::byte>(random());
    }
    const auto written =
        opened.write(basic_selection(), tensor_view::contiguous(values.data(), opened.type(), opened.shape()));
    ASSERT_TRUE(written.ok()) << written.error().to_string();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(read_device(opened, basic_selection()), values) << lends;
  }
}

}  // namespace
}  // namespace penstock::test
