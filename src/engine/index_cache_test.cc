#include "engine/index_cache.h"

#include <gtest/gtest.h>

#include "engine/index_io.h"

namespace penstock::inline v0 {
namespace {

TEST(IndexCache, DropsOnlyTheGivenEntriesOfOneArray) {
  ledger accounts{1 << 20, 0};
  index_cache indexes(accounts);
  const auto has = [&](std::uint64_t uid, const index_key& key) {
    index_entry out;
    return indexes.find(uid, key, out);
  };
  for (std::uint64_t turn = 0; turn < 3; ++turn)  // entries of both arrays mixed; those of the second turn replace
    for (const std::uint64_t uid : {1, 2})
      for (const std::uint64_t node : {0, 1}) indexes.insert(uid, {turn % 2, node}, {});
  indexes.drop(1, 0);
  indexes.drop(3, 0);
  for (const std::uint64_t node : {0, 1}) {
    EXPECT_FALSE(has(1, {0, node}));
    EXPECT_TRUE(has(1, {1, node}));
    EXPECT_TRUE(has(2, {0, node}));
  }
  indexes.drop_all(1);
  indexes.drop_all(1);
  EXPECT_FALSE(has(1, {1, 0}));
  EXPECT_FALSE(has(1, {1, 1}));
  indexes.insert(1, {0, 0}, {});
  EXPECT_TRUE(has(1, {0, 0}));
  indexes.drop_all(2);
  EXPECT_FALSE(has(2, {0, 0}));
  EXPECT_FALSE(has(2, {1, 1}));
  EXPECT_TRUE(has(1, {0, 0}));
}

// Entries that newer ones evict are no longer entries of their array.
TEST(IndexCache, DropsTheRemainingEntriesOfAnArray) {
  ledger accounts{1 << 20, 0};
  index_cache indexes(accounts, 1000);
  for (std::uint64_t node = 0; node < 100; ++node) {
    indexes.insert(1, {0, node}, {});
    indexes.insert(2, {0, node}, {});
  }
  indexes.drop_all(1);
  index_entry out;
  EXPECT_FALSE(indexes.find(1, {0, 99}, out));
  EXPECT_TRUE(indexes.find(2, {0, 99}, out));
  indexes.drop_all(2);
  EXPECT_FALSE(indexes.find(2, {0, 99}, out));
}

TEST(IndexCache, HasNodesOnlyForTheRootOfTheirVersion) {
  ledger accounts{1 << 20, 0};
  index_cache indexes(accounts);
  index_entry now, old, out;
  now.seen.word[0] = 2;
  old.seen.word[0] = 1;
  indexes.insert(1, {0, 0}, now);
  indexes.insert(1, {0, 5}, now);
  EXPECT_TRUE(find_cached(indexes, 1, {0, 0}, nullptr, out));
  EXPECT_TRUE(out.cached);
  EXPECT_FALSE(find_cached(indexes, 1, {0, 5}, nullptr, out));
  EXPECT_FALSE(find_cached(indexes, 1, {0, 5}, &old, out));
  EXPECT_TRUE(find_cached(indexes, 1, {0, 5}, &now, out));
  EXPECT_FALSE(find_cached(indexes, 0, {0, 0}, nullptr, out));
}

}  // namespace
}  // namespace penstock::inline v0
