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

/// A file for what does not fit into memory, written in parts in any order, and read back. Work that was killed finds
/// it again, with a mark for each step that was done.
///
/// Layout: the bytes, a byte for each mark, the identity. Calls for different places may run at the same time.
class scratch_file {
 public:
  /// Makes `folder`/`name`; where `goes_on`, one that is there with the same identity and sizes is gone on with.
  /// \error conflict  Another process has it. \error resource_exhausted  The file system has too little room.
  static result<std::unique_ptr<scratch_file>> open(const std::string& folder, std::string_view name,
                                                    std::string_view identity, std::uint64_t bytes, std::uint64_t marks,
                                                    bool goes_on);

  result<> write(std::uint64_t offset, std::span<const std::byte> bytes);
  result<> read(std::uint64_t offset, std::span<std::byte> out) const;
  bool is_marked(std::uint64_t step) const noexcept { return marks_[static_cast<std::size_t>(step)] != std::byte{0}; }
  /// All that the step wrote has been written. \param durable  It survives a power cut, too.
  result<> mark(std::uint64_t step, bool durable);
  /// Gives the room of bytes back that nobody will read; where the file system cannot, nothing happens.
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
