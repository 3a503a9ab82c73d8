#include "plan/cell_lists.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace penstock::inline v0 {
namespace {

/// Up to this many cells (or twice the number of points), the points of each cell are counted; beyond that, the cells'
/// numbers are sorted by digits.
constexpr std::uint64_t kMaxCounted = std::uint64_t{1} << 16;
constexpr unsigned kDigitBits = 11;

template <class Point>
Point make_point(std::uint64_t in_cell, std::uint64_t in_result) noexcept {
  using number = decltype(Point::in_cell);
  return {static_cast<number>(in_cell), static_cast<number>(in_result)};
}

template <class Number>
cell_groups groups_of_sorted(std::span<const Number> cell) {
  cell_groups out;
  for (std::size_t i = 0; i < cell.size(); ++i) {
    if (i != 0 && cell[i] == cell[i - 1]) continue;
    out.cells.push_back(cell[i]);
    out.begin.push_back(i);
  }
  out.begin.push_back(cell.size());
  return out;
}

// One pass, with a counter for each cell.
template <class Point, class Number>
cell_groups count_cells(std::span<const Number> cell, std::span<const Number> in_cell, std::uint64_t cell_count,
                        std::vector<Point>& points) {
  cell_groups out;
  std::vector<std::size_t> at(static_cast<std::size_t>(cell_count), 0);
  for (const Number each : cell) ++at[each];
  std::size_t before = 0;
  for (std::size_t c = 0; c < at.size(); ++c) {
    const std::size_t count = at[c];
    if (count == 0) continue;
    out.cells.push_back(c);
    out.begin.push_back(before);
    at[c] = before;
    before += count;
  }
  out.begin.push_back(before);
  for (std::size_t i = 0; i < cell.size(); ++i) points[at[cell[i]]++] = make_point<Point>(in_cell[i], i);
  return out;
}

// Sorts by the digits of the cells' numbers, from the lowest. Sorts `cell`.
template <class Point, class Number>
void sort_by_digits(std::vector<Number>& cell, std::uint64_t cell_count, std::vector<Point>& points) {
  std::vector<Number> next_cell(cell.size());
  std::vector<Point> next_points(points.size());
  const auto bits = static_cast<unsigned>(std::bit_width(cell_count - 1));
  for (unsigned shift = 0; shift < bits; shift += kDigitBits) {
    constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;
    std::vector<std::size_t> at(kDigits, 0);
    for (const Number each : cell) ++at[each >> shift & (kDigits - 1)];
    std::size_t before = 0;
    for (std::size_t& each : at) {
      const std::size_t count = each;
      each = before;
      before += count;
    }
    for (std::size_t i = 0; i < cell.size(); ++i) {
      const std::size_t to = at[cell[i] >> shift & (kDigits - 1)]++;
      next_cell[to] = cell[i];
      next_points[to] = points[i];
    }
    cell.swap(next_cell);
    points.swap(next_points);
  }
}

}  // namespace

std::size_t cell_groups::find(std::uint64_t cell) const noexcept {
  const auto at = std::lower_bound(cells.begin(), cells.end(), cell);
  return at != cells.end() && *at == cell ? static_cast<std::size_t>(at - cells.begin()) : cells.size();
}

axis_split::axis_split(const grid_axis& axis) noexcept : axis_(axis) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (!axis.is_uniform() || axis.cells() == 0 || axis.extent() > kMost) return;
  const std::uint64_t length = axis.codec_length(0);
  if (length > 1 && length <= kMost) reciprocal_ = ~std::uint64_t{0} / length + 1;
}

template <class Point, class Number>
cell_groups group_by_cell(std::span<const Number> cell, std::span<const Number> in_cell, std::uint64_t cell_count,
                          std::vector<Point>& points) {
  const std::size_t count = cell.size();
  points.resize(count);
  const bool sorted = std::is_sorted(cell.begin(), cell.end());
  if (!sorted && cell_count <= std::max<std::uint64_t>(kMaxCounted, 2 * std::uint64_t{count}))
    return count_cells(cell, in_cell, cell_count, points);
  for (std::size_t i = 0; i < count; ++i) points[i] = make_point<Point>(in_cell[i], i);
  if (sorted) return groups_of_sorted(cell);
  std::vector<Number> keys(cell.begin(), cell.end());
  sort_by_digits(keys, cell_count, points);
  return groups_of_sorted(std::span<const Number>(keys));
}

template cell_groups group_by_cell(std::span<const std::uint32_t>, std::span<const std::uint32_t>, std::uint64_t,
                                   std::vector<cell_point>&);
template cell_groups group_by_cell(std::span<const std::uint64_t>, std::span<const std::uint64_t>, std::uint64_t,
                                   std::vector<cell_point>&);
template cell_groups group_by_cell(std::span<const std::uint64_t>, std::span<const std::uint64_t>, std::uint64_t,
                                   std::vector<wide_point>&);

}  // namespace penstock::inline v0
