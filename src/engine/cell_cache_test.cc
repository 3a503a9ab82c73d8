#include "engine/cell_cache.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kCell = 1 << 10, kLimit = 16 * kCell;

version version_number(std::uint64_t number) {
  version out;
  out.word[0] = number;
  return out;
}

struct fixture : testing::Test {
  void keep(std::uint64_t uid, cell_id cell, std::uint64_t bytes = kCell, std::uint64_t seen = 1) {
    auto made = cells.make_room(bytes);
    ASSERT_NE(made, nullptr);
    made->seen = version_number(seen);
    cells.insert(uid, cell, made);
  }
  bool has(std::uint64_t uid, cell_id cell, const version& expected = {}) {
    return cells.find(uid, cell, expected) != nullptr;
  }
  ledger accounts{1 << 20, 0};
  cell_cache cells{accounts, kLimit};
};
using CellCache = fixture;

TEST_F(CellCache, CachesFromASecondPartReadSoonAfterTheFirst) {
  EXPECT_FALSE(cells.is_worth_keeping(1, 7, kCell));
  EXPECT_FALSE(cells.is_worth_keeping(2, 7, kCell)) << "another array";
  EXPECT_TRUE(cells.is_worth_keeping(1, 7, kCell));
  EXPECT_TRUE(cells.is_worth_keeping(1, 7, kCell));
}

TEST_F(CellCache, CachesFromTheFirstPartWhileManyCellsAreReadAgain) {
  cell_id cell = 0;
  const auto first_of_four = [&] {
    const bool kept = cells.is_worth_keeping(1, ++cell, kCell);
    for (int again = 0; again < 3; ++again) EXPECT_TRUE(cells.is_worth_keeping(1, cell, kCell));
    return kept;
  };
  EXPECT_FALSE(first_of_four());
  for (int i = 0; i < 30; ++i) first_of_four();
  EXPECT_TRUE(first_of_four());
  for (int i = 0; i < 60; ++i) cells.is_worth_keeping(1, ++cell, kCell);
  EXPECT_FALSE(cells.is_worth_keeping(1, ++cell, kCell)) << "sixty were requested once";
  keep(1, 1);
  for (int i = 0; i < 30; ++i) EXPECT_TRUE(has(1, 1));
  EXPECT_TRUE(cells.is_worth_keeping(1, ++cell, kCell)) << "found cells also count";
}

TEST_F(CellCache, APassOverMoreThanItsSizeCachesNothing) {
  for (int pass = 0; pass < 3; ++pass)
    for (cell_id cell = 0; cell < 100; ++cell) EXPECT_FALSE(cells.is_worth_keeping(1, cell, kCell)) << cell;
}

TEST_F(CellCache, NeverCachesCellsThatAreTooLarge) {
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(cells.is_worth_keeping(1, 7, kLimit + 1));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(cells.is_worth_keeping(1, 8, 0));
  cell_cache none(accounts, 0);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(none.is_worth_keeping(1, 7, 1));
}

TEST_F(CellCache, HoldsOneCellOfItsOwnSize) {
  EXPECT_FALSE(cells.is_worth_keeping(1, 7, kLimit));
  EXPECT_TRUE(cells.is_worth_keeping(1, 7, kLimit));
  keep(1, 6);
  keep(1, 7, kLimit);
  EXPECT_TRUE(has(1, 7));
  EXPECT_FALSE(has(1, 6));
  EXPECT_EQ(accounts.held(memory_use::cells), kLimit);
}

TEST_F(CellCache, RefusesCellsThatExceedItWhenRoundedUp) {
  cell_cache odd(accounts, 5 * kCell - 1);
  EXPECT_EQ(odd.make_room(5 * kCell - 1), nullptr);
  EXPECT_NE(odd.make_room(4 * kCell), nullptr);
}

TEST_F(CellCache, DropsTheLeastRecentlyUsedFirst) {
  for (cell_id cell = 0; cell < 16; ++cell) keep(1, cell);
  EXPECT_TRUE(has(1, 0));
  keep(1, 16);
  EXPECT_TRUE(has(1, 0));
  EXPECT_FALSE(has(1, 1));
  EXPECT_TRUE(has(1, 16));
  EXPECT_EQ(accounts.held(memory_use::cells), kLimit);
  EXPECT_EQ(cells.hits(), 3U);
}

TEST_F(CellCache, DropsACellOfAnotherVersion) {
  keep(1, 7, kCell, 5);
  EXPECT_TRUE(has(1, 7)) << "any version";
  EXPECT_TRUE(has(1, 7, version_number(5)));
  EXPECT_FALSE(has(1, 7, version_number(6)));
  EXPECT_TRUE(cells.empty());
}

TEST_F(CellCache, DroppedCellsReturnTheirMemoryAfterTheLastRead) {
  keep(1, 7);
  keep(1, 8);
  keep(2, 7);
  const auto used = cells.find(1, 7, {});
  cells.drop(1, 8);
  cells.drop(1, 9);
  cells.drop_all(1);
  EXPECT_FALSE(has(1, 7));
  EXPECT_TRUE(has(2, 7));
  EXPECT_EQ(accounts.held(memory_use::cells), 2 * kCell) << "one is still read";
  EXPECT_EQ(used->items.size(), kCell);
  cells.clear();
  EXPECT_TRUE(cells.empty());
  EXPECT_EQ(accounts.held(memory_use::cells), kCell);
}

}  // namespace
}  // namespace penstock::inline v0
