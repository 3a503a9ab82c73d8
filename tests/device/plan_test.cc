// The plan for a device equals the requests of a read into its memory.

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <utility>

#include <penstock/extend/json.h>
#include <penstock/penstock.h>
#include "fake_device.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

class counting_store final : public store {
 public:
  explicit counting_store(std::shared_ptr<store> under) : under_(std::move(under)) {}
  store_traits traits() const override { return under_->traits(); }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override {
    count += reads.size();
    under_->read(reads, sink, stop);
  }
  std::string uri() const override { return "test:"; }

  mutable std::atomic<std::uint64_t> count{0};

 private:
  std::shared_ptr<store> under_;
};

class DevicePlan : public FakeDevice {};

std::uint64_t requests_of(const result<std::string>& plan) {
  EXPECT_TRUE(plan.ok());
  const json sums = json::parse(plan.value()).value();
  std::uint64_t requests = 0, of_indexes = 0;
  EXPECT_TRUE(sums.find("requests")->get(requests) && sums.find("index_requests")->get(of_indexes));
  return requests + of_indexes;
}

TEST_F(DevicePlan, CountsTheRequestsOfADeviceRead) {
  for (const bool on_host : {false, true}) {
    model_options options;
    options.shape = {1 << 20};
    options.chunks = {16 << 10};
    options.shards = extents{1 << 20};
    options.values = 256;
    if (on_host) options.codecs = R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"numcodecs.bz2"}])";
    const auto folder = std::filesystem::temp_directory_path() / ("penstock_plan_" + std::to_string(::getpid()));
    const auto files = open_file_store(folder.string());
    write_model(*files, "a/", options);
    const auto counted = std::make_shared<counting_store>(files);
    context_options with;
    with.threads = 1;
    open_options where;
    where.context = context::make(with).value();
    where.path = "a";
    const array opened = open_array(std::shared_ptr<const store>(counted), where).value();
    const resolved_selection all = opened.select(basic_selection()).value();
    const std::uint64_t planned = requests_of(device_plan_json(opened, all));
    counted->count = 0;
    auto made = read_to_device(opened, all, std::nullopt, {});
    ASSERT_TRUE(made.ok() && made->synchronize().ok());
    EXPECT_EQ(counted->count, planned);
    // Requests are longer if the device receives the bytes as they were read.
    const std::uint64_t of_host = requests_of(opened.plan_json(all));
    EXPECT_EQ(planned < of_host, !on_host) << planned << " and " << of_host;
    std::filesystem::remove_all(folder);
  }
}

}  // namespace
}  // namespace penstock::test
