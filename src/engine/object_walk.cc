#include "engine/object_walk.h"

#include <algorithm>

#include "plan/indexed_selection.h"

namespace penstock::inline v0 {

void object_walk::start(const source& from) {
  from_ = &from;
  order_.clear();
  next_ = 0;
  if (from.indexed == nullptr) {
    objects_.start(from.layout->write_grid(), from.from);
    total_objects_ = objects_.total();
    cells_.start(from.layout->grid(), from.from);
    total_cells_ = cells_.total();
    return;
  }
  total_objects_ = total_cells_ = from.indexed->cells();
  if (from.layout->grid().cells() == from.layout->write_grid().cells()) return;
  dim_vector<std::uint64_t> at;
  order_.reserve(static_cast<std::size_t>(total_cells_));
  for (std::uint64_t i = 0; i < total_cells_; ++i) {
    const cell_id cell = from.indexed->cell(i);
    order_.push_back({object_of(cell, at), cell});
  }
  const auto before = [](const placed_cell& a, const placed_cell& b) {
    return a.object != b.object ? a.object < b.object : a.cell < b.cell;
  };
  if (!std::is_sorted(order_.begin(), order_.end(), before)) std::sort(order_.begin(), order_.end(), before);
  total_objects_ = 0;
  for (std::size_t i = 0; i < order_.size(); ++i)
    total_objects_ += i == 0 || order_[i].object != order_[i - 1].object ? 1 : 0;
}

object_id object_walk::object_of(cell_id cell, dim_vector<std::uint64_t>& at) const noexcept {
  const chunk_grid& grid = from_->layout->grid();
  const chunk_grid& objects = from_->layout->write_grid();
  grid.coordinates(cell, at);
  for (std::size_t d = 0; d < at.size(); ++d) at[d] = objects.axis(d).cell_of(grid.axis(d).origin(at[d]));
  return objects.id(at);
}

std::uint64_t object_walk::valid_cells(const dim_vector<std::uint64_t>& at) const noexcept {
  const chunk_grid& grid = from_->layout->grid();
  const chunk_grid& objects = from_->layout->write_grid();
  std::uint64_t out = 1;
  for (std::size_t d = 0; d < at.size(); ++d) {
    const std::uint64_t origin = objects.axis(d).origin(at[d]);
    const std::uint64_t last = origin + objects.axis(d).valid_length(at[d]) - 1;
    out *= grid.axis(d).cell_of(last) - grid.axis(d).cell_of(origin) + 1;
  }
  return out;
}

bool object_walk::next(touched_object& out) {
  out.cells.clear();
  if (from_->indexed != nullptr) return next_indexed(out);
  const chunk_grid& grid = from_->layout->grid();
  const chunk_grid& objects = from_->layout->write_grid();
  while (!objects_.done()) {
    const auto at = objects_.coordinates();
    objects_.next();
    if (!intersect(objects, at, from_->from, region_)) continue;
    out.object = objects.id(at);
    out.valid_cells = valid_cells(at);
    within_ = region_.in_cell;
    for (std::size_t d = 0; d < grid.rank(); ++d)
      within_[d].start += static_cast<std::int64_t>(objects.axis(d).origin(at[d]));
    for (cells_.start(grid, within_); !cells_.done(); cells_.next()) out.cells.push_back(grid.id(cells_.coordinates()));
    return true;
  }
  return false;
}

bool object_walk::next_indexed(touched_object& out) {
  if (next_ == total_cells_) return false;
  if (order_.empty()) {
    out.cells.push_back(from_->indexed->cell(next_++));
    out.object = out.cells[0];
    out.valid_cells = 1;
    return true;
  }
  out.object = order_[next_].object;
  for (; next_ < total_cells_ && order_[next_].object == out.object; ++next_) out.cells.push_back(order_[next_].cell);
  dim_vector<std::uint64_t> at;
  from_->layout->write_grid().coordinates(out.object, at);
  out.valid_cells = valid_cells(at);
  return true;
}

}  // namespace penstock::inline v0
