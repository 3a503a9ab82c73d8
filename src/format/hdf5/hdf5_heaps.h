#pragma once

#include <penstock/result.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "format/hdf5/hdf5_dataset.h"
#include "format/hdf5/hdf5_file.h"

namespace penstock::inline v0 {

/// A local heap: the names of a group's symbol table. Source: HDF5 File Format Specification 4.0, III.D.
class hdf5_local_heap {
 public:
  /// \error corrupt_data  `address` has no such heap, or its list of free blocks leaves it.
  static result<hdf5_local_heap> read(hdf5_file& file, std::uint64_t address);
  /// The text at `offset`; valid as long as the heap.
  result<std::string_view> text(std::uint64_t offset) const;

 private:
  std::vector<std::byte> bytes_;
};

/// Objects of variable length in global heap collections. Each collection is read once, except for long objects if they
/// are not cached.
/// Source: HDF5 File Format Specification 4.0, III.E.
class hdf5_global_heap {
 public:
  /// \param keeps_long  false: objects of more than 64 KiB, which have a collection of their own, are neither copied
  ///                    nor cached.
  explicit hdf5_global_heap(hdf5_file& file, bool keeps_long = true) noexcept : file_(file), keeps_long_(keeps_long) {}

  /// The bytes of an object; valid as long as the heap, or until the file is read again if long objects are not cached.
  /// Empty if the collection's address is 0 or undefined.
  /// \error corrupt_data  The collection or the object does not exist.
  result<std::span<const std::byte>> object(std::uint64_t collection, std::uint64_t index);

 private:
  struct entry {
    std::uint64_t index;
    std::span<const std::byte> bytes;
  };
  struct contents {
    std::uint64_t address = 0;
    std::vector<std::byte> bytes;
    std::vector<entry> objects;  // by index
  };
  result<const contents*> read(std::uint64_t collection);
  result<contents> parse(std::uint64_t collection);
  result<std::uint64_t> length_of(std::uint64_t collection);
  result<std::optional<std::span<const std::byte>>> long_object(std::uint64_t collection, std::uint64_t index);

  hdf5_file& file_;
  bool keeps_long_;
  std::unordered_map<std::uint64_t, contents> collections_;
  const contents* last_ = nullptr;  // neighbouring values are usually in one collection
};

/// A fractal heap: the links and attributes of an object with many. Its blocks and huge objects may have filters.
/// Source: HDF5 File Format Specification 4.0, III.G.
class hdf5_fractal_heap {
 public:
  /// \error corrupt_data  `address` has no such heap. \error unsupported  Its filters are not readable, by name.
  static result<hdf5_fractal_heap> read(hdf5_file& file, std::uint64_t address);

  std::size_t id_bytes() const noexcept { return id_bytes_; }
  /// The bytes of the object with an identifier.
  /// \error corrupt_data  It does not exist.
  result<std::vector<std::byte>> object(std::span<const std::byte> id);

 private:
  explicit hdf5_fractal_heap(hdf5_file& file) noexcept : file_(&file) {}
  struct block {
    std::uint64_t address, offset, bytes;      // offset: in the heap's address space
    std::uint64_t stored_bytes = 0, mask = 0;  // of a filtered direct block
  };

  result<> parse(std::uint64_t address);
  result<std::vector<std::byte>> managed(std::uint64_t offset, std::uint64_t length);
  result<block> find(std::uint64_t offset);
  std::uint64_t row_bytes(std::uint64_t row) const noexcept;
  result<std::vector<std::byte>> huge(hdf5_cursor id);
  result<std::vector<std::byte>> copy(std::uint64_t address, std::uint64_t length);
  result<> check_block(std::span<const std::byte> prefix, const block& at) const;
  result<std::span<const std::byte>> filtered_block(const block& at);
  result<std::vector<std::byte>> decoded(std::uint64_t address, std::uint64_t stored_bytes, std::uint64_t mask,
                                         std::uint64_t bytes);

  hdf5_file* file_;
  std::uint64_t address_ = 0;
  std::size_t id_bytes_ = 0, offset_width_ = 0, length_width_ = 0;
  std::uint64_t most_bits_ = 0, width_ = 0, first_block_ = 0, largest_direct_ = 0;
  std::uint64_t root_ = 0, root_rows_ = 0, huge_tree_ = 0;
  std::uint64_t root_bytes_ = 0, root_mask_ = 0;  // of a filtered root that is a direct block
  std::vector<hdf5_filter> filters_;
  std::unordered_map<std::uint64_t, std::vector<std::byte>> blocks_;  // decoded, by address
  bool block_checksums_ = false, filtered_ = false;
};

}  // namespace penstock::inline v0
