#include "cuda/driver.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace penstock::cuda {
namespace {

class DriverFile : public testing::Test {
 protected:
  void TearDown() override { unsetenv("PENSTOCK_CUDA_DRIVER"); }
};

TEST_F(DriverFile, IsTheSystemsUnlessTheEnvironmentNamesOne) {
  unsetenv("PENSTOCK_CUDA_DRIVER");
  EXPECT_EQ(driver_file(), "libcuda.so.1");
  setenv("PENSTOCK_CUDA_DRIVER", "", 1);
  EXPECT_EQ(driver_file(), "libcuda.so.1");
  setenv("PENSTOCK_CUDA_DRIVER", "/somewhere/libfake.so", 1);
  EXPECT_EQ(driver_file(), "/somewhere/libfake.so");
}

TEST_F(DriverFile, IsOneClearErrorIfAbsent) {
  setenv("PENSTOCK_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
  const auto loaded = load_driver();
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code(), errc::unsupported);
  EXPECT_EQ(loaded.error().message().rfind("no CUDA driver on this machine: /nowhere/libcuda.so.1", 0), 0U)
      << loaded.error().message();
}

TEST_F(DriverFile, IsRefusedIfNotADriver) {
  setenv("PENSTOCK_CUDA_DRIVER", "libm.so.6", 1);
  const auto loaded = load_driver();
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().message(), "the CUDA driver 'libm.so.6' is older than 12.0: it has no cuGetProcAddress_v2");
}

}  // namespace
}  // namespace penstock::cuda
