#pragma once

#include <penstock/result.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "format/hdf5/hdf5_file.h"

namespace penstock::inline v0 {

/// Blocks of metadata that libhdf5 stored together when it closed the file. They replace the bytes at their own
/// addresses, which are older or were never written.
class hdf5_cache_image {
 public:
  /// \param stored  The whole image, with its checksum. \param of  Its file, which has the widths of its numbers.
  /// \error corrupt_data  It is damaged. \error unsupported  Another version.
  static result<std::shared_ptr<const hdf5_cache_image>> parse(std::span<const std::byte> stored, const hdf5_file& of);

  /// The bytes of a range, if one block has all of them. Valid as long as the image.
  std::optional<std::span<const std::byte>> find(std::uint64_t address, std::uint64_t length) const noexcept;
  /// Whether a block has any byte of a range.
  bool overlaps(std::uint64_t address, std::uint64_t length) const noexcept;
  /// Replaces those of `bytes`, which were read at `address`, that blocks have.
  void replace(std::uint64_t address, std::span<std::byte> bytes) const noexcept;

 private:
  struct block {
    std::uint64_t address = 0;
    std::span<const std::byte> bytes;  // not empty
    std::uint64_t end() const noexcept { return address + bytes.size(); }
  };
  std::vector<block>::const_iterator first_behind(std::uint64_t address) const noexcept;

  std::vector<std::byte> stored_;
  std::vector<block> blocks_;  // by address; they do not overlap
};

/// Reads the file's image, if it has one: from then on `file` returns its blocks.
///
/// There is none while a source waits for its bytes, or if the superblock extension is damaged.
/// \error corrupt_data  The image is damaged. \error unsupported  Another version.
result<> read_hdf5_cache_image(hdf5_file& file);

}  // namespace penstock::inline v0
