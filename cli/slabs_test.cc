#include "slabs.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

namespace penstock::inline v0::cli {
namespace {

/// The positions along each dimension that the slabs visit, one after the other, resolved as a read resolves them.
std::vector<std::int64_t> visited(const std::vector<slab>& slabs, const extents& shape, std::size_t d) {
  std::vector<std::int64_t> positions;
  for (const slab& piece : slabs) {
    const auto resolved = resolve(piece.which, shape);
    EXPECT_TRUE(resolved.ok());
    EXPECT_EQ(resolved->shape, piece.shape);
    for (std::uint64_t i = 0; i < resolved->from[d].count; ++i) positions.push_back(resolved->from[d].at(i));
  }
  return positions;
}

std::vector<slab> cut(const char* selection, const extents& shape, const extents& chunks, std::uint64_t goal) {
  const auto which = parse_selection(selection);
  EXPECT_TRUE(which.ok());
  const auto resolved = resolve(*which, shape);
  EXPECT_TRUE(resolved.ok());
  slab_cutter cutter(*resolved, chunks, 1, goal);
  std::vector<slab> slabs;
  while (std::optional<slab> piece = cutter.next()) slabs.push_back(std::move(*piece));
  return slabs;
}

TEST(Slabs, VisitEveryRowOnceAndInOrder) {
  for (const char* selection : {"", "3:97", "97:3:-1", "::7", "::-7", "::-1", "5:6", "-1:0:-13"}) {
    const extents shape = {101, 5}, chunks = {10, 5};
    const auto resolved = resolve(*parse_selection(selection), shape);
    std::vector<std::int64_t> expected;
    for (std::uint64_t i = 0; i < resolved->from[0].count; ++i) expected.push_back(resolved->from[0].at(i));
    for (const std::uint64_t goal : {1, 60, 170, 100000}) {
      EXPECT_EQ(visited(cut(selection, shape, chunks, goal), shape, 0), expected) << selection << " " << goal;
    }
  }
}

TEST(Slabs, EndAtTheEndsOfChunks) {
  for (const char* selection : {"3:97", "97:2:-1"}) {
    const auto slabs = cut(selection, {100}, {10}, 25);
    ASSERT_EQ(slabs.size(), 5U) << selection;
    for (std::size_t i = 0; i + 1 < slabs.size(); ++i) {
      const auto here = resolve(slabs[i].which, {100}), next = resolve(slabs[i + 1].which, {100});
      EXPECT_NE(here->from[0].at(here->shape[0] - 1) / 10, next->from[0].at(0) / 10) << selection;
    }
  }
}

TEST(Slabs, CutTheFirstDimensionThatHasSeveralRows) {
  const auto slabs = cut("7", {10, 100}, {1, 10}, 20);
  ASSERT_EQ(slabs.size(), 5U);
  EXPECT_EQ(slabs[0].shape, (extents{1, 20}));
}

TEST(Slabs, AreOneForAScalarAndNoneForNothing) {
  EXPECT_EQ(cut("", {}, {}, 1).size(), 1U);
  EXPECT_EQ(cut("3, 4", {10, 10}, {5, 5}, 1).size(), 1U);
  EXPECT_TRUE(cut("5:5", {10, 10}, {5, 5}, 1).empty());
}

TEST(Slabs, AreMadeOneByOne) {
  const extents shape = {std::uint64_t{1} << 60};
  const auto resolved = resolve(basic_selection{}, shape);
  ASSERT_TRUE(resolved.ok());
  slab_cutter cutter(*resolved, {10}, 1, 25);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cutter.next()->shape, (extents{20})) << i;
}

}  // namespace
}  // namespace penstock::inline v0::cli
