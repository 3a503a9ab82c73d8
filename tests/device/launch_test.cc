// The kernels of a wave: their dependencies, and their times in a profile.

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <penstock/penstock.h>
#include "cuda/decode/launch.h"
#include "fake_device.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;

constexpr const char* kZstd =
    R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"zstd","configuration":{"level":3,"checksum":false}}])";

class DeviceLaunch : public FakeDevice {
 protected:
  DeviceLaunch() {
    model_options wanted;
    wanted.shape = {128 * 1024};
    wanted.chunks = {32 * 1024};
    wanted.dtype = "float32";
    wanted.codecs = kZstd;
    model = write_model(*files, "a/", wanted);
    open_options where;
    where.context = with;
    where.path = "a";
    opened.emplace(open_array(files, where).value());
  }
  static std::uint64_t ran(const std::string& kernel) {
    return penstock_fake_cuda_count(("ran penstock_" + kernel).c_str());
  }
  static bool comes(const std::string& kernel) {
    const auto until = std::chrono::steady_clock::now() + kCompletionTime;
    while (ran(kernel) == 0) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }
  void expect_values(device_tensor& tensor) const {
    std::vector<std::byte> seen(model.values.size());
    ASSERT_TRUE(tensor.copy_to_host(seen.data()).ok());
    EXPECT_EQ(seen, model.values);
  }

  const std::shared_ptr<store> files = make_memory_store();
  const std::shared_ptr<penstock::context> with = penstock::context::make({}).value();
  model_array model;
  std::optional<array> opened;
};

// Each of the two kernels runs while the other one is held; a kernel that needs both runs after both.
TEST_F(DeviceLaunch, LiteralsAndSequencesRunInParallel) {
  for (const auto& [held, other] :
       {std::pair{"zstd_literals", "zstd_sequences"}, std::pair{"zstd_sequences", "zstd_literals"}}) {
    penstock_fake_cuda_reset_counts();
    penstock_fake_cuda_hold_kernel((std::string("penstock_") + held).c_str());
    auto tensor = read_to_device(*opened, basic_selection());
    ASSERT_TRUE(tensor.ok()) << tensor.error().to_string();
    EXPECT_TRUE(comes(other)) << held;
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(ran(held), 0U);
    EXPECT_EQ(ran("zstd_execute"), 0U) << held;
    penstock_fake_cuda_hold_kernel(nullptr);
    expect_values(*tensor);
    EXPECT_GE(ran("zstd_execute"), 1U);
  }
}

TEST_F(DeviceLaunch, AProfileHasEachKernelAndTheDevicesWork) {
  ASSERT_TRUE(with->start_profile().ok());
  std::uint64_t launches = 0;
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t before = penstock_fake_cuda_count("kernel");
    auto tensor = read_to_device(*opened, basic_selection());
    ASSERT_TRUE(tensor.ok()) << tensor.error().to_string();
    expect_values(*tensor);
    launches += penstock_fake_cuda_count("kernel") - before;
  }
  const profile_report report = with->stop_profile();
  std::uint64_t told = 0, busy = 0;
  for (const profile_kernel& each : report.kernels) {
    told += each.launches;
    busy += each.busy_ns;
  }
  EXPECT_EQ(told, launches);
  EXPECT_GT(busy, 0U);
  for (const char* name : {"penstock_zstd_literals", "penstock_zstd_sequences", "penstock_zstd_execute"})
    EXPECT_TRUE(std::any_of(report.kernels.begin(), report.kernels.end(), [&](const profile_kernel& each) {
      return each.name == name;
    })) << name;
  EXPECT_GT(report.device.computing_ns, 0U);
  EXPECT_GT(report.device.copying_ns, 0U);
  EXPECT_LE(report.device.computing_ns, report.wall_ns);
  EXPECT_LE(report.device.waiting_ns, report.wall_ns);
  EXPECT_GE(report.device.computing_ns + report.device.copying_ns + report.device.waiting_ns, report.wall_ns);
}

TEST_F(DeviceLaunch, KernelsAreLoadedBeforeTheFirstLaunch) {
  if (driver.function_load == nullptr) GTEST_SKIP() << "a driver before 12.4 cannot load them early";
  constexpr std::uint64_t kAll = device::kKernels + 2;  // and the scatter, and the gather
  ASSERT_TRUE(write_stream(*with, 0).ok());             // makes the engine
  EXPECT_EQ(penstock_fake_cuda_count("cuFuncLoad"), kAll);
  EXPECT_EQ(penstock_fake_cuda_count("kernel"), 0U);
  auto tensor = read_to_device(*opened, basic_selection());
  ASSERT_TRUE(tensor.ok()) << tensor.error().to_string();
  expect_values(*tensor);
  EXPECT_GT(penstock_fake_cuda_count("kernel"), 0U);
  EXPECT_EQ(penstock_fake_cuda_count("cuFuncLoad"), kAll);
}

// The events of kernels are made once.
TEST_F(DeviceLaunch, WithoutAProfileNothingIsTimed) {
  auto first = read_to_device(*opened, basic_selection());
  ASSERT_TRUE(first.ok());
  expect_values(*first);
  penstock_fake_cuda_reset_counts();
  auto tensor = read_to_device(*opened, basic_selection());
  ASSERT_TRUE(tensor.ok());
  expect_values(*tensor);
  EXPECT_EQ(penstock_fake_cuda_count("cuEventCreate"), 0U);
  EXPECT_EQ(penstock_fake_cuda_count("cuEventElapsedTime"), 0U);
}

}  // namespace
}  // namespace penstock::test
