// The place of a device: whether it reads the host's memory as its own, and which part of that memory is near.

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cuda/device_place.h"
#include "fake_device.h"

namespace penstock::test {
namespace {

class DevicePlace : public FakeDevice {
 protected:
  void TearDown() override {
    std::filesystem::remove_all(folder);
    FakeDevice::TearDown();
  }
  // Sets the system's information on the device at 0001:c1:00.0.
  void system_says(const std::string& node) const {
    std::filesystem::create_directories(folder / "0001:c1:00.0");
    std::ofstream(folder / "0001:c1:00.0" / "numa_node") << node;
    penstock_fake_cuda_attribute(cuda::kAttributePciDomain, 1, cuda::kSuccess);
    penstock_fake_cuda_attribute(cuda::kAttributePciBus, 0xc1, cuda::kSuccess);
    penstock_fake_cuda_attribute(cuda::kAttributePciDevice, 0, cuda::kSuccess);
  }
  static void driver_says_no_node() { penstock_fake_cuda_attribute(cuda::kAttributeHostNode, 0, cuda::kInvalidValue); }
  std::optional<unsigned> node() const { return cuda::host_node_of(driver, 0, folder.string()); }

  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("penstock_place_" + std::to_string(::getpid()));
};

TEST_F(DevicePlace, TheDriverNamesTheNode) {
  system_says("1\n");
  penstock_fake_cuda_attribute(cuda::kAttributeHostNode, 3, cuda::kSuccess);
  EXPECT_EQ(node(), 3U);
  penstock_fake_cuda_attribute(cuda::kAttributeHostNode, -1, cuda::kSuccess);
  EXPECT_EQ(node(), std::nullopt);
}

TEST_F(DevicePlace, ForAnOlderDriverTheSystemNamesTheNode) {
  driver_says_no_node();
  EXPECT_EQ(node(), std::nullopt);
  system_says("2\n");
  EXPECT_EQ(node(), 2U);
  system_says("-1\n");
  EXPECT_EQ(node(), std::nullopt);
  system_says("?");
  EXPECT_EQ(node(), std::nullopt);
}

TEST_F(DevicePlace, MemoryIsSharedByIntegratedOrCoherentDevices) {
  EXPECT_FALSE(cuda::reads_host_memory(driver, 0));
  penstock_fake_cuda_attribute(cuda::kAttributeIntegrated, 1, cuda::kSuccess);
  EXPECT_FALSE(cuda::reads_host_memory(driver, 0));  // not what the ring registers
  penstock_fake_cuda_attribute(cuda::kAttributeUsesRegisteredAddress, 1, cuda::kSuccess);
  EXPECT_TRUE(cuda::reads_host_memory(driver, 0));
  penstock_fake_cuda_attribute(cuda::kAttributeIntegrated, 0, cuda::kSuccess);
  EXPECT_FALSE(cuda::reads_host_memory(driver, 0));
  penstock_fake_cuda_attribute(cuda::kAttributeUsesHostPageTables, 1, cuda::kSuccess);
  EXPECT_TRUE(cuda::reads_host_memory(driver, 0));
}

}  // namespace
}  // namespace penstock::test
