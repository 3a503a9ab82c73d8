#include "plan/rechunk_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "plan/random.h"

namespace penstock::inline v0 {
namespace {

chunk_grid regular(const extents& shape, const extents& chunk) { return chunk_grid::regular(shape, chunk).value(); }

std::uint64_t elements(const box& of) {
  std::uint64_t out = 1;
  for (const std::uint64_t length : of.size) out *= length;
  return out;
}

/// Executes a plan on numbers: how often chunks are decoded and objects written, and the incomplete blocks.
struct simulation {
  std::map<chunk_id, int> decoded, written;
  std::uint64_t most_waiting = 0;  ///< bytes of incomplete blocks

  simulation(const rechunk_plan& plan, const chunk_grid& from, const chunk_grid& to, std::uint64_t item_bytes) {
    std::map<chunk_id, std::uint64_t> has;
    std::uint64_t waiting = 0;
    for (std::uint64_t n = 0; n < plan.reads.cells(); ++n) {
      const box block = box_of(plan.reads, nth_block(plan.reads, plan.slowest, n));
      for_each_part(from, block, [&](chunk_id id, const box& piece) {
        ++decoded[id];
        EXPECT_EQ(elements(piece), elements(box_of(from, id)));  // whole chunks
      });
      for_each_part(plan.writes, block, [&](chunk_id id, const box& piece) {
        const std::uint64_t all = elements(box_of(plan.writes, id));
        if (has[id] == 0) waiting += all * item_bytes;
        most_waiting = std::max(most_waiting, waiting);
        has[id] += elements(piece);
        if (has[id] == all) waiting -= all * item_bytes;
      });
    }
    for (std::uint64_t id = 0; id < plan.writes.cells(); ++id) {
      const box block = box_of(plan.writes, id);
      EXPECT_EQ(has[id], elements(block));
      for_each_part(to, block, [&](chunk_id object, const box& piece) {
        ++written[object];
        EXPECT_EQ(elements(piece), elements(box_of(to, object)));
      });
    }
  }
};

TEST(RechunkPlan, DecodesAndWritesEverythingOnceForAnyPairOfGrids) {
  seeded_numbers draw(1);
  std::map<rechunk_way, int> ways;
  for (int round = 0; round < 500; ++round) {
    const std::uint64_t rank = round % 5 == 0 ? 2 : 1 + draw.below(4);
    extents shape, chunk, object;
    if (round % 5 == 0) {  // slabs whose lengths share no divisor
      shape = {400, rank};
      chunk = {3 + draw.below(11), rank};
      object = {3 + draw.below(11), rank};
    }
    for (std::uint64_t d = shape.size(); d < rank; ++d) {
      shape.push_back(1 + draw.below(rank > 2 ? 24 : 60));
      chunk.push_back(1 + draw.below(draw.below(3) == 0 ? shape[d] + 3 : shape[d] / 4 + 2));
      object.push_back(1 + draw.below(draw.below(3) == 0 ? shape[d] + 3 : shape[d] / 4 + 2));
    }
    const chunk_grid from = regular(shape, chunk), to = regular(shape, object);
    const std::uint64_t item = 1 + draw.below(8);
    const std::uint64_t all = *element_count(shape) * item;
    const std::uint64_t memory =
        round % 5 == 0 ? (60 + draw.below(120)) * item : 1 + draw.below(all) / (1 + draw.below(10));
    rechunk_request what{from, to, item, memory, static_cast<unsigned>(1 + draw.below(4))};
    auto plan = plan_rechunk(what);
    if (!plan.ok()) {
      EXPECT_EQ(plan.error().code(), errc::invalid_argument);
      what.memory_bytes = 4 * all;  // that is always enough
      plan = plan_rechunk(what);
    }
    ASSERT_TRUE(plan.ok()) << plan.error().to_string();
    ++ways[plan->way];
    EXPECT_LE(plan->memory_bytes, what.memory_bytes);
    EXPECT_GE(plan->workers, 1u);
    const simulation done(*plan, from, to, item);
    EXPECT_EQ(done.decoded.size(), from.cells());
    EXPECT_EQ(done.written.size(), to.cells());
    for (const auto& [id, times] : done.decoded) EXPECT_EQ(times, 1);
    for (const auto& [id, times] : done.written) EXPECT_EQ(times, 1);
    if (plan->way == rechunk_way::gathered) {
      EXPECT_LE(done.most_waiting, what.memory_bytes);
    }
    EXPECT_EQ(plan->file_bytes, plan->way == rechunk_way::spilled ? all : 0);
  }
  EXPECT_GT(ways[rechunk_way::direct], 50);
  EXPECT_GT(ways[rechunk_way::gathered], 10);
  EXPECT_GT(ways[rechunk_way::spilled], 20);
}

TEST(RechunkPlan, TimeSeriesOfMapsNeedAFileAndMapsOfBlocksDoNot) {
  const extents shape{8760, 721, 1440};
  const chunk_grid maps = regular(shape, {1, 721, 1440}), series = regular(shape, {8760, 16, 16});
  rechunk_request what{maps, series, 4, std::uint64_t{2} << 30, 2};
  const auto plan = plan_rechunk(what);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->way, rechunk_way::spilled);
  EXPECT_LE(plan->memory_bytes, what.memory_bytes);
  // Parts in the file are long.
  std::uint64_t parts = 0;
  for (std::uint64_t n = 0; n < plan->reads.cells(); ++n)
    for_each_part(plan->writes, box_of(plan->reads, n), [&](chunk_id, const box&) { ++parts; });
  EXPECT_GT(plan->file_bytes / parts, std::uint64_t{1} << 20);

  const chunk_grid blocks = regular(shape, {24, 103, 160});
  const auto direct = plan_rechunk({maps, blocks, 4, std::uint64_t{2} << 30, 2});
  ASSERT_TRUE(direct.ok());
  EXPECT_EQ(direct->way, rechunk_way::direct);
  // 7 and 10 rows share edges every 70; blocks of 10 wait for the rest instead.
  const auto gathered =
      plan_rechunk({regular(shape, {7, 721, 1440}), regular(shape, {10, 721, 1440}), 4, std::uint64_t{250} << 20, 1});
  ASSERT_TRUE(gathered.ok()) << gathered.error().to_string();
  EXPECT_EQ(gathered->way, rechunk_way::gathered);
}

TEST(RechunkPlan, CellsOfAnyLength) {
  seeded_numbers draw(3);
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t extent = 1 + draw.below(50);
    std::vector<std::uint64_t> edges{0};
    while (edges.back() < extent) edges.push_back(std::min(extent, edges.back() + 1 + draw.below(9)));
    const chunk_grid from = chunk_grid::make({grid_axis::edges(extent, edges).value()}).value();
    const chunk_grid to = regular({extent}, {1 + draw.below(extent)});
    const auto plan = plan_rechunk({from, to, 1, 20 + draw.below(4 * extent), 2});
    if (!plan.ok()) continue;
    const simulation done(*plan, from, to, 1);
    for (const auto& [id, times] : done.decoded) EXPECT_EQ(times, 1);
    for (const auto& [id, times] : done.written) EXPECT_EQ(times, 1);
  }
}

TEST(RechunkPlan, ReportsTheMemoryThatIsNeeded) {
  const chunk_grid from = regular({100, 100}, {1, 100}), to = regular({100, 100}, {100, 1});
  const auto plan = plan_rechunk({from, to, 4, 1000, 1});
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().message().find("need 1600"), std::string::npos) << plan.error().message();
  EXPECT_TRUE(plan_rechunk({from, to, 4, 1600, 1}).ok());
}

}  // namespace
}  // namespace penstock::inline v0
