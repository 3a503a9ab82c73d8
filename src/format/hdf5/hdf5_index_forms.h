#pragma once

#include <penstock/result.h>

#include <cstdint>

#include "format/hdf5/hdf5_chunk_columns.h"
#include "format/hdf5/hdf5_records.h"

namespace penstock::inline v0 {

/// A node of a B-tree of version 1: a prefix, then a key and an address for each child. The key is the length and the
/// filter mask of the child's first chunk, and its position in elements.
/// Source: HDF5 File Format Specification 3.0, III.A.1.
struct hdf5_btree_1_form {
  hdf5_btree_1_form(std::size_t offset_bytes, std::size_t rank) noexcept
      : prefix_bytes(8 + 2 * offset_bytes), entry_bytes(8 + 8 * (rank + 1) + offset_bytes) {}

  std::uint64_t prefix_bytes, entry_bytes;
  /// The size of a full node in most files, whose trees have nodes of 64 entries.
  std::uint64_t likely_bytes() const noexcept { return prefix_bytes + 64 * entry_bytes; }

  /// The level of a node, and the number of its children. \error corrupt_data  It is not a node of chunks.
  struct node {
    std::uint64_t level = 0, used = 0;
  };
  static result<node> read_prefix(hdf5_cursor& cursor);
};

/// A record of a B-tree of version 2: like an element of an array, followed by coordinates of 8 bytes each.
struct hdf5_chunk_record {
  /// \error corrupt_data  The records have another form.
  result<> check(const hdf5_record_form& form, std::size_t offset_bytes, std::size_t rank);

  hdf5_array_element value;
};

/// A fixed array: all elements are in one data block, or in pages after it. A bitmap marks the pages that were written.
/// Source: HDF5 File Format Specification 3.0, VII.C.
struct hdf5_fixed_array {
  /// \param numbers  The most chunks that the dataset can have.
  /// \error corrupt_data  `address` has no such header, or the array exceeds the file.
  static result<hdf5_fixed_array> read(hdf5_file& file, std::uint64_t address, std::uint64_t numbers);

  /// Checks the prefix of the data block, after its checksum.
  result<> check_block(std::span<const std::byte> stored) const;
  /// The number of elements in page `i`.
  std::uint64_t elements_of(std::uint64_t i) const noexcept;
  /// The address of page `i`. Returns false if it exceeds 64 bits.
  bool find_page(std::uint64_t i, std::uint64_t& address_of_page) const noexcept;
  /// Whether the bitmap marks page `page` as written.
  static bool is_written(std::span<const std::byte> bitmap, std::uint64_t page) noexcept {
    return (static_cast<unsigned>(bitmap[static_cast<std::size_t>(page / 8)]) & (0x80U >> (page % 8))) != 0;
  }

  std::uint64_t address = 0;  ///< address of the header
  std::uint64_t client = 0, count = 0, block = 0;
  unsigned page_bits = 0;
  std::uint64_t pages = 0;                           ///< 0: the elements are in the data block
  std::uint64_t prefix_bytes = 0, bitmap_bytes = 0;  ///< sizes of the parts at the beginning of the data block
  std::uint64_t block_bytes = 0;                     ///< including its checksum
  hdf5_array_element element;
};

/// An extensible array: its elements are in an index block, then in data blocks of growing length, which super blocks
/// group. Source: HDF5 File Format Specification 3.0, VII.D.
struct hdf5_extensible_array {
  static result<hdf5_extensible_array> read(hdf5_file& file, std::uint64_t address);

  // For super block `u`: the number of its data blocks, the elements in each, and the pages in each (0: none).
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
  /// \error corrupt_data  The size exceeds 64 bits.
  result<std::uint64_t> super_block_bytes(std::uint64_t u) const;
  /// The size of a data block without pages.
  std::uint64_t data_block_bytes(std::uint64_t u) const noexcept {
    return prefix_bytes + place_bytes + (pages_of(u) == 0 ? elements_of(u) : 0) * element.bytes + kHdf5ChecksumBytes;
  }
  std::uint64_t page_bytes() const noexcept {
    return (std::uint64_t{1} << page_bits) * element.bytes + kHdf5ChecksumBytes;
  }

  /// Checks the prefix of a block, and skips it.
  result<> check_prefix(hdf5_cursor& cursor, std::string_view signature) const;

  std::uint64_t address = 0;      ///< address of the header
  std::uint64_t index_block = 0;  ///< address of the index block
  std::uint64_t client = 0, index_elements = 0, block_elements = 0, pointers = 0;
  std::uint64_t super_blocks = 0;
  std::uint64_t direct = 0;  ///< number of super blocks whose data blocks are listed in the index block
  unsigned page_bits = 0;
  std::uint64_t prefix_bytes = 0;
  std::uint64_t place_bytes = 0;  ///< size of the field after the prefix of super and data blocks
  std::size_t offset_bytes = 0;
  hdf5_array_element element;
};

}  // namespace penstock::inline v0
