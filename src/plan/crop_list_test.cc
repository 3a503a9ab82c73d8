#include "plan/crop_list.h"

#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "plan/placement.h"

namespace penstock::inline v0 {
namespace {

axis_range random_range(std::mt19937_64& random, std::uint64_t length) {
  const auto count = 1 + random() % length;
  const auto most = count == 1 ? std::int64_t{3} : static_cast<std::int64_t>((length - 1) / (count - 1));
  auto step = 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  const std::uint64_t span = (count - 1) * static_cast<std::uint64_t>(step);
  auto start = static_cast<std::int64_t>(random() % (length - std::min<std::uint64_t>(span, length - 1)));
  if (random() % 3 == 0) {
    start += static_cast<std::int64_t>(span);
    step = -step;
  }
  return {start, step, count};
}

// Each element of each box is placed once, at its own destination.
TEST(CropList, PlacesEveryElementOfEveryBoxOnce) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 60; ++round) {
    const std::size_t rank = 1 + random() % 3;
    extents shape, chunk;
    for (std::size_t d = 0; d < rank; ++d) {
      shape.push_back(1 + random() % 17);
      chunk.push_back(1 + random() % 6);
    }
    const chunk_grid grid = chunk_grid::regular(shape, chunk).value();
    std::map<std::int64_t, std::vector<std::int64_t>> expected;  // by offset in the target: the element
    std::vector<crop> crops;
    std::int64_t end = 0;
    for (std::uint64_t i = 0; i < 1 + random() % 5; ++i) {
      crop one;
      extents counts;
      for (std::size_t d = 0; d < rank; ++d) {
        one.from.push_back(random_range(random, shape[d]));
        counts.push_back(one.from[d].count);
      }
      one.offset = end;
      one.to_strides = c_order_strides(counts, 1);
      std::vector<std::uint64_t> at(rank, 0);
      for (bool more = true; more;) {
        std::vector<std::int64_t> element;
        std::int64_t offset = one.offset;
        for (std::size_t d = 0; d < rank; ++d) {
          element.push_back(one.from[d].start + static_cast<std::int64_t>(at[d]) * one.from[d].step);
          offset += static_cast<std::int64_t>(at[d]) * one.to_strides[d];
        }
        expected[offset] = element;
        ++end;
        more = false;
        for (std::size_t d = rank; d-- > 0 && !more;) {
          more = ++at[d] < counts[d];
          if (!more) at[d] = 0;
        }
      }
      crops.push_back(std::move(one));
    }
    const crop_list list(grid, crops);
    source from;
    from.indexed = &list;
    std::map<std::int64_t, std::vector<std::int64_t>> placed;
    placement where;
    for (std::uint64_t i = 0; i < list.cells(); ++i) {
      const cell_id cell = list.cell(i);
      if (i != 0) {
        ASSERT_LT(list.cell(i - 1), cell);
      }
      dim_vector<std::uint64_t> coordinates;
      grid.coordinates(cell, coordinates);
      ASSERT_GE(places_of(from, cell), 1U);
      if (places_of(from, cell) > 1) {
        ASSERT_TRUE(place_cell(from, cell, where));
        EXPECT_FALSE(where.target.covers_cell);
      }
      for (std::size_t which = 0; which < places_of(from, cell); ++which) {
        ASSERT_TRUE(place_cell(from, cell, which, where));
        std::vector<std::uint64_t> at(rank, 0);
        for (bool more = true; more;) {
          std::vector<std::int64_t> element;
          std::int64_t offset = where.offset;
          for (std::size_t d = 0; d < rank; ++d) {
            const axis_range& part = where.region.in_cell[d];
            element.push_back(static_cast<std::int64_t>(coordinates[d] * chunk[d]) + part.start +
                              static_cast<std::int64_t>(at[d]) * part.step);
            offset += static_cast<std::int64_t>(at[d]) * where.target.strides[d];
          }
          ASSERT_TRUE(placed.emplace(offset, element).second);
          more = false;
          for (std::size_t d = rank; d-- > 0 && !more;) {
            more = ++at[d] < where.counts[d];
            if (!more) at[d] = 0;
          }
        }
      }
    }
    ASSERT_EQ(placed, expected);
  }
}

TEST(CropList, NamesOnlyNeededCells) {
  const chunk_grid grid = chunk_grid::regular(extents{100}, extents{10}).value();
  crop one;
  one.from.push_back({25, 1, 10});
  one.to_strides.push_back(1);
  const crop_list list(grid, {one, one});
  ASSERT_EQ(list.cells(), 2U);
  EXPECT_EQ(list.cell(0), 2U);
  EXPECT_EQ(list.cell(1), 3U);
  EXPECT_EQ(list.places(3), 2U);
  EXPECT_EQ(list.places(4), 0U);
  source from;
  from.indexed = &list;
  placement where;
  EXPECT_FALSE(place_cell(from, 4, where));
}

}  // namespace
}  // namespace penstock::inline v0
