#include "plan/crop_list.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "plan/placement.h"

namespace penstock::inline v0 {

crop_list::crop_list(const chunk_grid& grid, std::vector<crop> crops)
    : indexed_selection(grid), crops_(std::move(crops)) {
  std::vector<std::pair<cell_id, std::uint32_t>> touched;
  for (std::uint32_t i = 0; i < crops_.size(); ++i) {
    cell_walk walk;
    for (walk.start(grid, crops_[i].from); !walk.done(); walk.next())
      touched.emplace_back(grid.id(walk.coordinates()), i);
  }
  std::sort(touched.begin(), touched.end());
  wanted_.reserve(touched.size());
  for (const auto& [cell, which] : touched) {
    if (cells_.empty() || cells_.back() != cell) {
      cells_.push_back(cell);
      begin_.push_back(wanted_.size());
    }
    wanted_.push_back(which);
  }
  begin_.push_back(wanted_.size());
}

std::span<const std::uint32_t> crop_list::crops_of(cell_id cell) const noexcept {
  const auto found = std::lower_bound(cells_.begin(), cells_.end(), cell);
  if (found == cells_.end() || *found != cell) return {};
  const auto i = static_cast<std::size_t>(found - cells_.begin());
  return std::span(wanted_).subspan(begin_[i], begin_[i + 1] - begin_[i]);
}

bool crop_list::place(const source& from, cell_id cell, placement& out) const noexcept {
  if (!place_one(from, cell, 0, out)) return false;
  if (places(cell) > 1) out.region.covers_cell = out.target.covers_cell = false;
  return true;
}

bool crop_list::place_one(const source& from, cell_id cell, std::size_t which, placement& out) const noexcept {
  const auto crops = crops_of(cell);
  if (which >= crops.size()) return false;
  const crop& wanted = crops_[crops[which]];
  dim_vector<std::uint64_t> coordinates;
  grid().coordinates(cell, coordinates);
  if (!intersect(grid(), coordinates, wanted.from, out.region)) return false;
  source alone;
  alone.to = from.to == nullptr ? nullptr : from.to + wanted.offset;
  alone.to_strides = wanted.to_strides;
  place_box(alone, out);
  out.offset += wanted.offset;
  return true;
}

std::string crop_list::describe() const { return fmt::format("{} boxes", crops_.size()); }

}  // namespace penstock::inline v0
