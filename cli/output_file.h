#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include <penstock/result.h>

namespace penstock::inline v0::cli {

/// A file of known size that appears under its name complete or not at all. Move-only.
///
/// Its bytes are mapped memory of a temporary file next to the target. The file's space on disk is reserved first, so
/// that a full disk is an error here, and not a fault while the memory is filled. Without `commit` the destructor
/// removes it.
class output_file {
 public:
  /// \error conflict  The target exists and `overwrite` is false. \error io_error, permission_denied,
  /// resource_exhausted
  static result<output_file> create(const std::string& path, std::uint64_t bytes, bool overwrite);
  output_file(output_file&& other) noexcept;
  output_file& operator=(output_file&&) = delete;
  ~output_file();

  std::span<std::byte> bytes() noexcept { return {data_, size_}; }
  /// Gives the file its name.
  /// \error conflict  The name exists now. \error io_error
  result<> commit();

 private:
  output_file() noexcept = default;

  std::string path_, temporary_;  ///< `temporary_` is empty if nothing is to be removed
  int descriptor_ = -1;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool overwrite_ = false;
};

/// A pipe or a device is written to directly; only a regular file is replaced by a finished one.
bool is_stream(const std::string& path);

/// Opens a pipe or a device, and calls `write` with its descriptor.
result<> write_to_stream(const std::string& path, const std::function<result<>(int)>& write);

}  // namespace penstock::inline v0::cli
