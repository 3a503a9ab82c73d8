#include "cuda/kernel_image.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "cuda/decode/fatbin.h"

namespace penstock::inline v0::cuda {
namespace {

class KernelImage : public testing::Test {
 protected:
  void TearDown() override {
    unsetenv("PENSTOCK_CUDA_KERNELS");
    std::filesystem::remove(path_);
  }

  std::string message() {
    auto loaded = kernel_image::load();
    return loaded.ok() ? "loaded" : loaded.error().to_string();
  }
  void name_file_of(const std::string& content) {
    std::ofstream(path_, std::ios::binary) << content;
    setenv("PENSTOCK_CUDA_KERNELS", path_.c_str(), 1);
  }

  // The header of a fatbin of 8 bytes, and the 8 bytes.
  const std::string fatbin_{"\x50\xed\x55\xba\1\0\x10\0\x8\0\0\0\0\0\0\0contents", 24};
  const std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("kernels-" + std::to_string(getpid()) + ".fatbin");
};

TEST_F(KernelImage, IsTheBuiltInOneUnlessTheEnvironmentNamesAFile) {
  setenv("PENSTOCK_CUDA_KERNELS", "", 1);
  if (device::fatbin().empty()) {
    EXPECT_EQ(message(), "unsupported: this build of Penstock has no device code: it was built without nvcc");
  } else {
    EXPECT_EQ(kernel_image::load()->bytes().data(), device::fatbin().data());
  }
}

TEST_F(KernelImage, IsTheFileThatTheEnvironmentNames) {
  name_file_of(fatbin_);
  auto loaded = kernel_image::load();
  ASSERT_TRUE(loaded.ok()) << loaded.error().to_string();
  const kernel_image moved = std::move(*loaded);
  EXPECT_EQ(moved.file(), path_);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(moved.bytes().data()), moved.bytes().size()), fatbin_);
}

TEST_F(KernelImage, RefusesAnIncompleteFatbinByName) {
  const std::string named = "invalid_argument: PENSTOCK_CUDA_KERNELS: '" + path_.string() + "' ";
  setenv("PENSTOCK_CUDA_KERNELS", path_.c_str(), 1);
  EXPECT_EQ(message().rfind(named + "cannot be read: ", 0), 0U) << message();
  const std::string refused = named + "is not a whole fatbin, as `nvcc -fatbin` writes it";
  for (const std::string& content :
       {std::string(), fatbin_.substr(0, 10), fatbin_.substr(0, 20), fatbin_ + "more", std::string(24, 'x')}) {
    name_file_of(content);
    EXPECT_EQ(message(), refused) << content.size();
  }
}

}  // namespace
}  // namespace penstock::inline v0::cuda
