// Blocking calls of the driver, as with a full queue, do not stop any thread permanently.

#include <chrono>
#include <future>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <penstock/penstock.h>
#include "fake_device.h"
#include "support/model_array.h"
#include "support/random_selection.h"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;

class DeviceBlocking : public FakeDevice, public testing::WithParamInterface<std::uint64_t> {};

// Little page-locked memory and little device memory: reads wait for each other's blocks and waves, which are returned
// while a call that holds the engine's lock is blocked.
TEST_P(DeviceBlocking, ReadsOfManyThreadsEndIfAnyCallBlocks) {
  constexpr unsigned kThreads = 4, kReads = 6;
  std::mt19937_64 random(GetParam());
  model_options wanted;
  wanted.shape = {48 * 512};
  wanted.chunks = {512};
  wanted.shards = extents{8 * 512};
  wanted.dtype = "int16";
  if (GetParam() % 2 == 0)
    wanted.codecs =
        R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"zstd","configuration":{"level":1,"checksum":true}}])";
  const auto files = make_memory_store();
  const model_array model = write_model(*files, "a/", wanted);
  context_options options;
  options.threads = 3;
  options.page_locked_bytes = 16384;
  options.device_memory_bytes = 3 * 65536;
  open_options where;
  where.context = context::make(options).value();
  where.path = "a";
  const array opened = open_array(files, where).value();
  penstock_fake_cuda_configure(GetParam(), 0, 20);
  penstock_fake_cuda_block_at_random(4);
  std::vector<std::future<std::string>> all;  // failures; empty: none
  for (unsigned i = 0; i < kThreads; ++i) {
    all.push_back(std::async(std::launch::async, [&, seed = random()] {
      std::mt19937_64 mine(seed);
      for (unsigned n = 0; n < kReads; ++n) {
        const selection which =
            n == 0 ? selection(basic_selection()) : random_any_selection(mine, wanted.shape, *wanted.shards);
        const auto expected = model.select(which);
        auto made = read_to_device(opened, which);
        std::vector<std::byte> seen(expected.size());
        if (!made.ok()) return made.error().to_string();
        if (const auto copied = made->copy_to_host(seen.data()); !copied.ok()) return copied.error().to_string();
        if (seen != expected) return std::string("other values");
      }
      return std::string();
    }));
  }
  for (auto& each : all) {
    ASSERT_EQ(each.wait_for(120s), std::future_status::ready) << "a read waits for ever";
    EXPECT_EQ(each.get(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, DeviceBlocking, testing::Range<std::uint64_t>(1, 9));

}  // namespace
}  // namespace penstock::test
