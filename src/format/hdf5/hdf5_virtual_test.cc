#include "format/hdf5/hdf5_virtual.h"

#include <gtest/gtest.h>
#include <penstock/store.h>

#include <vector>

namespace penstock::inline v0 {
namespace {

using axis = hdf5_selection::axis;
using shape = std::vector<std::uint64_t>;

constexpr std::uint64_t kNoLimit = byte_range::kAll;

hdf5_selection regular(std::vector<axis> axes) {
  hdf5_selection out;
  out.what = hdf5_selection::kind::regular;
  out.rank = axes.size();
  out.axes = std::move(axes);
  return out;
}

hdf5_selection listed(hdf5_selection::kind what, std::size_t rank, shape corners) {
  hdf5_selection out;
  out.what = what;
  out.rank = rank;
  out.corners = std::move(corners);
  return out;
}

axis box(std::uint64_t start, std::uint64_t count) { return {start, 1, 1, count}; }

TEST(Hdf5Virtual, PairsDimensionsOfMoreThanOnePosition) {
  // An image of one stack as an image of another, whose dimension of one position is a different one.
  const auto made = match_hdf5_selections(regular({box(3, 1), box(0, 4), box(2, 5)}), shape{9, 4, 7},
                                          regular({box(1, 4), box(6, 1), box(0, 5)}), shape{5, 8, 5});
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  ASSERT_EQ(made->size(), 1U);
  const hdf5_part& part = made->front();
  EXPECT_EQ(part.origin, (shape{1, 6, 0}));
  EXPECT_EQ(part.axes, (std::vector<std::optional<std::size_t>>{std::nullopt, 0, 2}));
  EXPECT_EQ(part.runs[0], (std::vector<hdf5_run>{{3, 0, 1}}));
  EXPECT_EQ(part.runs[1], (std::vector<hdf5_run>{{0, 1, 4}}));
  EXPECT_EQ(part.runs[2], (std::vector<hdf5_run>{{2, 0, 5}}));
}

TEST(Hdf5Virtual, CutsRunsWhereABlockOfEitherSideEnds) {
  const auto made = match_hdf5_selections(regular({{0, 4, 3, 2}}), shape{10}, regular({{1, 5, 2, 3}}), shape{9});
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  EXPECT_EQ(made->front().runs[0], (std::vector<hdf5_run>{{0, 1, 2}, {4, 3, 1}, {5, 6, 1}, {8, 7, 2}}));
}

TEST(Hdf5Virtual, OtherShapesArePairedRowByRow) {
  const auto made =
      match_hdf5_selections(regular({box(0, 2), box(1, 3)}), shape{2, 5}, regular({box(4, 6)}), shape{20});
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  ASSERT_EQ(made->size(), 2U);
  EXPECT_EQ((*made)[1].origin, (shape{7}));
  EXPECT_EQ((*made)[1].runs[0], (std::vector<hdf5_run>{{1, 0, 1}}));
  EXPECT_EQ((*made)[1].runs[1], (std::vector<hdf5_run>{{1, 7, 3}}));
}

TEST(Hdf5Virtual, OrdersElementsOfSeveralBoxesByRow) {
  // Two adjacent boxes: their rows alternate, whatever the order of the list.
  const auto boxes = listed(hdf5_selection::kind::boxes, 2, {0, 3, 1, 4, 0, 0, 1, 0});
  const auto made = match_hdf5_selections(regular({box(0, 6)}), shape{6}, boxes, shape{2, 5});
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  std::vector<shape> origins;
  for (const hdf5_part& each : *made) origins.push_back(each.origin);
  EXPECT_EQ(origins, (std::vector<shape>{{0, 0}, {0, 3}, {1, 0}, {1, 3}}));
}

TEST(Hdf5Virtual, RefusesSelectionsThatDoNotMatch) {
  const auto code = [](const auto& made) { return made.ok() ? errc::internal : made.error().code(); };
  EXPECT_EQ(code(match_hdf5_selections(regular({box(0, 3)}), shape{3}, regular({box(0, 4)}), shape{4})),
            errc::corrupt_data);
  EXPECT_EQ(code(match_hdf5_selections(regular({box(1, 3)}), shape{3}, regular({box(0, 3)}), shape{4})),
            errc::corrupt_data);
  EXPECT_EQ(code(match_hdf5_selections(regular({box(0, 3)}), shape{3, 3}, regular({box(0, 3)}), shape{4})),
            errc::corrupt_data);
  EXPECT_EQ(code(match_hdf5_selections(regular({{0, 1, 2, 2}}), shape{9}, regular({box(0, 4)}), shape{4})),
            errc::corrupt_data);
  EXPECT_EQ(code(match_hdf5_selections(regular({{0, 2, std::uint64_t{1} << 30, 1}}), shape{std::uint64_t{1} << 32},
                                       regular({box(0, std::uint64_t{1} << 30)}), shape{std::uint64_t{1} << 30})),
            errc::unsupported);
}

TEST(Hdf5Virtual, APatternWithoutALimitEndsWithItsSource) {
  const axis frames{1, 5, kNoLimit, 2}, all{3, 1, 1, kNoLimit};
  EXPECT_EQ(hdf5_positions_below(frames, 1), 0U);
  EXPECT_EQ(hdf5_positions_below(frames, 7), 3U);
  EXPECT_EQ(hdf5_positions_below(frames, 11), 4U);
  EXPECT_EQ(hdf5_positions_below(all, 11), 8U);
  EXPECT_EQ(hdf5_extent_for(frames, 0), 0U);
  EXPECT_EQ(hdf5_extent_for(frames, 3), 7U);
  EXPECT_EQ(hdf5_extent_for(frames, 4), 8U);
  EXPECT_EQ(hdf5_extent_for(all, 8), 11U);
  const auto made = match_hdf5_selections(limit_hdf5_selection(regular({frames}), 0, 3), shape{7},
                                          limit_hdf5_selection(regular({all}), 0, 3), shape{6});
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  EXPECT_EQ(made->front().runs[0], (std::vector<hdf5_run>{{1, 3, 2}, {6, 5, 1}}));
}

TEST(Hdf5Virtual, NamesOfBlocks) {
  EXPECT_TRUE(is_hdf5_pattern("f-%b.h5"));
  EXPECT_FALSE(is_hdf5_pattern("f-%%b.h5"));
  EXPECT_EQ(hdf5_block_name("%%f-%b-%b.h5%", 12), "%f-12-12.h5%");
}

}  // namespace
}  // namespace penstock::inline v0
