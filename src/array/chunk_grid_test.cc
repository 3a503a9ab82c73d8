#include "array/chunk_grid.h"

#include <limits>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace penstock::inline v0 {
namespace {

TEST(GridAxis, CutsUniformCellsAtTheEdge) {
  const grid_axis axis = grid_axis::uniform(11, 4);
  EXPECT_EQ(axis.cells(), 3U);
  EXPECT_EQ(axis.origin(2), 8U);
  EXPECT_EQ(axis.codec_length(2), 4U) << "the codec decodes the whole cell";
  EXPECT_EQ(axis.valid_length(2), 3U);
  EXPECT_EQ(axis.cell_of(7), 1U);
  EXPECT_EQ(axis.cell_of(8), 2U);
  EXPECT_EQ(grid_axis::uniform(0, 4).cells(), 0U);
}

TEST(GridAxis, CutsAtListedEdges) {
  const auto axis = grid_axis::edges(11, {0, 2, 7, 13, 20});
  ASSERT_TRUE(axis.ok());
  EXPECT_FALSE(axis.value().is_uniform());
  EXPECT_EQ(axis.value().cells(), 3U) << "the cell from 13 on lies outside the array";
  EXPECT_EQ(axis.value().codec_length(2), 6U);
  EXPECT_EQ(axis.value().valid_length(2), 4U);
  EXPECT_EQ(axis.value().cell_of(1), 0U);
  EXPECT_EQ(axis.value().cell_of(2), 1U);
  EXPECT_EQ(axis.value().cell_of(10), 2U);
  EXPECT_EQ(grid_axis::edges(0, {0}).value().cells(), 0U);
  for (const auto& bad : std::vector<std::vector<std::uint64_t>>{{}, {1, 20}, {0, 5, 5, 20}, {0, 7, 3, 20}, {0, 10}}) {
    ASSERT_FALSE(grid_axis::edges(11, bad).ok());
    EXPECT_EQ(grid_axis::edges(11, bad).error().code(), errc::invalid_argument);
  }
}

TEST(GridAxis, CellsMayDecodeToMoreElementsThanTheyShow) {
  // Two arrays of 5 and 3 elements in cells of 4, one after the other.
  const auto axis = grid_axis::edges(8, {0, 4, 5, 8}, {4, 4, 4});
  ASSERT_TRUE(axis.ok());
  EXPECT_EQ(axis.value().codec_length(1), 4U);
  EXPECT_EQ(axis.value().valid_length(1), 1U);
  EXPECT_EQ(axis.value().valid_length(2), 3U);
  EXPECT_EQ(axis.value().cell_of(4), 1U);
  EXPECT_EQ(axis.value().cell_of(5), 2U);
  const chunk_grid grid = chunk_grid::make({axis.value()}).value();
  cell_region region;
  ASSERT_TRUE(intersect(grid, {1}, {{0, 1, 8}}, region));
  EXPECT_EQ(region.in_cell[0].count, 1U) << "what lies beyond the edge is the next array's";
  EXPECT_FALSE(region.covers_cell) << "the codec makes more than that";
  ASSERT_TRUE(intersect(grid, {0}, {{0, 1, 8}}, region));
  EXPECT_TRUE(region.covers_cell);
  cell_walk walk;
  std::vector<std::uint64_t> seen;
  for (walk.start(grid, {{0, 4, 2}}); !walk.done(); walk.next()) seen.push_back(walk.coordinates()[0]);
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{0, 1}));
  EXPECT_FALSE(grid_axis::edges(8, {0, 4, 8}, {4, 3}).ok()) << "a cell that decodes to less than it has";
  EXPECT_FALSE(grid_axis::edges(8, {0, 4, 8}, {4}).ok());
  EXPECT_EQ(grid_axis::edges(8, {0, 4, 8}, {4, 4}).value(), grid_axis::edges(8, {0, 4, 8}).value());
}

TEST(ChunkGrid, RefusesInvalidGrids) {
  EXPECT_EQ(chunk_grid::regular({4, 4}, {4}).error().code(), errc::invalid_argument);
  EXPECT_EQ(chunk_grid::regular({4}, {0}).error().code(), errc::invalid_argument);
  EXPECT_EQ(chunk_grid::regular({1ULL << 62, 4}, {1, 1}).error().code(), errc::unsupported);
  EXPECT_EQ(chunk_grid::regular({1ULL << 63}, {1}).error().code(), errc::unsupported);
  EXPECT_EQ(chunk_grid::regular({1}, {1ULL << 63}).error().code(), errc::unsupported);
  EXPECT_EQ(chunk_grid::regular({1ULL << 62, 2}, {1, 1}).value().cells(), 1ULL << 63);
  EXPECT_EQ(chunk_grid::regular({1ULL << 62, 1ULL << 62, 0}, {1, 1, 1}).value().cells(), 0U);
  EXPECT_EQ(chunk_grid::regular({}, {}).value().cells(), 1U);
}

TEST(ChunkGrid, NumbersCellsInCOrder) {
  const chunk_grid grid = chunk_grid::regular({7, 1, 11, 5}, {2, 3, 4, 5}).value();
  ASSERT_EQ(grid.cells(), 4U * 1 * 3 * 1);
  dim_vector<std::uint64_t> at;
  chunk_id expected = 0;
  for (std::uint64_t a = 0; a < 4; ++a) {
    for (std::uint64_t c = 0; c < 3; ++c, ++expected) {
      EXPECT_EQ(grid.id({a, 0, c, 0}), expected);
      grid.coordinates(expected, at);
      EXPECT_EQ(at, (dim_vector<std::uint64_t>{a, 0, c, 0}));
    }
  }
  const chunk_grid huge = chunk_grid::regular({1ULL << 40, 3000000000ULL}, {3, 700}).value();
  for (const chunk_id id : {chunk_id{0}, chunk_id{4285714}, chunk_id{4285715}, huge.cells() - 1}) {
    huge.coordinates(id, at);
    EXPECT_EQ(huge.id(at), id);
  }
}

struct scene {
  chunk_grid grid;
  strided_box selection;
};

scene random_scene(std::mt19937_64& random) {
  const std::size_t rank = random() % 7;
  const std::uint64_t most = rank <= 2 ? 60 : rank <= 4 ? 11 : 5;
  std::vector<grid_axis> axes;
  scene out;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::uint64_t extent = random() % 12 == 0 ? random() % 2 : 1 + random() % most;
    if (random() % 2 == 0) {
      constexpr std::uint64_t kCells[] = {1, 2, 3, 5, 7, 11, 13, 64};
      axes.push_back(grid_axis::uniform(extent, kCells[random() % 8]));
    } else {
      std::vector<std::uint64_t> edges{0};
      while (edges.back() < extent || random() % 4 == 0) edges.push_back(edges.back() + 1 + random() % 7);
      axes.push_back(std::move(grid_axis::edges(extent, std::move(edges))).value());
    }
    axis_range range{0, 1, 0};
    if (extent != 0 && random() % 20 != 0) {
      // Any start, then as many steps of any sign as fit.
      range.start = static_cast<std::int64_t>(random() % extent);
      range.step = static_cast<std::int64_t>(1 + random() % (random() % 3 == 0 ? 17 : 3));
      if (random() % 3 == 0) range.step = -range.step;
      const std::uint64_t room = range.step > 0 ? extent - 1 - static_cast<std::uint64_t>(range.start)
                                                : static_cast<std::uint64_t>(range.start);
      const std::uint64_t fit = room / static_cast<std::uint64_t>(range.step > 0 ? range.step : -range.step) + 1;
      range.count = 1 + random() % fit;
      if (random() % 3 == 0) range.count = fit;
      if (random() % 5 == 0) range = {0, 1, extent};
    }
    out.selection.push_back(range);
  }
  out.grid = std::move(chunk_grid::make(std::move(axes))).value();
  return out;
}

// Cells of one dimension and the selection's elements in each, found by testing every element.
std::map<std::uint64_t, std::vector<std::uint64_t>> slow_cells(const grid_axis& axis, const axis_range& range) {
  std::map<std::uint64_t, std::vector<std::uint64_t>> out;
  for (std::uint64_t i = 0; i < range.count; ++i) {
    const auto at = static_cast<std::uint64_t>(range.at(i));
    std::uint64_t cell = 0;
    while (at >= axis.origin(cell) + axis.codec_length(cell)) ++cell;
    out[cell].push_back(i);
  }
  return out;
}

TEST(CellWalk, VisitsEachTouchedCellOnceInCOrder) {
  std::mt19937_64 random(4);
  cell_walk walk;
  for (int i = 0; i < 8000; ++i) {
    const scene each = random_scene(random);
    const std::size_t rank = each.grid.rank();
    std::vector<std::vector<std::uint64_t>> cells(rank);
    std::uint64_t total = 1;
    for (std::size_t d = 0; d < rank; ++d) {
      for (const auto& cell : slow_cells(each.grid.axis(d), each.selection[d])) cells[d].push_back(cell.first);
      total *= cells[d].size();
    }
    walk.start(each.grid, each.selection);
    ASSERT_EQ(walk.total(), total);
    for (std::uint64_t n = 0; n < total; ++n, walk.next()) {
      ASSERT_FALSE(walk.done());
      std::uint64_t rest = n;
      for (std::size_t d = rank; d-- > 0;) {
        ASSERT_EQ(walk.coordinates()[d], cells[d][rest % cells[d].size()]) << "dimension " << d << ", cell " << n;
        rest /= cells[d].size();
      }
    }
    ASSERT_TRUE(walk.done());
  }
}

TEST(Intersect, FindsExactlyTheElementsOfTheCell) {
  std::mt19937_64 random(5);
  cell_region region;
  for (int i = 0; i < 8000; ++i) {
    const scene each = random_scene(random);
    const std::size_t rank = each.grid.rank();
    if (each.grid.cells() == 0) continue;
    for (int cell = 0; cell < 12; ++cell) {
      dim_vector<std::uint64_t> at;
      each.grid.coordinates(random() % each.grid.cells(), at);
      bool touched = true, covers = true;
      std::vector<std::vector<std::uint64_t>> elements(rank);
      for (std::size_t d = 0; d < rank; ++d) {
        elements[d] = slow_cells(each.grid.axis(d), each.selection[d])[at[d]];
        touched = touched && !elements[d].empty();
        covers = covers && elements[d].size() == each.grid.axis(d).codec_length(at[d]) &&
                 (elements[d].size() == 1 || each.selection[d].step == 1);
      }
      ASSERT_EQ(intersect(each.grid, at, each.selection, region), touched);
      if (!touched) continue;
      ASSERT_EQ(region.covers_cell, covers);
      for (std::size_t d = 0; d < rank; ++d) {
        ASSERT_EQ(region.in_result[d], elements[d].front());
        ASSERT_EQ(region.in_cell[d].count, elements[d].size());
        for (std::uint64_t k = 0; k < elements[d].size(); ++k) {
          ASSERT_EQ(elements[d][k], elements[d].front() + k);
          ASSERT_EQ(region.in_cell[d].at(k) + static_cast<std::int64_t>(each.grid.axis(d).origin(at[d])),
                    each.selection[d].at(elements[d][k]));
        }
      }
    }
  }
}

TEST(CellWalk, BeginsAHugeWalkAtOnce) {
  const std::uint64_t side = std::uint64_t{1} << 31;
  const chunk_grid grid = chunk_grid::regular({side, side}, {1, 1}).value();
  cell_walk walk;
  walk.start(grid, {{0, 1, side}, {0, 1, side}});
  EXPECT_EQ(walk.total(), std::uint64_t{1} << 62);
  for (int i = 0; i < 5; ++i) walk.next();
  EXPECT_EQ(walk.coordinates(), (dim_vector<std::uint64_t>{0, 5}));
}

TEST(CellWalk, SkipsOverTheLargestDimension) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  const chunk_grid grid = chunk_grid::regular({static_cast<std::uint64_t>(kMost)}, {1000}).value();
  cell_walk walk;
  walk.start(grid, {{kMost - 1, -(kMost - 1), 2}});
  EXPECT_EQ(walk.total(), 2U);
  EXPECT_EQ(walk.coordinates()[0], 0U);
  walk.next();
  EXPECT_EQ(walk.coordinates()[0], grid.cells() - 1);
  cell_region region;
  ASSERT_TRUE(intersect(grid, walk.coordinates(), {{kMost - 1, -(kMost - 1), 2}}, region));
  EXPECT_EQ(region.in_result[0], 0U);
  EXPECT_EQ(region.in_cell[0].start, (kMost - 1) % 1000);
  walk.next();
  EXPECT_TRUE(walk.done());
}

}  // namespace
}  // namespace penstock::inline v0
