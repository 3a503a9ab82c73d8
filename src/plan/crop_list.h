#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/indexed_selection.h"

namespace penstock::inline v0 {

/// A box of an array, and its destination.
struct crop {
  strided_box from;
  std::int64_t offset = 0;  ///< offset of its first element from `source.to`, in bytes
  strides to_strides;       ///< bytes, one for each dimension of the array
};

/// Boxes of one array that are read together, each to a destination of its own. A cell that several of them need is
/// named once, and so fetched and decoded once: see `places_of`.
///
/// Memory: proportional to the boxes, and to the cells that each of them touches.
class crop_list final : public indexed_selection {
 public:
  crop_list(const chunk_grid& grid, std::vector<crop> crops);

  std::uint64_t cells() const noexcept override { return cells_.size(); }
  cell_id cell(std::uint64_t i) const noexcept override { return cells_[static_cast<std::size_t>(i)]; }
  /// The first destination; if a cell has several, it is not reported as covered, so that it is not decoded directly
  /// into one.
  bool place(const source& from, cell_id cell, placement& out) const noexcept override;
  std::size_t places(cell_id cell) const noexcept override { return crops_of(cell).size(); }
  bool place_one(const source& from, cell_id cell, std::size_t which, placement& out) const noexcept override;
  bool places_axes() const noexcept override { return true; }
  std::string describe() const override;

 private:
  std::span<const std::uint32_t> crops_of(cell_id cell) const noexcept;

  std::vector<crop> crops_;
  std::vector<cell_id> cells_;         // ascending
  std::vector<std::size_t> begin_;     // begin of each cell's numbers; the last one is the end of all
  std::vector<std::uint32_t> wanted_;  // numbers of crops, cell by cell
};

}  // namespace penstock::inline v0
