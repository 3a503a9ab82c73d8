#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "format/hdf5/hdf5_chunk_grid.h"
#include "format/hdf5/hdf5_chunks.h"

namespace penstock::inline v0 {

/// Takes the chunks that an index names, by their place in the grid or by their number in the index's own order.
class hdf5_chunk_columns {
 public:
  hdf5_chunk_columns(const hdf5_file& file, hdf5_chunk_grid grid) noexcept : file_(&file), grid_(std::move(grid)) {}

  const hdf5_chunk_grid& grid() const noexcept { return grid_; }

  /// The chunk at `place` of the grid. What lies beyond the present shape is left out.
  void add(std::span<const std::uint64_t> place, std::uint64_t address, std::uint64_t length, std::uint64_t mask);
  void add_number(std::uint64_t number, std::uint64_t address, std::uint64_t length, std::uint64_t mask);

  /// Makes room for so many more chunks.
  void reserve(std::size_t more);

  /// All that was added, in the order of the cells.
  /// \error corrupt_data  One twice, or an address beyond 64 bits.
  result<hdf5_chunks> take();

 private:
  const hdf5_file* file_;
  hdf5_chunk_grid grid_;
  bool outside_ = false;  // an address was beyond 64 bits
  hdf5_chunks made_;
};

/// An element of an array of chunks: its address and, where there are filters, its length and mask.
struct hdf5_array_element {
  /// \param client  1: chunks with filters. \param bytes  Of an element, as the array's header says.
  static result<hdf5_array_element> make(std::size_t offset_bytes, std::uint64_t client, std::uint64_t bytes);
  /// Takes one.
  /// \param plain_bytes  Of a chunk that no filter changed.
  hdf5_chunk_place take(hdf5_cursor& from, std::uint64_t plain_bytes) const noexcept;
  /// Adds the elements of `stored`, the first of which has number `first`.
  void add_all(const hdf5_file& file, std::span<const std::byte> stored, std::uint64_t first,
               hdf5_chunk_columns& to) const;

  std::size_t bytes = 0;
  std::size_t offset_bytes = 0;
  std::size_t length_bytes = 0;  // 0: no filters
};

/// \error corrupt_data  Chunks that stand one after the other from `address` on leave the file.
result<> check_implicit_chunks(const hdf5_file& file, std::uint64_t address, const hdf5_chunk_grid& grid);

// The kinds of index, each in a file of its own. `address` is defined.
result<> list_hdf5_btree_1(hdf5_file& file, std::uint64_t address, hdf5_chunk_columns& to);
result<> list_hdf5_btree_2(hdf5_file& file, std::uint64_t address, hdf5_chunk_columns& to);
result<> list_hdf5_fixed_array(hdf5_file& file, std::uint64_t address, hdf5_chunk_columns& to);
result<> list_hdf5_extensible_array(hdf5_file& file, std::uint64_t address, hdf5_chunk_columns& to);

}  // namespace penstock::inline v0
