#pragma once

// The requirements of every chunk_layout, of any format. A new layout is one more layout_case in
// layout_contract_test.cc.

#include <gtest/gtest.h>
#include <penstock/extend/layout.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "array/chunk_grid.h"
#include "codec/codec_chain.h"
#include "support/cases.h"

namespace penstock::contract {

using bytes = std::vector<std::byte>;

struct layout_case {
  std::string name;
  std::function<std::shared_ptr<const chunk_layout>()> make;
  /// A storage object in its writer's form; nothing if it was never written. Deterministic.
  std::function<std::optional<bytes>(object_id)> object;
  unsigned depth = 0;  ///< rounds of index reads that the format needs at most
  /// Without an index, all locations are known, whatever the objects contain: the store detects ranges that exceed
  /// them.
  bool fixed_places = false;
  /// Above 0: a table assigns each cell to one of this many objects, whatever `write_grid()` is; `fixed_places` too.
  object_id listed_objects = 0;
  bool needs_object =
      false;  ///< the array was opened from the object: if it no longer exists, reads fail with `conflict`
};

class index_table final : public index_lookup {
 public:
  const index_entry* find(const index_key& key) const override {
    const auto at = entries_.find({key.object, key.node});
    return at == entries_.end() ? nullptr : &at->second;
  }
  void put(const index_key& key, index_ptr block) { entries_[{key.object, key.node}].block = std::move(block); }

 private:
  std::map<std::pair<std::uint64_t, std::uint64_t>, index_entry> entries_;
};

class LayoutContract : public testing::TestWithParam<layout_case> {
 protected:
  void SetUp() override {
    layout_ = GetParam().make();
    ASSERT_NE(layout_, nullptr);
    cells_.resize(layout_->grid().cells());
    std::iota(cells_.begin(), cells_.end(), cell_id{0});
    ASSERT_GT(cells_.size(), 1u) << "a case with one cell shows little";
    for (object_id object = 0; object < layout_->write_grid().cells(); ++object) {
      if (auto content = GetParam().object(object)) objects_[object] = std::move(*content);
    }
  }

  /// The response of storage; nothing if the object is absent. A range that exceeds it is truncated, as by a hostile
  /// store.
  std::optional<std::span<const std::byte>> read(object_id object, const byte_range& range) const {
    const auto at = objects_.find(object);
    if (at == objects_.end()) return std::nullopt;
    const std::span<const std::byte> all = at->second;
    if (range.whole()) return all;
    if (range.from_end) return all.last(std::min<std::size_t>(range.length, all.size()));
    const std::size_t begin = std::min<std::size_t>(range.offset, all.size());
    return all.subspan(begin, std::min<std::size_t>(range.length, all.size() - begin));
  }

  /// Reads indexes until nothing is missing; an error if parse or locate refuses.
  result<std::vector<chunk_extent>> resolve(std::span<const cell_id> cells, unsigned* rounds = nullptr) const {
    std::vector<chunk_extent> out(cells.size());
    index_table known;
    for (unsigned round = 0;; ++round) {
      std::vector<index_request> missing;
      PENSTOCK_TRY(layout_->locate(cells, known, out, missing));
      if (rounds != nullptr) *rounds = round;
      if (missing.empty()) return out;
      if (round > 100) return error(errc::internal, "asks in circles");
      for (const index_request& request : missing) {
        const auto content = read(request.key.object, request.range);
        index_ptr block;
        if (content) {
          PENSTOCK_ASSIGN(block, layout_->parse(request, *content, objects_.at(request.key.object).size()));
          EXPECT_NE(block, nullptr);
        }
        known.put(request.key, std::move(block));
      }
    }
  }

  static bool same(const chunk_extent& a, const chunk_extent& b) {
    return a.state == b.state && a.chain == b.chain && a.object == b.object &&
           (a.state != presence::present || a.range == b.range);
  }

  std::shared_ptr<const chunk_layout> layout_;
  std::vector<cell_id> cells_;
  std::map<object_id, bytes> objects_;
};

TEST_P(LayoutContract, FindsEveryCellInAsManyRoundsAsIndexLevels) {
  unsigned rounds = 0;
  auto found = resolve(cells_, &rounds);
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  EXPECT_EQ(rounds, GetParam().depth);
  std::size_t present = 0;
  for (const chunk_extent& extent : *found) {
    ASSERT_LT(extent.chain, layout_->chains().size());
    ASSERT_LT(extent.object, layout_->write_grid().cells());
    if (extent.state != presence::present) continue;
    ++present;
    const bytes& object = objects_.at(extent.object);
    if (extent.range.whole()) continue;
    EXPECT_FALSE(extent.range.from_end);
    EXPECT_LE(extent.range.offset, object.size());
    EXPECT_LE(extent.range.length, object.size() - extent.range.offset);
    EXPECT_GT(extent.range.length, 0u);
  }
  EXPECT_TRUE(GetParam().depth == 0 || present > 0) << "the case has no chunks to find";
}

TEST_P(LayoutContract, IsPure) {
  auto once = resolve(cells_);
  auto twice = resolve(cells_);
  ASSERT_TRUE(once.ok() && twice.ok());
  for (std::size_t i = 0; i < cells_.size(); ++i) EXPECT_TRUE(same((*once)[i], (*twice)[i])) << i;
}

TEST_P(LayoutContract, FindsCellsInAnyOrderAndCombination) {
  auto all = resolve(cells_);
  ASSERT_TRUE(all.ok());
  for (const cell_id cell : cells_) {
    auto alone = resolve({&cell, 1});
    ASSERT_TRUE(alone.ok());
    EXPECT_TRUE(same(alone->front(), (*all)[cell])) << cell;
  }
  std::mt19937 random(1);
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::vector<cell_id> some;
    for (std::size_t i = 0; i < cells_.size(); ++i) some.push_back(cells_[random() % cells_.size()]);
    auto found = resolve(some);
    ASSERT_TRUE(found.ok());
    for (std::size_t i = 0; i < some.size(); ++i) EXPECT_TRUE(same((*found)[i], (*all)[some[i]])) << some[i];
  }
}

TEST_P(LayoutContract, RequestsEachIndexOnceAndAppendsToTheList) {
  std::vector<cell_id> there_and_back = cells_;
  there_and_back.insert(there_and_back.end(), cells_.rbegin(), cells_.rend());
  std::vector<chunk_extent> out(there_and_back.size());
  std::vector<index_request> missing;
  ASSERT_TRUE(layout_->locate(there_and_back, index_table(), out, missing).ok());
  std::set<std::pair<std::uint64_t, std::uint64_t>> keys;
  for (const index_request& request : missing) {
    EXPECT_TRUE(keys.insert({request.key.object, request.key.node}).second) << request.key.object;
    EXPECT_GT(request.max_bytes, 0u);
    EXPECT_TRUE(request.range.whole() || request.range.length <= request.max_bytes);
  }
  EXPECT_EQ(missing.empty(), GetParam().depth == 0);
  const std::size_t count = missing.size();
  ASSERT_TRUE(layout_->locate(there_and_back, index_table(), out, missing).ok());
  EXPECT_EQ(missing.size(), count);
}

TEST_P(LayoutContract, LocatesNoCellWhileItsIndexIsMissing) {
  if (GetParam().depth == 0) return;
  chunk_extent marked;
  marked.range = {987654321, 1, false};
  std::vector<chunk_extent> out(cells_.size(), marked);
  std::vector<index_request> missing;
  ASSERT_TRUE(layout_->locate(cells_, index_table(), out, missing).ok());
  for (const chunk_extent& extent : out) EXPECT_EQ(extent.range, marked.range);
}

TEST_P(LayoutContract, FindsNothingInAbsentObjects) {
  auto before = resolve(cells_);
  ASSERT_TRUE(before.ok()) << before.error().to_string();
  objects_.clear();
  auto found = resolve(cells_);
  if (GetParam().needs_object) {
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.error().code(), errc::conflict) << found.error().to_string();
    return;
  }
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  if (GetParam().listed_objects > 0) {  // the store finds that they are absent
    for (std::size_t i = 0; i < cells_.size(); ++i) EXPECT_TRUE(same((*found)[i], (*before)[i])) << i;
    return;
  }
  for (const chunk_extent& extent : *found) {
    const presence expected = GetParam().fixed_places ? presence::present
                              : GetParam().depth == 0 ? presence::unknown
                                                      : presence::absent;
    EXPECT_EQ(extent.state, expected);
  }
}

TEST_P(LayoutContract, GridsCoverEachOther) {
  const chunk_grid& grid = layout_->grid();
  const chunk_grid& objects = layout_->write_grid();
  ASSERT_EQ(grid.rank(), objects.rank());
  auto found = resolve(cells_);
  ASSERT_TRUE(found.ok());
  for (const cell_id cell : cells_) {
    if (GetParam().listed_objects > 0) {
      EXPECT_TRUE((*found)[cell].state == presence::absent || (*found)[cell].object < GetParam().listed_objects);
      continue;
    }
    dim_vector<std::uint64_t> at, in;
    grid.coordinates(cell, at);
    objects.coordinates((*found)[cell].object, in);
    for (std::size_t d = 0; d < grid.rank(); ++d) {
      EXPECT_EQ(grid.axis(d).extent(), objects.axis(d).extent());
      const std::uint64_t first = grid.axis(d).origin(at[d]);
      EXPECT_GE(first, objects.axis(d).origin(in[d]));
      EXPECT_LE(first + grid.axis(d).codec_length(at[d]),
                objects.axis(d).origin(in[d]) + objects.axis(d).codec_length(in[d]));
      EXPECT_EQ(layout_->chains()[(*found)[cell].chain].cell()[d], grid.axis(d).codec_length(at[d]));
    }
  }
}

TEST_P(LayoutContract, NamesOfObjectsAndCellsAreUnique) {
  std::set<std::string> names;
  std::string key = "what stood there before";
  const object_id objects = GetParam().listed_objects > 0 ? GetParam().listed_objects : layout_->write_grid().cells();
  for (object_id object = 0; object < objects; ++object) {
    layout_->key(object, key);
    EXPECT_FALSE(key.empty());
    EXPECT_NE(key.front(), '/');
    EXPECT_TRUE(names.insert(key).second) << key;
  }
  names.clear();
  for (const cell_id cell : cells_) EXPECT_TRUE(names.insert(layout_->describe(cell)).second) << cell;
}

TEST_P(LayoutContract, RefusesAnIndexOfAWrongLength) {
  std::vector<chunk_extent> out(cells_.size());
  std::vector<index_request> missing;
  ASSERT_TRUE(layout_->locate(cells_, index_table(), out, missing).ok());
  for (const index_request& request : missing) {
    const auto content = read(request.key.object, request.range);
    if (!content) continue;
    bytes longer(content->begin(), content->end());
    longer.push_back(std::byte{0});
    for (const std::span<const std::byte> wrong :
         {content->first(0), content->first(content->size() - 1), std::span<const std::byte>(longer)}) {
      auto block = layout_->parse(request, wrong, objects_.at(request.key.object).size());
      ASSERT_FALSE(block.ok());
      EXPECT_EQ(block.error().code(), errc::corrupt_data);
    }
  }
}

TEST_P(LayoutContract, HostileBytesYieldNoRangeOutsideTheObject) {
  const std::map<object_id, bytes> good = objects_;
  std::mt19937 random(7);
  int refused = 0;
  for (std::uint64_t repeat = 0; repeat < test::cases_of_one_thread(1000); ++repeat) {
    objects_ = good;
    for (auto& [object, content] : objects_) {
      for (std::uint64_t edit = 0; edit < 1 + repeat % 8 && !content.empty(); ++edit) {
        content[random() % content.size()] = static_cast<std::byte>(random() % 3 == 0 ? 0xff : random());
      }
      if (repeat % 5 == 0) content.resize(random() % (content.size() + 1));
    }
    auto found = resolve(cells_);
    if (!found.ok()) {
      ++refused;
      ASSERT_EQ(found.error().code(), errc::corrupt_data) << found.error().to_string();
      continue;
    }
    for (const chunk_extent& extent : *found) {
      if (extent.state != presence::present || extent.range.whole()) continue;
      const std::uint64_t size = (GetParam().fixed_places ? good : objects_).at(extent.object).size();
      ASSERT_LE(extent.range.offset, size);
      ASSERT_LE(extent.range.length, size - extent.range.offset);
    }
  }
  EXPECT_TRUE(GetParam().depth == 0 || refused > 0);
}

TEST_P(LayoutContract, IsThreadSafe) {
  auto expected = resolve(cells_);
  ASSERT_TRUE(expected.ok());
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t worker = 0; worker < wrong.size(); ++worker) {
    threads.emplace_back([&, worker] {
      std::string key;
      for (int repeat = 0; repeat < 20; ++repeat) {
        auto found = resolve(cells_);
        for (std::size_t i = 0; found.ok() && i < cells_.size(); ++i) {
          wrong[worker] += same((*found)[i], (*expected)[i]) ? 0 : 1;
        }
        wrong[worker] += found.ok() ? 0 : 1;
        layout_->key(0, key);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

}  // namespace penstock::contract
