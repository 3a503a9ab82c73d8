#pragma once

#include <penstock/shape.h>

#include <array>
#include <cstdint>
#include <span>

#include "format/hdf5/hdf5_chunks.h"

namespace penstock::inline v0 {

/// Takes the chunks that an index names, by their place in the grid or by their number in the index's own order.
class hdf5_chunk_columns {
 public:
  /// \error unsupported  More cells than 64 bits count. \error corrupt_data  Chunks of another rank than the dataset,
  /// or
  ///                     larger than 63 bits.
  static result<hdf5_chunk_columns> make(const hdf5_file& file, const hdf5_shape& shape, const hdf5_layout& layout);

  std::size_t rank() const noexcept { return grid_.size(); }
  /// Of a chunk that no filter changed.
  std::uint64_t chunk_bytes() const noexcept { return chunk_bytes_; }
  std::uint64_t chunk_elements(std::size_t d) const noexcept { return chunk_[d]; }

  /// Numbers count chunks in C order of the largest shape; with `free` before the others, however many it has.
  /// \error corrupt_data  A dimension that needs a limit has none.
  result<> number_by(std::size_t free);
  /// Chunks in that order; saturating. 0 where `free` has no limit.
  std::uint64_t numbers() const noexcept { return numbers_; }

  /// The chunk at `place` of the grid. What lies beyond the present shape is left out.
  void add(std::span<const std::uint64_t> place, std::uint64_t address, std::uint64_t length, std::uint64_t mask);
  void add_number(std::uint64_t number, std::uint64_t address, std::uint64_t length, std::uint64_t mask);

  /// All that was added, in the order of the cells.
  /// \error corrupt_data  One twice, or an address beyond 64 bits.
  result<hdf5_chunks> take();

 private:
  const hdf5_file* file_ = nullptr;
  std::vector<std::uint64_t> chunk_, grid_, strides_, most_;
  std::vector<std::size_t> order_;  // dimensions of a number, the slowest first
  std::uint64_t chunk_bytes_ = 0, numbers_ = 0;
  bool outside_ = false;  // an address was beyond 64 bits
  hdf5_chunks made_;
};

/// An element of an array of chunks: its address and, where there are filters, its length and mask.
struct hdf5_array_element {
  /// \param filtered  Client 1 of the array. \param bytes  Of an element, as the array's header says.
  static result<hdf5_array_element> make(const hdf5_file& file, std::uint64_t client, std::uint64_t bytes);
  /// Adds the elements of `stored`, the first of which has number `first`.
  void add_all(const hdf5_file& file, std::span<const std::byte> stored, std::uint64_t first,
               hdf5_chunk_columns& to) const;

  std::size_t bytes = 0;
  std::size_t length_bytes = 0;  // 0: no filters
};

// The kinds of index, each in a file of its own. `address` is defined.
result<> list_hdf5_btree_1(hdf5_file& file, std::uint64_t address, hdf5_chunk_columns& to);
result<> list_hdf5_btree_2(hdf5_file& file, std::uint64_t address, hdf5_chunk_columns& to);
result<> list_hdf5_fixed_array(hdf5_file& file, std::uint64_t address, hdf5_chunk_columns& to);
result<> list_hdf5_extensible_array(hdf5_file& file, std::uint64_t address, hdf5_chunk_columns& to);

}  // namespace penstock::inline v0
