#pragma once

#include <penstock/result.h>
#include <penstock/shape.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "format/hdf5/hdf5_dataset.h"

namespace penstock::inline v0 {

/// Coordinates of a chunk in its dataset's grid; only the first `rank` are used.
using hdf5_chunk_coordinates = std::array<std::uint64_t, kMaxRank>;

/// The chunks of a dataset, and how an array index numbers them.
class hdf5_chunk_grid {
 public:
  /// \param numbered  Whether the dataset has an index that may number the chunks.
  /// \error unsupported   The grid has more than 2^64 cells.
  /// \error corrupt_data  Chunks have another rank than the dataset, or 2^63 bytes or more; or an index numbers the
  ///                      chunks of a dataset whose unlimited dimensions do not allow it.
  static result<hdf5_chunk_grid> make(const hdf5_shape& shape, const hdf5_layout& layout, bool numbered);

  std::size_t rank() const noexcept { return grid_.size(); }
  /// Of the present shape.
  std::uint64_t cells() const noexcept { return cells_; }
  /// Size of a chunk without filters.
  std::uint64_t chunk_bytes() const noexcept { return chunk_bytes_; }
  std::uint64_t chunk_elements(std::size_t d) const noexcept { return chunk_[d]; }

  /// The number of chunks in the order in which an index numbers them: C order of the largest shape, with the one
  /// unlimited dimension first. Saturates. 0: that dimension has no limit, or the index does not number chunks.
  std::uint64_t numbers() const noexcept { return numbers_; }
  std::uint64_t number_of(const hdf5_chunk_coordinates& place) const noexcept;
  /// Returns false if the largest shape does not have such a chunk.
  bool find_number(std::uint64_t number, hdf5_chunk_coordinates& place) const noexcept;

  /// The cell of the present shape at these coordinates. Returns false if they are outside of it.
  bool find_cell(std::span<const std::uint64_t> place, std::uint64_t& cell) const noexcept;
  void coordinates(std::uint64_t cell, hdf5_chunk_coordinates& place) const noexcept;
  /// Whether the chunk extends beyond the end of the dataset.
  bool is_cut(const hdf5_chunk_coordinates& place) const noexcept;

 private:
  result<> number_by(std::size_t free);

  std::vector<std::uint64_t> shape_, chunk_, grid_, strides_, most_;
  std::vector<std::size_t> order_;  // the dimensions in the order of numbers, the slowest first
  std::uint64_t chunk_bytes_ = 0, numbers_ = 0, cells_ = 0;
};

}  // namespace penstock::inline v0
