#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <penstock/result.h>

namespace penstock::inline v0::cuda {

/// The fatbin of all kernels: the one that was built in, or the file that the environment variable
/// PENSTOCK_CUDA_KERNELS names. The variable exists to compare variants of the kernels without another build.
class kernel_image {
 public:
  /// Reads the file, if one is named.
  ///
  /// \error unsupported       This build has no kernels, and no file is named.
  /// \error invalid_argument  The file cannot be read, or is not a whole fatbin. The message names it.
  static result<kernel_image> load();

  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// The file; empty for the kernels that were built in.
  const std::string& file() const noexcept { return file_; }

 private:
  kernel_image() = default;
  std::vector<std::byte> content_;  // of the file
  std::span<const std::byte> bytes_;
  std::string file_;
};

}  // namespace penstock::inline v0::cuda
