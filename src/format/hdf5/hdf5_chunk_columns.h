#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "format/hdf5/hdf5_chunk_grid.h"
#include "format/hdf5/hdf5_chunks.h"

namespace penstock::inline v0 {

/// Collects the chunks that an index lists, by their place in the grid or by their number in the index's own order.
class hdf5_chunk_columns {
 public:
  hdf5_chunk_columns(const hdf5_file& file, hdf5_chunk_grid grid) noexcept : file_(&file), grid_(std::move(grid)) {}

  const hdf5_chunk_grid& grid() const noexcept { return grid_; }

  /// Adds the chunk at `place` of the grid, unless that is outside of the present shape.
  void add(std::span<const std::uint64_t> place, std::uint64_t address, std::uint64_t length, std::uint64_t mask);
  void add_number(std::uint64_t number, std::uint64_t address, std::uint64_t length, std::uint64_t mask);

  /// Reserves memory for `more` chunks.
  void reserve(std::size_t more);

  /// Returns all chunks that were added, in the order of the cells.
  /// \error corrupt_data  A chunk was added twice, or an address exceeds 64 bits.
  result<hdf5_chunks> take();

 private:
  const hdf5_file* file_;
  hdf5_chunk_grid grid_;
  bool outside_ = false;  // an address was beyond 64 bits
  hdf5_chunks made_;
};

/// An element of an array of chunks: an address and, if the dataset has filters, a length and a mask.
struct hdf5_array_element {
  /// \param client  1: chunks with filters. \param bytes  Size of an element, from the array's header.
  static result<hdf5_array_element> make(std::size_t offset_bytes, std::uint64_t client, std::uint64_t bytes);
  /// Reads one element.
  /// \param plain_bytes  Size of a chunk without filters.
  hdf5_chunk_place take(hdf5_cursor& from, std::uint64_t plain_bytes) const noexcept;
  /// Adds the elements in `stored`. The first one has the number `first`.
  void add_all(const hdf5_file& file, std::span<const std::byte> stored, std::uint64_t first,
               hdf5_chunk_columns& to) const;

  std::size_t bytes = 0;
  std::size_t offset_bytes = 0;
  std::size_t length_bytes = 0;  // 0: no filters
};

/// \error corrupt_data  Consecutive chunks from `address` on would exceed the file.
result<> check_implicit_chunks(const hdf5_file& file, std::uint64_t address, const hdf5_chunk_grid& grid);

// One function for each kind of index, each in its own file. `address` is defined.
result<> list_hdf5_btree_1(hdf5_file& file, std::uint64_t address, hdf5_chunk_columns& to);
result<> list_hdf5_btree_2(hdf5_file& file, std::uint64_t address, hdf5_chunk_columns& to);
result<> list_hdf5_fixed_array(hdf5_file& file, std::uint64_t address, hdf5_chunk_columns& to);
result<> list_hdf5_extensible_array(hdf5_file& file, std::uint64_t address, hdf5_chunk_columns& to);

}  // namespace penstock::inline v0
