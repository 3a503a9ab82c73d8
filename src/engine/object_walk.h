#pragma once

#include <cstdint>
#include <vector>

#include <penstock/plan.h>
#include "array/chunk_grid.h"

namespace penstock::inline v0 {

/// The cells of one storage object that a write touches.
struct touched_object {
  object_id object = 0;
  std::vector<cell_id> cells;
  std::uint64_t valid_cells = 0;  ///< cells of the object that contain elements of the array
};

/// Iterates lazily over the storage objects that a source's selection touches, and lists the cells of each. Only for
/// index lists and points in shards all cells are listed first.
class object_walk {
 public:
  /// `from` is borrowed until the iteration ends.
  void start(const source& from);
  /// False if no object remains; `out` is overwritten.
  bool next(touched_object& out);

  /// Objects and cells in the whole iteration; saturating.
  std::uint64_t total_objects() const noexcept { return total_objects_; }
  std::uint64_t total_cells() const noexcept { return total_cells_; }

 private:
  bool next_indexed(touched_object& out);
  object_id object_of(cell_id cell, dim_vector<std::uint64_t>& at) const noexcept;
  // Cells of the object at these coordinates that contain elements of the array.
  std::uint64_t valid_cells(const dim_vector<std::uint64_t>& at) const noexcept;

  const source* from_ = nullptr;
  // For indexed selections: their cells, object by object; empty if each cell is an object.
  struct placed_cell {
    object_id object;
    cell_id cell;
  };
  std::vector<placed_cell> order_;
  std::uint64_t next_ = 0;
  cell_walk objects_, cells_;
  strided_box within_;
  cell_region region_;
  std::uint64_t total_objects_ = 0, total_cells_ = 0;
};

}  // namespace penstock::inline v0
