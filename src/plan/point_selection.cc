// Coordinate selections: single elements, sorted and batched by cell once.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "array/selection_checks.h"
#include "base/checked.h"
#include "base/counted.h"
#include "plan/cell_lists.h"
#include "plan/indexed_selection.h"
#include "plan/placement.h"

namespace penstock::inline v0 {
namespace {

/// If neighbours are selected together at least this often, they are copied together.
constexpr std::size_t kMinRunLength = 4;

class point_selection final : public indexed_selection {
 public:
  point_selection(const chunk_grid& grid, const extents& shape, cell_groups groups, std::vector<cell_point> points,
                  std::vector<point_run> runs, std::uint64_t count)
      : indexed_selection(grid),
        shape_(shape),
        groups_(std::move(groups)),
        points_(std::move(points)),
        runs_(std::move(runs)),
        count_(count) {}

  std::uint64_t cells() const noexcept override { return groups_.cells.size(); }
  cell_id cell(std::uint64_t i) const noexcept override { return groups_.cells[static_cast<std::size_t>(i)]; }

  bool place(const source& from, cell_id cell, placement& out) const noexcept override {
    const std::size_t at = groups_.find(cell);
    if (at == groups_.cells.size()) return false;
    const std::size_t begin = groups_.begin[at], count = groups_.begin[at + 1] - begin;
    out.indexed.axes.clear();
    out.indexed.points = {};
    out.indexed.runs = {};
    out.indexed.result_shape = &shape_;
    if (runs_.empty()) {
      out.indexed.what = indexed_region::kind::points;
      out.indexed.points = std::span(points_).subspan(begin, count);
    } else {
      out.indexed.what = indexed_region::kind::runs;
      out.indexed.runs = std::span(runs_).subspan(begin, count);
      if (count == 1 && shape_.size() == 1 && place_run(from, cell, runs_[begin], out)) return true;
    }
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

  bool places_axes() const noexcept override { return false; }

  std::string describe() const override { return counted(count_, "point"); }

 private:
  // One run that is the whole cell, or the cell of a one-dimensional array: a box.
  bool place_run(const source& from, cell_id cell, const point_run& run, placement& out) const noexcept {
    const std::size_t rank = grid().rank();
    dim_vector<std::uint64_t> coordinates;
    grid().coordinates(cell, coordinates);
    std::uint64_t volume = 1;
    for (std::size_t d = 0; d < rank; ++d) volume *= grid().axis(d).codec_length(coordinates[d]);
    const bool whole = run.count == volume;
    if (!whole && rank != 1) return false;
    out.region.in_cell.resize(rank);
    out.target.strides.resize(rank);
    out.counts.resize(rank);
    std::int64_t stride = from.to_strides[0];
    for (std::size_t d = rank; d-- > 0;) {
      const std::uint64_t length = whole ? grid().axis(d).codec_length(coordinates[d]) : run.count;
      out.region.in_cell[d] = {whole ? 0 : static_cast<std::int64_t>(run.in_cell), 1, length};
      out.counts[d] = length;
      out.target.strides[d] = stride;
      stride *= static_cast<std::int64_t>(length);
    }
    out.offset = static_cast<std::int64_t>(run.in_result) * from.to_strides[0];
    out.region.covers_cell = whole;
    out.target.data = from.to == nullptr ? nullptr : from.to + out.offset;
    out.target.in_cell = &out.region.in_cell;
    out.target.covers_cell = whole;
    out.target.indexed = nullptr;
    return true;
  }

  extents shape_;  // of the result
  cell_groups groups_;
  std::vector<cell_point> points_;  // or, if not empty:
  std::vector<point_run> runs_;
  std::uint64_t count_;
};

template <class Point>
std::vector<point_run> runs_of(const std::vector<Point>& points, cell_groups& groups) {
  std::vector<point_run> runs;
  for (std::size_t g = 0; g < groups.cells.size(); ++g) {
    const std::size_t begin = groups.begin[g], end = groups.begin[g + 1];
    groups.begin[g] = runs.size();
    for (std::size_t i = begin; i < end; ++i) {
      if (i != begin && points[i].in_cell == points[i - 1].in_cell + 1 &&
          points[i].in_result == points[i - 1].in_result + 1) {
        ++runs.back().count;
      } else {
        runs.push_back({points[i].in_cell, points[i].in_result, 1});
      }
    }
  }
  groups.begin.back() = runs.size();
  return runs;
}

bool has_long_runs(const std::vector<cell_point>& points) noexcept {
  std::size_t runs = 0;
  for (std::size_t i = 1; i < points.size(); ++i) {
    // A run that begins only because its cell does is not counted: few cells do not matter, and in many cells runs are
    // short anyway.
    runs += points[i].in_cell != points[i - 1].in_cell + 1 || points[i].in_result != points[i - 1].in_result + 1;
  }
  return points.size() >= kMinRunLength * (runs + 1);
}

/// Points are divided into cells this many at a time, one dimension after the other, while they are in the cache.
constexpr std::size_t kBlock = 2048;

/// The most elements that a cell has; saturating.
std::uint64_t largest_cell(const chunk_grid& grid) noexcept {
  std::uint64_t volume = 1;
  for (std::size_t d = 0; d < grid.rank(); ++d) {
    const grid_axis& axis = grid.axis(d);
    std::uint64_t longest = axis.cells() == 0 ? 0 : axis.codec_length(0);
    if (!axis.is_uniform())
      for (std::uint64_t c = 1; c < axis.cells(); ++c) longest = std::max(longest, axis.codec_length(c));
    if (!checked_mul(volume, longest, volume)) volume = std::numeric_limits<std::uint64_t>::max();
  }
  return volume;
}

// Finds each point's cell and its number in it.
template <class Number>
result<> split_points(const coordinate_view& which, const chunk_grid& grid, std::size_t count, Number* cell,
                      Number* in_cell) {
  std::vector<axis_split> splits;
  for (std::size_t d = 0; d < grid.rank(); ++d) splits.emplace_back(grid.axis(d));
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t end = std::min(count, begin + kBlock);
    std::fill(cell + begin, cell + end, Number{0});
    std::fill(in_cell + begin, in_cell + end, Number{0});
    for (std::size_t d = 0; d < grid.rank(); ++d) {
      const grid_axis& axis = grid.axis(d);
      const axis_split& split = splits[d];
      const auto length = static_cast<std::int64_t>(axis.extent());
      const bool uniform = axis.is_uniform();
      const std::uint64_t cells = axis.cells(), cell_length = uniform && cells != 0 ? axis.codec_length(0) : 0;
      const std::int64_t* const list = which.points[d].data();
      for (std::size_t i = begin; i < end; ++i) {
        const std::int64_t at = list[i] < 0 ? list[i] + length : list[i];
        if (at < 0 || at >= length) return bounds_error(list[i], d, axis.extent());
        const auto [c, within] = split(static_cast<std::uint64_t>(at));
        cell[i] = static_cast<Number>(cell[i] * cells + c);
        in_cell[i] = static_cast<Number>(in_cell[i] * (uniform ? cell_length : axis.codec_length(c)) + within);
      }
    }
  }
  return {};
}

template <class Number, class Point>
result<cell_groups> group_points(const coordinate_view& which, const chunk_grid& grid, std::size_t count,
                                 std::vector<Point>& points) {
  // Not zeroed first: for a million points fresh pages would cost more than all other steps.
  const std::unique_ptr<Number[]> cell(new Number[count]), in_cell(new Number[count]);
  PENSTOCK_TRY(split_points(which, grid, count, cell.get(), in_cell.get()));
  return group_by_cell<Point, Number>(std::span<const Number>(cell.get(), count),
                                      std::span<const Number>(in_cell.get(), count), grid.cells(), points);
}

result<std::shared_ptr<const indexed_selection>> make_points(const coordinate_view& which,
                                                             std::span<const std::uint64_t> places,
                                                             const chunk_grid& grid, std::size_t count) {
  std::vector<cell_point> points;
  std::vector<point_run> runs;
  cell_groups groups;
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  if ((places.empty() ? count : places.back()) <= kMost && largest_cell(grid) <= kMost) {
    if (grid.cells() <= kMost) {
      PENSTOCK_ASSIGN(groups, group_points<std::uint32_t>(which, grid, count, points));
    } else {
      PENSTOCK_ASSIGN(groups, group_points<std::uint64_t>(which, grid, count, points));
    }
    move_to_places(points, places);
    if (has_long_runs(points)) {
      runs = runs_of(points, groups);
      points = {};
    }
  } else {
    std::vector<wide_point> wide;
    PENSTOCK_ASSIGN(groups, group_points<std::uint64_t>(which, grid, count, wide));
    move_to_places(wide, places);
    runs = runs_of(wide, groups);
  }
  return std::shared_ptr<const indexed_selection>(std::make_shared<point_selection>(
      grid, which.shape, std::move(groups), std::move(points), std::move(runs), count));
}

}  // namespace

result<resolved_selection> select(const coordinate_selection& which, const chunk_grid& grid) {
  return select(coordinate_view{{which.points.begin(), which.points.end()}, which.shape}, grid);
}

result<resolved_selection> select(const coordinate_view& which, const chunk_grid& grid) {
  extents shape;
  for (std::size_t d = 0; d < grid.rank(); ++d) shape.push_back(grid.axis(d).extent());
  PENSTOCK_ASSIGN(const std::uint64_t count, check_points(which.points, which.shape, shape));
  resolved_selection out;
  out.shape = which.shape;
  PENSTOCK_ASSIGN(out.indexed, make_points(which, {}, grid, static_cast<std::size_t>(count)));
  return out;
}

std::shared_ptr<const indexed_selection> select_points(const coordinate_view& which,
                                                       std::span<const std::uint64_t> places, const chunk_grid& grid) {
  return make_points(which, places, grid, places.size()).value();  // it fails for positions outside of the grid only
}

}  // namespace penstock::inline v0
