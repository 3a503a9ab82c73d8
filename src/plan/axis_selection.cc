// Orthogonal selections: each dimension is a range or a list, and every combination of them is selected.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "array/selection_checks.h"
#include "base/checked.h"
#include "plan/cell_lists.h"
#include "plan/indexed_selection.h"
#include "plan/placement.h"

namespace penstock::inline v0 {

/// One dimension: its touched cells, and the selected part of each.
struct selected_axis {
  axis_range range;  // used if `cells` has no runs
  bool is_list = false;
  bool is_dense = false;         // a range that touches every cell from `first_cell` on
  std::uint64_t first_cell = 0;  // dense ranges
  std::uint64_t cell_count = 0;  // touched
  cell_groups cells;             // not for dense ranges; `begin` counts runs
  std::vector<index_run> runs;
  std::uint64_t positions = 0;

  std::uint64_t cell(std::uint64_t i) const noexcept { return is_dense ? first_cell + i : cells.cells[i]; }
};

namespace {

/// Two adjacent positions are a run; at any other distance, a run has at least three.
constexpr std::size_t kMinStepped = 3;

template <class Point>
void append_runs(const std::vector<Point>& points, std::size_t begin, std::size_t end, std::vector<index_run>& runs) {
  const auto position = [&](std::size_t i) { return static_cast<std::int64_t>(points[i].in_cell); };
  for (std::size_t i = begin; i < end;) {
    std::size_t next = i + 1;
    std::int64_t step = 1;
    if (next < end && points[next].in_result == points[i].in_result + 1 && position(next) != position(i)) {
      step = position(next) - position(i);
      while (next < end && points[next].in_result == points[next - 1].in_result + 1 &&
             position(next) - position(next - 1) == step)
        ++next;
      if (next - i < kMinStepped && step != 1) {
        next = i + 1;
        step = 1;
      }
    }
    runs.push_back({position(i), step, points[i].in_result, next - i});
    i = next;
  }
}

template <class Point>
void group_list(const index_list& list, std::span<const std::uint64_t> places, const grid_axis& axis,
                selected_axis& out) {
  const axis_split split(axis);
  std::vector<std::uint64_t> cell(list.size()), in_cell(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto [c, within] = split(static_cast<std::uint64_t>(list[i]));
    cell[i] = c;
    in_cell[i] = within;
  }
  std::vector<Point> points;
  out.cells = group_by_cell<Point, std::uint64_t>(cell, in_cell, axis.cells(), points);
  move_to_places(points, places);
  for (std::size_t i = 0; i < out.cells.cells.size(); ++i) {
    const std::size_t begin = out.cells.begin[i], end = out.cells.begin[i + 1];
    out.cells.begin[i] = out.runs.size();
    append_runs(points, begin, end, out.runs);
  }
  out.cells.begin.back() = out.runs.size();
}

selected_axis select_list(const index_list& list, std::span<const std::uint64_t> places, const grid_axis& axis) {
  selected_axis out;
  out.is_list = true;
  out.positions = list.size();
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  const std::uint64_t last = places.empty() ? list.size() : places.back();
  if (last <= kMost && axis.extent() <= kMost) {
    group_list<cell_point>(list, places, axis, out);
  } else {
    group_list<wide_point>(list, places, axis, out);
  }
  out.cell_count = out.cells.cells.size();
  return out;
}

selected_axis select_range(const axis_range& range, const grid_axis& axis) {
  selected_axis out;
  out.range = range;
  out.positions = range.count;
  if (range.count == 0) return out;
  const std::int64_t ends[2] = {range.at(0), range.at(range.count - 1)};
  const std::uint64_t first = axis.cell_of(static_cast<std::uint64_t>(std::min(ends[0], ends[1])));
  const std::uint64_t last = axis.cell_of(static_cast<std::uint64_t>(std::max(ends[0], ends[1])));
  const std::uint64_t step =
      range.step < 0 ? ~static_cast<std::uint64_t>(range.step) + 1 : static_cast<std::uint64_t>(range.step);
  if (step == 1 || range.count == 1 || (axis.is_uniform() && step <= axis.codec_length(0))) {
    out.is_dense = true;
    out.first_cell = first;
    out.cell_count = last - first + 1;
    return out;
  }
  // Long steps skip cells: at most as many are listed as there are positions, or edges.
  if (axis.is_uniform()) {
    out.cells.cells.reserve(static_cast<std::size_t>(range.count));
    for (std::uint64_t i = 0; i < range.count; ++i)
      out.cells.cells.push_back(axis.cell_of(static_cast<std::uint64_t>(range.at(i))));
    if (range.step < 0) std::reverse(out.cells.cells.begin(), out.cells.cells.end());
  } else {
    axis_range part;
    std::uint64_t in_result = 0;
    for (std::uint64_t cell = first; cell <= last; ++cell)
      if (intersect(axis, cell, range, part, in_result)) out.cells.cells.push_back(cell);
  }
  out.cell_count = out.cells.cells.size();
  return out;
}

class axis_selection final : public indexed_selection {
 public:
  axis_selection(const chunk_grid& grid, std::vector<std::shared_ptr<const selected_axis>> axes)
      : indexed_selection(grid), axes_(std::move(axes)) {
    cells_ = 1;
    for (std::size_t d = 0; d < axes_.size(); ++d) {
      cells_ = saturating_mul(cells_, axes_[d]->cell_count);
      grid_cells_.push_back(grid.axis(d).cells());
    }
  }

  std::uint64_t cells() const noexcept override { return cells_; }

  cell_id cell(std::uint64_t i) const noexcept override {
    cell_id id = 0, scale = 1;
    for (std::size_t d = axes_.size(); d-- > 0;) {
      const selected_axis& axis = *axes_[d];
      const std::uint64_t rest = i / axis.cell_count;
      id += axis.cell(i - rest * axis.cell_count) * scale;
      scale *= grid_cells_[d];
      i = rest;
    }
    return id;
  }

  bool place(const source& from, cell_id cell, placement& out) const noexcept override {
    const std::size_t rank = axes_.size();
    dim_vector<std::uint64_t> coordinates;
    grid().coordinates(cell, coordinates);
    out.region.in_cell.resize(rank);
    out.region.in_result.resize(rank);
    out.region.covers_cell = true;
    out.indexed.axes.resize(rank, run_list{});
    out.ranges.resize(rank, index_run{});
    bool is_box = true;
    for (std::size_t d = 0; d < rank; ++d) {
      const selected_axis& axis = *axes_[d];
      axis_range& in_cell = out.region.in_cell[d];
      std::uint64_t& in_result = out.region.in_result[d];
      if (!axis.is_list) {
        if (!intersect(grid().axis(d), coordinates[d], axis.range, in_cell, in_result)) return false;
        out.ranges[d] = {in_cell.start, in_cell.step, in_result, in_cell.count};
        out.indexed.axes[d] = {&out.ranges[d], 1};
      } else {
        const std::size_t at = axis.cells.find(coordinates[d]);
        if (at == axis.cells.cells.size()) return false;
        const std::size_t begin = axis.cells.begin[at];
        const index_run& run = axis.runs[begin];
        out.indexed.axes[d] = {&run, axis.cells.begin[at + 1] - begin};
        in_cell = {run.start, run.step, run.count};
        in_result = run.result;
        is_box = is_box && out.indexed.axes[d].size == 1;
      }
      out.region.covers_cell =
          out.region.covers_cell && in_cell.step == 1 && in_cell.count == grid().axis(d).codec_length(coordinates[d]);
    }
    if (is_box) {
      place_box(from, out);
      return true;
    }
    out.indexed.what = indexed_region::kind::axes;
    out.indexed.points = {};
    out.indexed.runs = {};
    out.offset = 0;
    out.counts.clear();
    out.region.covers_cell = false;
    out.target.data = from.to;
    out.target.strides = from.to_strides;
    out.target.in_cell = nullptr;
    out.target.covers_cell = false;
    out.target.indexed = &out.indexed;
    return true;
  }

  bool places_axes() const noexcept override { return true; }

  std::string describe() const override {
    std::string out;
    for (const auto& axis : axes_)
      out += fmt::format("{}{}{}", out.empty() ? "" : " x ", axis->positions, axis->is_list ? " listed" : "");
    return out + " positions";
  }

 private:
  std::vector<std::shared_ptr<const selected_axis>> axes_;
  dim_vector<std::uint64_t> grid_cells_;
  std::uint64_t cells_ = 0;
};

}  // namespace

std::shared_ptr<const selected_axis> select_axis(const axis_positions& positions, std::span<const std::uint64_t> places,
                                                 const grid_axis& axis) {
  const auto* const list = std::get_if<index_list>(&positions);
  return std::make_shared<const selected_axis>(list != nullptr ? select_list(*list, places, axis)
                                                               : select_range(std::get<axis_range>(positions), axis));
}

std::shared_ptr<const indexed_selection> select_axes(const chunk_grid& grid,
                                                     std::vector<std::shared_ptr<const selected_axis>> axes) {
  return std::make_shared<axis_selection>(grid, std::move(axes));
}

bool as_range(const index_list& list, axis_range& out) noexcept {
  if (list.empty()) {
    out = {0, 1, 0};
    return true;
  }
  const std::int64_t step = list.size() == 1 ? 1 : list[1] - list[0];
  if (step == 0) return false;
  for (std::size_t i = 2; i < list.size(); ++i)
    if (list[i] - list[i - 1] != step) return false;
  out = {list[0], step, list.size()};
  return true;
}

result<resolved_selection> select(const orthogonal_selection& which, const chunk_grid& grid) {
  extents shape;
  for (std::size_t d = 0; d < grid.rank(); ++d) shape.push_back(grid.axis(d).extent());
  PENSTOCK_ASSIGN(resolved_orthogonal resolved, resolve(which, shape));
  resolved_selection out;
  out.shape = resolved.shape;
  out.axis = resolved.axis;
  bool is_box = true;
  for (axis_positions& each : resolved.from) {
    axis_range range;
    const auto* const list = std::get_if<index_list>(&each);
    if (list != nullptr && as_range(*list, range)) each = range;
    is_box = is_box && std::holds_alternative<axis_range>(each);
  }
  if (is_box) {
    for (const axis_positions& each : resolved.from) out.from.push_back(std::get<axis_range>(each));
    return out;
  }
  std::vector<std::shared_ptr<const selected_axis>> axes;
  for (std::size_t d = 0; d < grid.rank(); ++d) axes.push_back(select_axis(resolved.from[d], {}, grid.axis(d)));
  out.indexed = select_axes(grid, std::move(axes));
  return out;
}

}  // namespace penstock::inline v0
