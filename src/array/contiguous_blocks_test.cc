#include "array/contiguous_blocks.h"

#include <gtest/gtest.h>

#include <random>

namespace penstock::inline v0 {
namespace {

TEST(ContiguousBlocks, AreRowsOfAboutTheTargetsSize) {
  EXPECT_EQ(contiguous_block({1000, 256}, 4, storage_order::c, 10240), (extents{10, 256}));
  EXPECT_EQ(contiguous_block({1000, 256}, 4, storage_order::fortran, 10240), (extents{1000, 2}));
  EXPECT_EQ(contiguous_block({7, 5, 256}, 4, storage_order::c, 2048), (extents{1, 2, 256}));
  EXPECT_EQ(contiguous_block({3, 2}, 4, storage_order::c, 2048), (extents{3, 2}));
  EXPECT_EQ(contiguous_block({}, 4, storage_order::c, 2048), (extents{}));
}

TEST(ContiguousBlocks, HoldOneItemIfItemsAreLarge) {
  EXPECT_EQ(contiguous_block({3, 2}, 1U << 20, storage_order::c, 4096), (extents{1, 1}));
}

TEST(ContiguousBlocks, GrowWithTheArrayToLimitTheirNumber) {
  const extents shape{std::uint64_t{1} << 50};
  const extents block = contiguous_block(shape, 8, storage_order::c);
  EXPECT_LE(shape[0] / block[0], kMaxBlocks);
}

TEST(CutParts, KeepsCellsWithinTheirParts) {
  const std::vector<std::uint64_t> lengths{5, 0, 4, 1};
  const auto cuts = cut_parts(lengths, 2);
  ASSERT_TRUE(cuts.ok());
  EXPECT_EQ(cuts->edges, (std::vector<std::uint64_t>{0, 2, 4, 5, 7, 9, 10}));
  EXPECT_EQ(cuts->parts, (std::vector<std::uint32_t>{0, 0, 0, 2, 2, 3}));
}

TEST(CutParts, HalvesRestsThatHaveTooManyLengths) {
  std::mt19937 random(1);
  std::vector<std::uint64_t> lengths;
  for (int i = 0; i < 500; ++i) lengths.push_back(random() % 3000);
  const auto cuts = cut_parts(lengths, 1000, 10);
  ASSERT_TRUE(cuts.ok());
  std::uint64_t at = 0;
  std::size_t cell = 0;
  for (std::size_t part = 0; part < lengths.size(); ++part) {
    at += lengths[part];
    while (cell < cuts->parts.size() && cuts->parts[cell] == part) {
      const std::uint64_t length = cuts->edges[cell + 1] - cuts->edges[cell];
      EXPECT_TRUE(length == 1000 || (length & (length - 1)) == 0) << length;
      ++cell;
    }
    EXPECT_EQ(cuts->edges[cell], at);
  }
  EXPECT_EQ(cell, cuts->parts.size());
}

TEST(CutParts, RefusesMoreElementsThanCanBeCounted) {
  const std::vector<std::uint64_t> lengths{std::uint64_t{1} << 62, std::uint64_t{1} << 62};
  EXPECT_EQ(cut_parts(lengths, std::uint64_t{1} << 40).error().code(), errc::unsupported);
}

}  // namespace
}  // namespace penstock::inline v0
