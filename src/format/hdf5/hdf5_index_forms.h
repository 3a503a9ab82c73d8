#pragma once

#include <penstock/result.h>

#include <cstdint>

#include "format/hdf5/hdf5_chunk_columns.h"
#include "format/hdf5/hdf5_records.h"

namespace penstock::inline v0 {

/// A node of a B-tree of version 1: a prefix, then for each child its key and its address. The key is the length and
/// the filter mask of the child's first chunk and, in elements, where that begins.
/// Source: HDF5 File Format Specification 3.0, III.A.1.
struct hdf5_btree_1_form {
  hdf5_btree_1_form(std::size_t offset_bytes, std::size_t rank) noexcept
      : prefix_bytes(8 + 2 * offset_bytes), entry_bytes(8 + 8 * (rank + 1) + offset_bytes) {}

  std::uint64_t prefix_bytes, entry_bytes;
  /// The size of a full node in most files, whose trees have nodes of 64 entries.
  std::uint64_t likely_bytes() const noexcept { return prefix_bytes + 64 * entry_bytes; }

  /// The level of a node and how many children it has. \error corrupt_data  It is not a node of chunks.
  struct node {
    std::uint64_t level = 0, used = 0;
  };
  static result<node> read_prefix(hdf5_cursor& cursor);
};

/// A record of a B-tree of version 2: like an element of an array, then the coordinates of 8 bytes each.
struct hdf5_chunk_record {
  /// \error corrupt_data  The records have another form.
  result<> check(const hdf5_record_form& form, std::size_t offset_bytes, std::size_t rank);

  hdf5_array_element value;
};

/// A fixed array: all elements in one data block, or in pages behind it, of which a bitmap says which were written.
/// Source: HDF5 File Format Specification 3.0, VII.C.
struct hdf5_fixed_array {
  /// \param numbers  Chunks that the dataset can have.
  /// \error corrupt_data  No such header is at `address`, or an array that leaves the file.
  static result<hdf5_fixed_array> read(hdf5_file& file, std::uint64_t address, std::uint64_t numbers);

  /// Checks the prefix of the data block, whose checksum is right.
  result<> check_block(std::span<const std::byte> stored) const;
  /// Elements of page `i`.
  std::uint64_t elements_of(std::uint64_t i) const noexcept;
  /// The address of page `i`; false if it is beyond 64 bits.
  bool find_page(std::uint64_t i, std::uint64_t& address_of_page) const noexcept;
  /// Whether page `page` was written, by the bitmap of pages.
  static bool is_written(std::span<const std::byte> bitmap, std::uint64_t page) noexcept {
    return (static_cast<unsigned>(bitmap[static_cast<std::size_t>(page / 8)]) & (0x80U >> (page % 8))) != 0;
  }

  std::uint64_t address = 0;  ///< of the header
  std::uint64_t client = 0, count = 0, block = 0;
  unsigned page_bits = 0;
  std::uint64_t pages = 0;                           ///< 0: the elements are in the data block
  std::uint64_t prefix_bytes = 0, bitmap_bytes = 0;  ///< what the data block begins with
  std::uint64_t block_bytes = 0;                     ///< with its checksum
  hdf5_array_element element;
};

/// An extensible array: its elements are in an index block, then in data blocks of growing length, which super blocks
/// group. Source: HDF5 File Format Specification 3.0, VII.D.
struct hdf5_extensible_array {
  static result<hdf5_extensible_array> read(hdf5_file& file, std::uint64_t address);

  // Super block `u` has so many data blocks, of so many elements each, in so many pages (0: none).
  static std::uint64_t blocks_of(std::uint64_t u) noexcept { return std::uint64_t{1} << (u / 2); }
  std::uint64_t elements_of(std::uint64_t u) const noexcept {
    return (std::uint64_t{1} << ((u + 1) / 2)) * block_elements;
  }
  std::uint64_t pages_of(std::uint64_t u) const noexcept {
    const std::uint64_t page = std::uint64_t{1} << page_bits;
    return elements_of(u) > page ? elements_of(u) / page : 0;
  }

  std::uint64_t index_block_bytes() const noexcept {
    return prefix_bytes + index_elements * element.bytes + (2 * (pointers - 1) + super_blocks - direct) * offset_bytes +
           kHdf5ChecksumBytes;
  }
  /// \error corrupt_data  More than 64 bits count.
  result<std::uint64_t> super_block_bytes(std::uint64_t u) const;
  /// Without pages.
  std::uint64_t data_block_bytes(std::uint64_t u) const noexcept {
    return prefix_bytes + place_bytes + (pages_of(u) == 0 ? elements_of(u) : 0) * element.bytes + kHdf5ChecksumBytes;
  }
  std::uint64_t page_bytes() const noexcept {
    return (std::uint64_t{1} << page_bits) * element.bytes + kHdf5ChecksumBytes;
  }

  /// Checks what a block begins with, and passes over it.
  result<> check_prefix(hdf5_cursor& cursor, std::string_view signature) const;

  std::uint64_t address = 0;      ///< of the header
  std::uint64_t index_block = 0;  ///< its address
  std::uint64_t client = 0, index_elements = 0, block_elements = 0, pointers = 0;
  std::uint64_t super_blocks = 0;
  std::uint64_t direct = 0;  ///< super blocks whose data blocks the index block names itself
  unsigned page_bits = 0;
  std::uint64_t prefix_bytes = 0;
  std::uint64_t place_bytes = 0;  ///< behind the prefix of super and data blocks
  std::size_t offset_bytes = 0;
  hdf5_array_element element;
};

}  // namespace penstock::inline v0
