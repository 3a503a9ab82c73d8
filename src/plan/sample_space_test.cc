#include "plan/sample_space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "plan/epoch_order.h"
#include "plan/random.h"

namespace penstock::inline v0 {
namespace {

sample_axis axis_of(std::uint64_t extent, std::uint64_t crop, std::uint64_t stride, std::uint64_t block,
                    std::uint64_t before = 0, std::uint64_t after = 0) {
  sample_axis out;
  out.extent = extent;
  out.crop = crop;
  out.stride = stride;
  out.block = block;
  out.before = before;
  out.after = after;
  return out;
}

std::uint64_t block_at(const sample_axis& of, std::int64_t origin) {
  const std::int64_t last = static_cast<std::int64_t>(of.extent) - 1;
  return static_cast<std::uint64_t>(std::clamp<std::int64_t>(origin, 0, last)) / of.block;
}

// Every sample is in one block, and begins in it.
void expect_blocks_hold_all_samples(const sample_space& of) {
  const std::size_t rank = of.axes().size();
  std::vector<std::int64_t> origin(rank);
  std::set<std::uint64_t> seen;
  std::set<std::vector<std::uint64_t>> blocks;
  for (std::uint64_t block = 0; block < of.blocks(); ++block) {
    std::vector<std::uint64_t> members;
    of.samples_of(block, members);
    EXPECT_EQ(members.size(), of.samples_in(block));
    ASSERT_FALSE(members.empty());
    EXPECT_TRUE(std::is_sorted(members.begin(), members.end()));
    std::set<std::vector<std::uint64_t>> of_members;
    for (const std::uint64_t each : members) {
      ASSERT_LT(each, of.samples());
      EXPECT_TRUE(seen.insert(each).second);
      of.origin(each, origin);
      std::vector<std::uint64_t> at;
      for (std::size_t a = 0; a < rank; ++a) {
        const sample_axis& axis = of.axes()[a];
        EXPECT_GE(origin[a], -static_cast<std::int64_t>(axis.before));
        EXPECT_LE(origin[a] + static_cast<std::int64_t>(axis.crop),
                  static_cast<std::int64_t>(axis.extent + axis.after));
        at.push_back(block_at(axis, origin[a]));
      }
      of_members.insert(at);
    }
    EXPECT_EQ(of_members.size(), 1u);
    EXPECT_TRUE(blocks.insert(*of_members.begin()).second);
  }
  EXPECT_EQ(seen.size(), of.samples());
}

TEST(SampleSpace, SamplesOfAGridAreEquallySpaced) {
  const auto of = sample_space::grid({axis_of(10, 3, 2, 4), axis_of(5, 5, 1, 5)});
  ASSERT_TRUE(of.ok());
  EXPECT_EQ(of->samples(), 4u);  // at 0, 2, 4, 6
  std::vector<std::int64_t> origin(2);
  of->origin(3, origin);
  EXPECT_EQ(origin, (std::vector<std::int64_t>{6, 0}));
  EXPECT_EQ(of->blocks(), 2u);
}

TEST(SampleSpace, PaddingAllowsSamplesBeyondTheEnds) {
  const auto of = sample_space::grid({axis_of(4, 3, 3, 2, 1, 1)});
  ASSERT_TRUE(of.ok());
  EXPECT_EQ(of->samples(), 2u);
  std::vector<std::int64_t> origin(1);
  of->origin(0, origin);
  EXPECT_EQ(origin[0], -1);
  of->origin(1, origin);
  EXPECT_EQ(origin[0], 2);
}

TEST(SampleSpace, EverySampleIsInTheBlockWhereItBegins) {
  seeded_numbers draw(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<sample_axis> axes;
    const std::uint64_t rank = 1 + draw.below(3);
    for (std::uint64_t a = 0; a < rank; ++a) {
      const std::uint64_t extent = 1 + draw.below(20), before = draw.below(3), after = draw.below(3);
      axes.push_back(axis_of(extent, 1 + draw.below(extent + before + after), 1 + draw.below(6), 1 + draw.below(9),
                             before, after));
    }
    const auto grid = sample_space::grid(axes);
    ASSERT_TRUE(grid.ok());
    expect_blocks_hold_all_samples(*grid);
    const auto random = sample_space::random(axes, draw.below(60), draw());
    ASSERT_TRUE(random.ok());
    expect_blocks_hold_all_samples(*random);
    std::vector<std::int64_t> origins, origin(axes.size());
    for (std::uint64_t i = 0; i < random->samples(); ++i) {
      random->origin(i, origin);
      origins.insert(origins.end(), origin.begin(), origin.end());
    }
    const auto listed = sample_space::listed(axes, origins);
    ASSERT_TRUE(listed.ok());
    expect_blocks_hold_all_samples(*listed);
    for (std::size_t a = 0; a < axes.size(); ++a) {
      for (std::uint64_t i = 0; i < grid->samples(); ++i) {
        grid->origin(i, origin);
        const std::uint64_t length = axes[a].block;
        const std::int64_t last =
            std::min(origin[a] + static_cast<std::int64_t>(axes[a].crop), static_cast<std::int64_t>(axes[a].extent));
        const std::int64_t first = std::max<std::int64_t>(origin[a], 0);
        if (last <= first) continue;
        const std::uint64_t covered =
            static_cast<std::uint64_t>(last - 1) / length - static_cast<std::uint64_t>(first) / length + 1;
        EXPECT_LE(covered, sample_space::most_blocks(axes[a], length));
      }
    }
  }
}

TEST(SampleSpace, RefusesCropsThatFitNowhere) {
  EXPECT_FALSE(sample_space::grid({}).ok());
  EXPECT_FALSE(sample_space::grid({axis_of(4, 5, 1, 1)}).ok());
  EXPECT_FALSE(sample_space::grid({axis_of(4, 0, 1, 1)}).ok());
  EXPECT_FALSE(sample_space::listed({axis_of(4, 2, 1, 1)}, {3}).ok());
  EXPECT_FALSE(sample_space::listed({axis_of(4, 2, 1, 1)}, {-1}).ok());
  EXPECT_TRUE(sample_space::listed({axis_of(4, 2, 1, 1)}, {2, 0}).ok());
}

std::vector<std::uint64_t> sorted(std::vector<std::uint64_t> of) {
  std::sort(of.begin(), of.end());
  return of;
}

TEST(EpochOrder, HasEverySampleOnceForAnyOptions) {
  seeded_numbers draw(2);
  for (int round = 0; round < 300; ++round) {
    const auto of = sample_space::grid({axis_of(1 + draw.below(200), 1, 1, 1 + draw.below(20))});
    ASSERT_TRUE(of.ok());
    epoch_options options;
    options.seed = draw();
    options.batch = 1 + draw.below(12);
    options.lanes = std::uint64_t{1} << draw.below(4);
    options.open_blocks = 1 + draw.below(5);
    const auto order = epoch_order(*of, options);
    std::vector<std::uint64_t> all(of->samples());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    ASSERT_EQ(sorted(order), all);
    EXPECT_EQ(order, epoch_order(*of, options));
    ++options.epoch;
    if (of->samples() > 50) {
      EXPECT_NE(order, epoch_order(*of, options));
    }
    options.shuffle = false;
    EXPECT_EQ(epoch_order(*of, options), all);
  }
}

// Samples are from few blocks at a time, and ranks that share the lanes share no block before the lanes' ends.
TEST(EpochOrder, ALaneDrawsFromItsOpenBlocksOnly) {
  const auto of = sample_space::grid({axis_of(1600, 1, 1, 10)});
  ASSERT_TRUE(of.ok());
  epoch_options options;
  options.batch = 5;
  options.lanes = 4;
  options.open_blocks = 3;
  const auto order = epoch_order(*of, options);
  std::vector<std::set<std::uint64_t>> of_lane(4);
  for (std::uint64_t lane = 0; lane < 4; ++lane) {
    std::vector<std::uint64_t> mine;
    for (std::size_t i = 0; i < order.size(); ++i)
      if (i / options.batch % 4 == lane) mine.push_back(order[i]);
    std::set<std::uint64_t> open, closed;
    std::vector<std::uint64_t> left(160, 10);
    for (const std::uint64_t sample : mine) {
      const std::uint64_t block = sample / 10;
      of_lane[lane].insert(block);
      EXPECT_FALSE(closed.contains(block));
      open.insert(block);
      EXPECT_LE(open.size(), 3u);
      if (--left[block] == 0) {
        open.erase(block);
        closed.insert(block);
      }
    }
    EXPECT_EQ(closed.size(), 40u);
  }
  for (std::size_t a = 0; a < 4; ++a)
    for (std::size_t b = 0; b < a; ++b)
      for (const std::uint64_t block : of_lane[a]) EXPECT_FALSE(of_lane[b].contains(block));
}

// Each sample is equally likely at every position that the window allows: the mean position of all is that of a random
// order.
TEST(EpochOrder, MixesAllBlocksIfTheWindowHoldsThem) {
  const auto of = sample_space::grid({axis_of(64, 1, 1, 8)});
  ASSERT_TRUE(of.ok());
  std::vector<double> place(64, 0);
  constexpr int kEpochs = 4000;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    epoch_options options;
    options.epoch = static_cast<std::uint64_t>(epoch);
    options.batch = 4;
    options.open_blocks = 8;
    const auto order = epoch_order(*of, options);
    for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] += static_cast<double>(i) / kEpochs;
  }
  for (const double mean : place) EXPECT_NEAR(mean, 31.5, 1.5);  // five standard deviations
}

TEST(SeededNumbers, AreTheSameOnEveryMachine) {
  seeded_numbers draw(0);
  EXPECT_EQ(draw(), 0xe220a8397b1dcdafULL);  // SplitMix64's published first numbers
  EXPECT_EQ(draw(), 0x6e789e6aa1b965f4ULL);
}

}  // namespace
}  // namespace penstock::inline v0
