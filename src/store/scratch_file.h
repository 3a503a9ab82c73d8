#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/result.h>
#include "store/file_status.h"

namespace penstock::inline v0 {

/// A file for data that does not fit into memory, written in parts in any order, and read back. A killed process can
/// continue with it; it has a mark for each finished step.
///
/// Layout: the bytes, a byte for each mark, the identity. Calls for different ranges may run at the same time.
class scratch_file {
 public:
  /// Creates `folder`/`name`; with `goes_on`, an existing file with the same identity and sizes is continued.
  /// \error conflict  Another process uses it. \error resource_exhausted  The file system has too little space.
  static result<std::unique_ptr<scratch_file>> open(const std::string& folder, std::string_view name,
                                                    std::string_view identity, std::uint64_t bytes, std::uint64_t marks,
                                                    bool goes_on);

  /// Opens a file that `open` has created, next to other processes that do the same. Each step is done by one of them.
  /// \error conflict  No file has this identity, or a process uses it exclusively.
  static result<std::unique_ptr<scratch_file>> join(const std::string& folder, std::string_view name,
                                                    std::string_view identity, std::uint64_t bytes,
                                                    std::uint64_t marks);

  /// Whether `open` can create a file of so many bytes in `folder`, as far as that is known without creating it.
  /// \error invalid_argument  It is not a folder, or cannot be written to. \error resource_exhausted  It has too little
  /// space.
  static result<> check_folder(const std::string& folder, std::uint64_t bytes);

  result<> write(std::uint64_t offset, std::span<const std::byte> bytes);
  result<> read(std::uint64_t offset, std::span<std::byte> out) const;
  bool is_marked(std::uint64_t step) const noexcept { return marks_[static_cast<std::size_t>(step)] != std::byte{0}; }
  /// Marks a step as done, whose data has been written.
  /// \param durable  The mark also survives a power cut.
  result<> mark(std::uint64_t step, bool durable);
  /// Releases the space of bytes that are no longer needed; has no effect if the file system does not support it.
  void discard(std::uint64_t offset, std::uint64_t bytes) noexcept;
  void remove() noexcept;

 private:
  scratch_file(descriptor file, std::string path, std::uint64_t bytes) noexcept
      : file_(std::move(file)), path_(std::move(path)), bytes_(bytes) {}

  descriptor file_;
  std::string path_;
  std::uint64_t bytes_;
  std::vector<std::byte> marks_;
};

}  // namespace penstock::inline v0
