#pragma once

#include <penstock/result.h>
#include <penstock/shape.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "format/hdf5/hdf5_dataset.h"

namespace penstock::inline v0 {

/// Coordinates of a chunk in its dataset's grid; the first `rank` count.
using hdf5_chunk_coordinates = std::array<std::uint64_t, kMaxRank>;

/// The chunks of a dataset, and how an array index numbers them.
class hdf5_chunk_grid {
 public:
  /// \param numbered  Whether there is an index that may number the chunks.
  /// \error unsupported   More cells than 64 bits count.
  /// \error corrupt_data  Chunks of another rank than the dataset, or of more than 63 bits of bytes; an index that
  ///                      numbers chunks of a dataset whose free dimensions forbid it.
  static result<hdf5_chunk_grid> make(const hdf5_shape& shape, const hdf5_layout& layout, bool numbered);

  std::size_t rank() const noexcept { return grid_.size(); }
  /// Of the present shape.
  std::uint64_t cells() const noexcept { return cells_; }
  /// Of a chunk that no filter changed.
  std::uint64_t chunk_bytes() const noexcept { return chunk_bytes_; }
  std::uint64_t chunk_elements(std::size_t d) const noexcept { return chunk_[d]; }

  /// Numbers count chunks in C order of the largest shape, with the one free dimension before the others. Chunks in
  /// that order; saturating. 0: the free dimension has no limit, or the index does not number chunks.
  std::uint64_t numbers() const noexcept { return numbers_; }
  std::uint64_t number_of(const hdf5_chunk_coordinates& place) const noexcept;
  /// False if there is no such chunk in the largest shape.
  bool find_number(std::uint64_t number, hdf5_chunk_coordinates& place) const noexcept;

  /// The cell of the present shape at these coordinates; false if they are outside of it.
  bool find_cell(std::span<const std::uint64_t> place, std::uint64_t& cell) const noexcept;
  void coordinates(std::uint64_t cell, hdf5_chunk_coordinates& place) const noexcept;
  /// Whether the end of the dataset cuts the chunk.
  bool is_cut(const hdf5_chunk_coordinates& place) const noexcept;

 private:
  result<> number_by(std::size_t free);

  std::vector<std::uint64_t> shape_, chunk_, grid_, strides_, most_;
  std::vector<std::size_t> order_;  // dimensions of a number, the slowest first
  std::uint64_t chunk_bytes_ = 0, numbers_ = 0, cells_ = 0;
};

}  // namespace penstock::inline v0
