// Independent reads do not wait for each other: neither their copies, nor the page-locked memory for them.

#include <chrono>
#include <functional>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <penstock/penstock.h>
#include "chains.h"
#include "engine/pool_executor.h"
#include "fake_device.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;

constexpr const char* kBytes = R"([{"name":"bytes","configuration":{"endian":"little"}}])";
constexpr std::uint64_t kPageLocked = 256 << 10;

class DeviceIndependence : public FakeDevice {
 protected:
  DeviceIndependence() {
    context_options options;
    options.threads = 2;
    options.page_locked_bytes = kPageLocked;
    ctx = context::make(options).value();
    model_options compressed;
    compressed.shape = {16 * 1024};
    compressed.chunks = {1024};
    compressed.dtype = "float32";
    compressed.codecs = kZstd;
    slow = write_model(*files, "slow/", compressed);
    // Each chunk is copied to its destination without a kernel. All of them together are larger than the page-locked
    // memory.
    model_options raw = compressed;
    raw.shape = {256 * 1024};
    raw.chunks = {8 * 1024};
    raw.codecs = kBytes;
    fast = write_model(*files, "fast/", raw);
  }

  array open(const char* path) const {
    open_options where;
    where.context = ctx;
    where.path = path;
    return open_array(files, where).value();
  }
  static device_tensor begin(const array& from) {
    auto made = read_to_device(from, basic_selection());
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    return std::move(made).value();
  }
  // With a time limit: a wait for a held kernel would never end.
  static bool ends(device_tensor& which) {
    const auto end = std::chrono::steady_clock::now() + 10s;
    if (!which.wait_for(10s)) return false;
    while (!which.done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }
  static void expect(device_tensor& which, const model_array& model) {
    std::vector<std::byte> seen(model.values.size());
    const auto copied = which.copy_to_host(seen.data());
    ASSERT_TRUE(copied.ok()) << copied.error().to_string();
    EXPECT_EQ(seen, model.values);
  }

  std::shared_ptr<store> files = make_memory_store();
  std::shared_ptr<penstock::context> ctx;
  model_array slow, fast;
};

TEST_F(DeviceIndependence, PageLockedMemoryIsReturnedAfterItsCopy) {
  const array decoded = open("slow"), copied = open("fast");
  penstock_fake_cuda_hold_kernels(1);
  device_tensor held = begin(decoded);
  ASSERT_TRUE(held.wait_for(10s));
  std::vector<device_tensor> kept;  // returned memory waits for all queued work of the context
  for (int i = 0; i < 3; ++i) {
    device_tensor& made = kept.emplace_back(begin(copied));
    const bool ended = ends(made);
    if (!ended) penstock_fake_cuda_hold_kernels(0);
    ASSERT_TRUE(ended) << "read " << i;
    expect(made, fast);
  }
  EXPECT_FALSE(held.done());
  penstock_fake_cuda_hold_kernels(0);
  expect(held, slow);
}

/// Has no threads for reads in the background.
class without_threads final : public executor {
 public:
  void run(const std::shared_ptr<job>& work, unsigned workers, const std::function<void()>& poll,
           std::chrono::nanoseconds interval) override {
    pool_.run(work, workers, poll, interval);
  }
  void start(std::shared_ptr<job> work, unsigned workers) override {
    if (none) throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    pool_.start(std::move(work), workers);
  }
  bool none = true;

 private:
  pool_executor pool_{2};
};

TEST_F(DeviceIndependence, AReadWithoutAThreadFailsAndLaterOnesRun) {
  const auto workers = std::make_shared<without_threads>();
  context_options options;
  options.threads = 2;
  options.executor = workers;
  ctx = context::make(options).value();
  const array decoded = open("slow");
  const auto refused = read_to_device(decoded, basic_selection());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), errc::resource_exhausted);
  EXPECT_NE(refused.error().to_string().find("array '"), std::string::npos) << refused.error().to_string();
  workers->none = false;
  device_tensor made = begin(decoded);
  expect(made, slow);
}

// A read that waits for its caller's stream delays its own copies only: other reads get page-locked memory.
TEST_F(DeviceIndependence, ASlowCallerDoesNotDelayOtherReadsCopies) {
  const array copied = open("fast");
  const auto mine = make_stream();
  penstock_fake_cuda_hold_kernels(1);
  ASSERT_EQ(penstock_fake_cuda_enqueue(mine, [](void*) {}, nullptr), 0);
  device_read_options options;
  options.stream = reinterpret_cast<stream_handle>(mine);
  basic_selection one_chunk;
  one_chunk.items = {slice{0, 8 * 1024, 1}};
  auto late = read_to_device(copied, one_chunk, options);
  ASSERT_TRUE(late.ok()) << late.error().to_string();
  ASSERT_TRUE(late->wait_for(10s));
  device_tensor made = begin(copied);
  const bool ended = ends(made);
  EXPECT_FALSE(late->done());
  penstock_fake_cuda_hold_kernels(0);
  ASSERT_TRUE(ended);
  expect(made, fast);
  ASSERT_TRUE(late->synchronize().ok());
}

// A read's record of failures is written before its copies. It must not be a record that an earlier read still needs.
TEST_F(DeviceIndependence, AReadsFirstCopyDoesNotWaitForEarlierReads) {
  const array decoded = open("slow"), copied = open("fast");
  {
    device_tensor warm = begin(decoded);
  }
  penstock_fake_cuda_hold_kernels(1);
  for (int i = 0; i < 2; ++i) {
    device_tensor dropped = begin(decoded);
    ASSERT_TRUE(dropped.wait_for(10s));
  }
  device_tensor made = begin(copied);
  const bool ended = ends(made);
  penstock_fake_cuda_hold_kernels(0);
  ASSERT_TRUE(ended);
  expect(made, fast);
}

}  // namespace
}  // namespace penstock::test
