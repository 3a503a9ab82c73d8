#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <penstock/result.h>
#include <penstock/shape.h>

namespace penstock::inline v0 {

/// How one dimension is cut into cells: all of one length, or at listed edges.
class PENSTOCK_API grid_axis {
 public:
  /// Cells of `cell` elements; the last may reach beyond `extent`.
  static grid_axis uniform(std::uint64_t extent, std::uint64_t cell) noexcept;
  /// Cells between neighbouring edges: edges[0] = 0 < edges[1] < ...; the last edge is >= extent.
  static result<grid_axis> edges(std::uint64_t extent, std::vector<std::uint64_t> edges);
  /// The same for cells that decode to more elements than there are between their edges: in arrays joined from arrays
  /// whose last cells reach beyond their ends. `decoded` has a length for each cell.
  /// \error invalid_argument  A length is less than its cell, or their number is not that of the cells.
  static result<grid_axis> edges(std::uint64_t extent, std::vector<std::uint64_t> edges,
                                 std::vector<std::uint64_t> decoded);

  std::uint64_t extent() const noexcept { return extent_; }
  std::uint64_t cells() const noexcept { return cells_; }
  bool is_uniform() const noexcept { return edges_.empty(); }
  /// First element of cell `i`.
  std::uint64_t origin(std::uint64_t i) const noexcept { return edges_.empty() ? i * cell_ : edges_[i]; }
  /// Elements that the codec decodes: the cell's full length, also if the cell reaches beyond the array.
  std::uint64_t codec_length(std::uint64_t i) const noexcept {
    if (edges_.empty()) return cell_;
    return decoded_.empty() ? edges_[i + 1] - edges_[i] : decoded_[i];
  }
  /// The number of elements of cell `i` that are inside the array.
  std::uint64_t valid_length(std::uint64_t i) const noexcept;
  /// The cell that holds element `index` (< extent).
  std::uint64_t cell_of(std::uint64_t index) const noexcept;

  friend bool operator==(const grid_axis&, const grid_axis&) = default;

 private:
  std::uint64_t extent_ = 0, cell_ = 1, cells_ = 0;
  std::vector<std::uint64_t> edges_;
  std::vector<std::uint64_t> decoded_;  // empty: the distance between the edges
};

/// Identifies a cell of a grid: its C-order number.
using chunk_id = std::uint64_t;

/// An array's cells: one axis for each dimension. A rank-0 array has one cell.
class PENSTOCK_API chunk_grid {
 public:
  chunk_grid() noexcept = default;
  /// \error invalid_argument  A chunk length of 0, or unequal ranks. \error unsupported  More than 2^63 cells.
  static result<chunk_grid> regular(const extents& shape, const extents& chunk);
  /// \error unsupported  More than 32 axes, an axis of more than 2^63 - 1 elements, or more than 2^63 cells.
  static result<chunk_grid> make(std::vector<grid_axis> axes);

  std::size_t rank() const noexcept { return axes_.size(); }
  const grid_axis& axis(std::size_t d) const noexcept { return axes_[d]; }
  /// Number of cells; 0 if a dimension is empty.
  std::uint64_t cells() const noexcept { return cells_; }

  /// The number of the cell with these indices, one for each axis, each below `axis(d).cells()`.
  chunk_id id(const dim_vector<std::uint64_t>& coordinates) const noexcept;
  /// The inverse of id.
  void coordinates(chunk_id id, dim_vector<std::uint64_t>& out) const noexcept;

  friend bool operator==(const chunk_grid&, const chunk_grid&) = default;

 private:
  std::vector<grid_axis> axes_;
  std::uint64_t cells_ = 1;
};

}  // namespace penstock::inline v0
