#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <penstock/store.h>

namespace penstock::inline v0 {

/// The pieces of a file that were read so far. A parser requests a range; the owner of the view reads missing ranges
/// and calls the parser again. The file's first piece and the last ones are kept: at least eight, and up to 32 MiB.
class tiff_file_view {
 public:
  /// \param size  Of the whole file; byte_range::kAll if it is not known.
  void set_size(std::uint64_t size) noexcept { size_ = size; }
  std::uint64_t size() const noexcept { return size_; }
  void add(std::uint64_t offset, std::vector<std::byte> bytes);

  /// The pieces from the first one on, up to `most_bytes` of them.
  tiff_file_view first(std::uint64_t most_bytes) const;

  /// The bytes, or null if not all of them were read.
  const std::byte* find(std::uint64_t offset, std::uint64_t length) const noexcept;
  /// False if the range cannot be within the file.
  bool may_hold(std::uint64_t offset, std::uint64_t length) const noexcept {
    return length <= size_ && offset <= size_ - length;
  }

 private:
  struct piece {
    std::uint64_t offset;
    std::vector<std::byte> bytes;
  };
  std::uint64_t size_ = byte_range::kAll;
  std::vector<piece> pieces_;
  std::uint64_t held_ = 0;  // bytes of all but the first
};

}  // namespace penstock::inline v0
