// Several devices of one context: they share its threads.

#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <penstock/penstock.h>
#include "fake_device.h"
#include "model_reads.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;

// A store whose reads take some time, and which records whose chunks were requested.
class noting_store final : public store {
 public:
  explicit noting_store(std::shared_ptr<store> under) : under_(std::move(under)) {}
  store_traits traits() const override { return under_->traits(); }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override {
    for (const byte_read& each : reads) {
      if (each.key.find("/c/") == std::string::npos) continue;
      std::this_thread::sleep_for(500us);
      const std::lock_guard lock(mutex_);
      order_ += each.key.front();
    }
    under_->read(reads, sink, stop);
  }
  std::string uri() const override { return "test:"; }
  std::string take_order() const {
    const std::lock_guard lock(mutex_);
    return std::exchange(order_, {});
  }

 private:
  std::shared_ptr<store> under_;
  mutable std::mutex mutex_;
  mutable std::string order_;
};

class DeviceSharing : public FakeDevice {};

TEST_F(DeviceSharing, TwoDevicesShareTheHostsThreads) {
  constexpr std::size_t kChunks = 100;
  model_options options;
  options.shape = {kChunks * 1024};
  options.chunks = {1024};
  options.dtype = "int32";
  const std::shared_ptr<store> files = make_memory_store();
  const model_array model = write_model(*files, "a/", options);
  write_model(*files, "b/", options);
  const auto noted = std::make_shared<noting_store>(files);
  context_options with;
  with.threads = 1;
  const auto ctx = penstock::context::make(with).value();
  std::vector<array> arrays;
  for (const char* const path : {"a", "b"}) {
    open_options where;
    where.context = ctx;
    where.path = path;
    arrays.push_back(open_array(std::shared_ptr<const store>(noted), where).value());
  }
  std::string order;
  for (const bool warm : {false, true}) {
    (void)noted->take_order();
    std::vector<device_tensor> read;
    for (int device = 0; device < 2; ++device) {
      device_read_options to;
      to.device = device;
      auto made = read_to_device(arrays[static_cast<std::size_t>(device)], basic_selection(), to);
      ASSERT_TRUE(made.ok()) << made.error().to_string();
      read.push_back(std::move(made).value());
    }
    for (device_tensor& each : read) {
      std::vector<std::byte> seen(model.values.size());
      ASSERT_TRUE(each.copy_to_host(seen.data()).ok());
      EXPECT_EQ(seen, model.values) << warm;
    }
    order = noted->take_order();
  }
  // When the first read has half of its chunks, the second has a large part of its own.
  ASSERT_EQ(order.size(), 2 * kChunks);
  std::size_t a = 0, b = 0;
  for (const char each : order) {
    if (a == kChunks / 2) break;
    (each == 'a' ? a : b) += 1;
  }
  EXPECT_GE(b, kChunks / 4) << order;
}

}  // namespace
}  // namespace penstock::test
