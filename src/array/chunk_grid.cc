#include "array/chunk_grid.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/counted.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kMaxCells = std::uint64_t{1} << 63;
/// Positions are signed while they are iterated (a step may be negative).
constexpr auto kMaxExtent = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

// Divisions of 64 bits cost several times those of 32, and most steps are 1.
inline std::uint64_t divide(std::uint64_t a, std::uint64_t b) noexcept {
  if (b == 1) return a;
  if (((a | b) >> 32) == 0) return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
  return a / b;
}
inline std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) noexcept { return a == 0 ? 0 : divide(a - 1, b) + 1; }

}  // namespace

grid_axis grid_axis::uniform(std::uint64_t extent, std::uint64_t cell) noexcept {
  grid_axis axis;
  axis.extent_ = extent;
  axis.cell_ = cell;
  axis.cells_ = ceil_div(extent, cell);
  return axis;
}

result<grid_axis> grid_axis::edges(std::uint64_t extent, std::vector<std::uint64_t> edges) {
  if (edges.empty() || edges.front() != 0)
    return error(errc::invalid_argument, "the edges of a dimension's chunks do not begin at 0");
  for (std::size_t i = 1; i < edges.size(); ++i) {
    if (edges[i] <= edges[i - 1]) {
      return error(errc::invalid_argument,
                   fmt::format("the edges of a dimension's chunks do not ascend: {} after {}", edges[i], edges[i - 1]));
    }
  }
  if (edges.back() < extent) {
    return error(errc::invalid_argument,
                 fmt::format("the chunks of a dimension end at {}, its size is {}", edges.back(), extent));
  }
  grid_axis axis;
  axis.extent_ = extent;
  // Cells that are wholly outside the array (it was made smaller) are never read.
  axis.cells_ = static_cast<std::uint64_t>(std::lower_bound(edges.begin(), edges.end(), extent) - edges.begin());
  axis.edges_ = std::move(edges);
  return axis;
}

result<grid_axis> grid_axis::edges(std::uint64_t extent, std::vector<std::uint64_t> edges,
                                   std::vector<std::uint64_t> decoded) {
  PENSTOCK_ASSIGN(grid_axis axis, grid_axis::edges(extent, std::move(edges)));
  if (decoded.size() + 1 != axis.edges_.size()) {
    return error(errc::invalid_argument, fmt::format("{} for {}", counted(decoded.size(), "decoded length"),
                                                     counted(axis.edges_.size() - 1, "chunk")));
  }
  bool same = true;
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    const std::uint64_t length = axis.edges_[i + 1] - axis.edges_[i];
    if (decoded[i] < length || decoded[i] > kMaxExtent) {
      return error(errc::invalid_argument, fmt::format("a chunk of {} decodes to {} along its dimension",
                                                       counted(length, "element"), decoded[i]));
    }
    same = same && decoded[i] == length;
  }
  if (!same) axis.decoded_ = std::move(decoded);
  return axis;
}

std::uint64_t grid_axis::valid_length(std::uint64_t i) const noexcept {
  const std::uint64_t length = edges_.empty() ? cell_ : edges_[i + 1] - edges_[i];
  return std::min(length, extent_ - origin(i));
}

std::uint64_t grid_axis::cell_of(std::uint64_t index) const noexcept {
  if (edges_.empty()) return divide(index, cell_);
  return static_cast<std::uint64_t>(std::upper_bound(edges_.begin(), edges_.end(), index) - edges_.begin()) - 1;
}

result<chunk_grid> chunk_grid::regular(const extents& shape, const extents& chunk) {
  if (shape.size() != chunk.size()) {
    return error(errc::invalid_argument, fmt::format("chunk shape {} and array shape {} have unequal ranks",
                                                     to_string(chunk), to_string(shape)));
  }
  std::vector<grid_axis> axes;
  axes.reserve(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (chunk[d] == 0) return error(errc::invalid_argument, "chunk shape " + to_string(chunk) + " has a length of 0");
    if (chunk[d] > kMaxExtent)
      return error(errc::unsupported, "chunk shape " + to_string(chunk) + " has a length beyond 2^63 - 1");
    axes.push_back(grid_axis::uniform(shape[d], chunk[d]));
  }
  return make(std::move(axes));
}

result<chunk_grid> chunk_grid::make(std::vector<grid_axis> axes) {
  if (axes.size() > kMaxRank)
    return error(errc::unsupported, fmt::format("{} dimensions, at most {} are supported", axes.size(), kMaxRank));
  chunk_grid grid;
  for (const grid_axis& axis : axes) {
    if (axis.extent() > kMaxExtent)
      return error(errc::unsupported,
                   fmt::format("a dimension of size {}, at most 2^63 - 1 is supported", axis.extent()));
  }
  const bool empty = std::any_of(axes.begin(), axes.end(), [](const grid_axis& axis) { return axis.cells() == 0; });
  if (empty) {
    grid.cells_ = 0;
  } else {
    for (const grid_axis& axis : axes) {
      if (!checked_mul(grid.cells_, axis.cells(), grid.cells_) || grid.cells_ > kMaxCells)
        return error(errc::unsupported, "the array has more than 2^63 chunks");
    }
  }
  grid.axes_ = std::move(axes);
  return grid;
}

chunk_id chunk_grid::id(const dim_vector<std::uint64_t>& coordinates) const noexcept {
  chunk_id id = 0;
  for (std::size_t d = 0; d < axes_.size(); ++d) id = id * axes_[d].cells() + coordinates[d];
  return id;
}

void chunk_grid::coordinates(chunk_id id, dim_vector<std::uint64_t>& out) const noexcept {
  out.resize(axes_.size());
  for (std::size_t d = axes_.size(); d-- > 0;) {
    const std::uint64_t cells = axes_[d].cells();
    if (d == 0 || id < cells) {
      out[d] = id;
      id = 0;
    } else {
      const std::uint64_t rest = divide(id, cells);
      out[d] = id - rest * cells;
      id = rest;
    }
  }
}

namespace {

// The part of one dimension; false if the range has no element in the cell.
inline bool intersect_one(const grid_axis& axis, std::uint64_t cell, const axis_range& range, axis_range& in_cell,
                          std::uint64_t& in_result, bool& covers) noexcept {
  const std::uint64_t begin = axis.origin(cell);
  const std::uint64_t length = axis.codec_length(cell);
  const std::uint64_t end = begin + axis.valid_length(cell);
  const auto start = static_cast<std::uint64_t>(range.start);
  const std::uint64_t step = magnitude(range.step);
  // [first, last) are the numbers of the elements in [begin, end).
  std::uint64_t first = 0, last = 0;
  if (range.step > 0) {
    first = start >= begin ? 0 : divide_up(begin - start, step);
    last = start >= end ? 0 : divide_up(end - start, step);
  } else {
    first = start < end ? 0 : divide_up(start - (end - 1), step);
    last = start < begin ? 0 : divide(start - begin, step) + 1;
  }
  last = std::min(last, range.count);
  if (first >= last) return false;
  const std::uint64_t count = last - first;
  in_cell.start = range.at(first) - static_cast<std::int64_t>(begin);
  in_cell.step = count == 1 ? 1 : range.step;  // a single element has no direction
  in_cell.count = count;
  in_result = first;
  covers = covers && count == length && in_cell.step == 1;
  return true;
}

}  // namespace

bool intersect(const grid_axis& axis, std::uint64_t cell, const axis_range& range, axis_range& in_cell,
               std::uint64_t& in_result) noexcept {
  bool covers = true;
  return intersect_one(axis, cell, range, in_cell, in_result, covers);
}

bool intersect(const chunk_grid& grid, const dim_vector<std::uint64_t>& coordinates, const strided_box& selection,
               cell_region& out) noexcept {
  const std::size_t rank = grid.rank();
  out.in_cell.resize(rank);
  out.in_result.resize(rank);
  out.covers_cell = true;
  for (std::size_t d = 0; d < rank; ++d) {
    if (!intersect_one(grid.axis(d), coordinates[d], selection[d], out.in_cell[d], out.in_result[d], out.covers_cell))
      return false;
  }
  return true;
}

void cell_walk::start(const chunk_grid& grid, const strided_box& selection) noexcept {
  const std::size_t rank = grid.rank();
  grid_ = &grid;
  done_ = false;
  total_ = 1;
  from_.clear();
  first_.clear();
  last_.clear();
  for (std::size_t d = 0; d < rank; ++d) {
    axis_range range = selection[d];
    if (range.count == 0) {
      done_ = true;
      total_ = 0;
      return;
    }
    if (range.count == 1) {
      range.step = 1;
    } else if (range.step < 0) {
      range = {range.at(range.count - 1), -range.step, range.count};
    }
    from_.push_back(range);
    const grid_axis& axis = grid.axis(d);
    first_.push_back(axis.cell_of(static_cast<std::uint64_t>(range.start)));
    last_.push_back(axis.cell_of(static_cast<std::uint64_t>(range.at(range.count - 1))));
    std::uint64_t touched = last_[d] - first_[d] + 1;
    if (skips(d)) {
      if (axis.is_uniform()) {
        touched = range.count;  // a step longer than a cell: each element has a cell of its own
      } else {
        touched = 0;
        for (std::uint64_t cell = first_[d];; ++touched) {
          if (cell == last_[d]) break;
          cell = next_touched(d, cell);
        }
        ++touched;
      }
    }
    total_ = saturating_mul(total_, touched);
  }
  at_ = first_;
}

bool cell_walk::skips(std::size_t d) const noexcept {
  const grid_axis& axis = grid_->axis(d);
  const auto step = static_cast<std::uint64_t>(from_[d].step);
  if (step == 1) return false;
  return !axis.is_uniform() || step > axis.codec_length(0);
}

std::uint64_t cell_walk::next_touched(std::size_t d, std::uint64_t cell) const noexcept {
  const grid_axis& axis = grid_->axis(d);
  const axis_range& range = from_[d];
  const std::uint64_t end = axis.origin(cell) + axis.valid_length(cell);
  const std::uint64_t element =
      divide_up(end - static_cast<std::uint64_t>(range.start), static_cast<std::uint64_t>(range.step));
  return axis.cell_of(static_cast<std::uint64_t>(range.at(element)));
}

void cell_walk::next() noexcept {
  for (std::size_t d = at_.size(); d-- > 0;) {
    if (at_[d] != last_[d]) {
      at_[d] = skips(d) ? next_touched(d, at_[d]) : at_[d] + 1;
      return;
    }
    at_[d] = first_[d];
  }
  done_ = true;
}

}  // namespace penstock::inline v0
