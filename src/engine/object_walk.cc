#include "engine/object_walk.h"

namespace penstock::inline v0 {

void object_walk::start(const source& from) {
  from_ = &from;
  objects_.start(from.layout->write_grid(), from.from);
  total_objects_ = objects_.total();
  cells_.start(from.layout->grid(), from.from);
  total_cells_ = cells_.total();
}

bool object_walk::next(touched_object& out) {
  const chunk_grid& grid = from_->layout->grid();
  const chunk_grid& objects = from_->layout->write_grid();
  out.cells.clear();
  while (!objects_.done()) {
    const auto at = objects_.coordinates();
    objects_.next();
    if (!intersect(objects, at, from_->from, region_)) continue;
    out.object = objects.id(at);
    out.valid_cells = 1;
    const std::size_t rank = grid.rank();
    within_ = region_.in_cell;
    for (std::size_t d = 0; d < rank; ++d) {
      const std::uint64_t origin = objects.axis(d).origin(at[d]);
      const std::uint64_t last = origin + objects.axis(d).valid_length(at[d]) - 1;
      within_[d].start += static_cast<std::int64_t>(origin);
      out.valid_cells *= grid.axis(d).cell_of(last) - grid.axis(d).cell_of(origin) + 1;
    }
    for (cells_.start(grid, within_); !cells_.done(); cells_.next()) out.cells.push_back(grid.id(cells_.coordinates()));
    return true;
  }
  return false;
}

}  // namespace penstock::inline v0
