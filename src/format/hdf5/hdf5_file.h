#pragma once

#include <penstock/result.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/little_endian.h"

namespace penstock::inline v0 {

/// The source of a file's bytes.
class hdf5_source {
 public:
  virtual ~hdf5_source() = default;
  virtual std::uint64_t size() const noexcept = 0;
  /// Reads a range within the file. The returned bytes are valid until the next call.
  virtual result<std::span<const std::byte>> read(std::uint64_t offset, std::uint64_t length) = 0;
  /// Returns true if a read failed because its bytes are not fetched yet (see hdf5_pages). The caller of the parser
  /// then fetches them and parses again. Until then, a parser continues with the parts that do not depend on them.
  virtual bool waiting() const noexcept { return false; }
  /// Whether the range can be read without fetching it. A source that reads synchronously returns true.
  virtual bool holds(std::uint64_t /*offset*/, std::uint64_t /*length*/) const noexcept { return true; }
  /// Announces a range that will probably be read, which may exceed the file. It is fetched with the missing bytes.
  virtual void expect(std::uint64_t /*offset*/, std::uint64_t /*length*/) {}
};

/// `corrupt_data`, with the name of the format.
error hdf5_damaged(std::string_view what);
/// `unsupported`, with the name of the format. h5py may support it.
error hdf5_unknown(std::string_view what);

/// Returns true if a file that begins with these bytes is an HDF5 file: the signature is at its beginning, or after a
/// user block that ends within them.
bool is_hdf5(std::span<const std::byte> begin) noexcept;

/// Reads little-endian numbers from bytes. Past their end it returns zeros, and `ok` returns false.
class hdf5_cursor {
 public:
  explicit hdf5_cursor(std::span<const std::byte> from) noexcept : left_(from) {}

  /// \param count  0 to 8 bytes.
  std::uint64_t number(std::size_t count) noexcept {
    const auto from = bytes(count);
    return little_endian(from.data(), from.size());
  }
  std::span<const std::byte> bytes(std::uint64_t count) noexcept {
    if (count > left_.size()) {
      ok_ = false;
      left_ = {};
      return {};
    }
    const auto out = left_.first(static_cast<std::size_t>(count));
    left_ = left_.subspan(out.size());
    return out;
  }
  void skip(std::uint64_t count) noexcept { static_cast<void>(bytes(count)); }
  /// Whether `text` comes next. Skips as many bytes.
  bool is(std::string_view text) noexcept;
  std::size_t left() const noexcept { return left_.size(); }
  /// Returns false after a read beyond the end.
  bool ok() const noexcept { return ok_; }

 private:
  std::span<const std::byte> left_;
  bool ok_ = true;
};

/// At the end of every block that has a checksum.
inline constexpr std::uint64_t kHdf5ChecksumBytes = 4;

/// Fuzz targets ignore checksums, because random inputs do not have correct ones.
enum class hdf5_checksums : std::uint8_t { verified, ignored };

/// Checks that the last 4 bytes of a block are the checksum of the others.
/// \error corrupt_data  They are not.
result<> check_hdf5_block(std::span<const std::byte> block, hdf5_checksums sums, std::string_view what);

/// How the addresses in a file are interpreted, for parts that are read later.
struct hdf5_addresses {
  std::size_t offset_bytes = 8;
  std::uint64_t base = 0;  ///< the base of all addresses
  std::uint64_t size = 0;  ///< of the file
  hdf5_checksums sums = hdf5_checksums::verified;

  bool undefined(std::uint64_t address) const noexcept {
    return address == ~std::uint64_t{0} >> (8 * (sizeof(std::uint64_t) - offset_bytes));
  }
};

class hdf5_cache_image;  // hdf5_cache_image.h

/// An HDF5 file's superblock, and access to its bytes by address. Not thread-safe.
///
/// The number of bytes read from one file is limited to a few times its size: structures that form a loop or share
/// their parts end in an error. Source: HDF5 File Format Specification 3.0, II.
class hdf5_file {
 public:
  /// Reads the superblock (versions 0 to 3), which may be after a user block.
  /// \error corrupt_data  Not an HDF5 file, or a damaged one. \error unsupported  It consists of several files.
  /// \param readings  The limit of bytes to read, in sizes of the file, for this object and for each copy of it.
  static result<hdf5_file> open(hdf5_source& from, hdf5_checksums sums = hdf5_checksums::verified,
                                std::uint64_t readings = 4);

  /// The same file with another source of its bytes.
  hdf5_file over(hdf5_source& from) const;
  hdf5_source& source() const noexcept { return *from_; }

  /// The bytes at an address, valid until the next call.
  /// \error corrupt_data  They exceed the file, or the limit of bytes to read is exceeded.
  result<std::span<const std::byte>> at(std::uint64_t address, std::uint64_t length);
  /// The same for the beginning of a block that stores its own length. Most blocks of the kind have `likely` bytes,
  /// which are fetched together.
  result<std::span<const std::byte>> begin_of(std::uint64_t address, std::uint64_t length, std::uint64_t likely);
  /// Announces bytes that a waiting parser will read once it has the others.
  void expect(std::uint64_t address, std::uint64_t length);
  /// As `at`, and verifies that the last 4 bytes are the checksum of the others.
  result<std::span<const std::byte>> checked(std::uint64_t address, std::uint64_t length, std::string_view what);

  /// Counts `bytes` that a parser copies from parts that it has read before.
  /// \error corrupt_data  The limit is exceeded.
  result<> spend(std::uint64_t bytes);
  /// Counts `bytes` that are made of compressed metadata. The limit is 16 MiB and 256 times the file's size.
  /// \error unsupported  The limit is exceeded.
  result<> spend_decoded(std::uint64_t bytes);
  bool waiting() const noexcept { return from_->waiting(); }

  /// From now on, the blocks of an image replace the bytes at their addresses. Chunk indexes are then read as a whole.
  void use(std::shared_ptr<const hdf5_cache_image> image) noexcept { image_ = std::move(image); }
  bool has_cache_image() const noexcept { return image_ != nullptr; }

  /// Whether parsers of messages verify checksums, too.
  hdf5_checksums checksums() const noexcept { return sums_; }

  hdf5_addresses addresses() const noexcept { return {offset_bytes_, base_, size(), sums_}; }
  std::size_t offset_bytes() const noexcept { return offset_bytes_; }
  std::size_t length_bytes() const noexcept { return length_bytes_; }
  /// The base of all addresses.
  std::uint64_t base() const noexcept { return base_; }
  std::uint64_t size() const noexcept { return from_->size(); }
  /// The address of the file's end in its superblock; 0: it has none.
  std::uint64_t end() const noexcept { return end_; }
  /// Whether the superblock (from version 3) says that a program has the file open for writing.
  bool written() const noexcept { return written_; }
  /// The address of the root group's object header.
  std::uint64_t root() const noexcept { return root_; }
  /// The address of the superblock extension's object header; undefined if the file has none.
  std::uint64_t extension() const noexcept { return extension_; }
  /// The mark for an undefined address, and for a length without a limit.
  bool undefined(std::uint64_t address) const noexcept { return address == all_ones(offset_bytes_); }
  bool unlimited(std::uint64_t length) const noexcept { return length == all_ones(length_bytes_); }

 private:
  hdf5_file(hdf5_source& from, hdf5_checksums sums, std::uint64_t readings) noexcept;
  static std::uint64_t all_ones(std::size_t bytes) noexcept {
    return ~std::uint64_t{0} >> (8 * (sizeof(std::uint64_t) - bytes));
  }
  result<> read_superblock(std::uint64_t signature);
  void set_end(std::uint64_t stored, std::uint64_t stored_base);

  hdf5_source* from_;
  hdf5_checksums sums_;
  std::uint64_t budget_;   // bytes that may still be read
  std::uint64_t decoded_;  // and those that may still be made of compressed metadata
  std::size_t offset_bytes_ = 8, length_bytes_ = 8;
  bool written_ = false;
  std::uint64_t base_ = 0, end_ = 0, root_ = 0, extension_ = ~std::uint64_t{0};
  std::shared_ptr<const hdf5_cache_image> image_;
  std::vector<std::byte> joined_;  // the bytes of the last read that are only partly in blocks of the image
};

}  // namespace penstock::inline v0
