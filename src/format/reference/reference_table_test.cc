#include "format/reference/reference_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <utility>

namespace penstock::inline v0 {
namespace {

using bytes = std::vector<std::byte>;

struct saved_table {
  std::uint64_t entries = 0, cells = 0;
  std::vector<std::pair<int, std::vector<std::uint64_t>>> columns = {{0, {}}, {0, {}}, {0, {}}, {0, {}}, {0, {}}};

  bytes save() const {
    bytes out(8);
    std::memcpy(out.data(), "PSREFS01", 8);
    const auto add = [&](std::uint64_t value, int width) {
      for (int i = 0; i < width; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
    };
    add(entries, 8);
    add(cells, 8);
    for (const auto& [width, values] : columns) add(static_cast<std::uint64_t>(width), 1);
    add(0, 3);
    for (const auto& [width, values] : columns)
      for (const std::uint64_t value : values) add(value, width);
    return out;
  }
};

saved_table sparse() {
  saved_table out;
  out.entries = 3;
  out.cells = 10;
  out.columns = {{1, {2, 3, 9}}, {1, {0, 1, 0}}, {4, {70000, 0, 8}}, {2, {300, 0, 4}}, {1, {0, 2, 1}}};
  return out;
}

std::string refusal(const saved_table& of) {
  auto parsed = reference_table::parse(of.save());
  return parsed.ok() ? "accepted" : parsed.error().to_string();
}

TEST(ReferenceTable, FindsEntriesByTheirCell) {
  auto table = reference_table::parse(sparse().save());
  ASSERT_TRUE(table.ok()) << table.error().to_string();
  const reference_table& of = **table;
  EXPECT_EQ(of.entries(), 3u);
  EXPECT_EQ(of.cells(), 10u);
  for (const std::size_t first : {0, 1, 2, 3, 100}) {
    for (cell_id cell = 0; cell < 10; ++cell) {
      std::size_t hint = first;
      cell_reference found;
      EXPECT_EQ(of.find(cell, hint, found), cell == 2 || cell == 3 || cell == 9) << cell;
      if (cell == 3) {
        EXPECT_EQ(found.chain, 2u);
      }
      if (cell == 9) {
        EXPECT_EQ(found.offset, 8u);
      }
    }
  }
  EXPECT_EQ(of[0].offset, 70000u);
  EXPECT_EQ(of[0].length, 300u);
  EXPECT_EQ(of[1].object, 1u);
  EXPECT_EQ(of[1].length, byte_range::kAll);
  EXPECT_EQ(of[1].chain, 2u);
}

TEST(ReferenceTable, CountsCellsWhereNoneAreNamed) {
  saved_table dense;
  dense.entries = 2;
  dense.cells = 5;
  dense.columns[2] = {1, {4, 8}};
  dense.columns[3] = {1, {4, 4}};
  auto table = reference_table::parse(dense.save());
  ASSERT_TRUE(table.ok()) << table.error().to_string();
  std::size_t hint = 0;
  cell_reference found;
  EXPECT_TRUE((*table)->find(1, hint, found));
  EXPECT_EQ(found.offset, 8u);
  EXPECT_FALSE((*table)->find(2, hint, found)) << "not listed: never written";
  EXPECT_FALSE((*table)->find(4, hint, found));
}

using plain_table = std::map<cell_id, cell_reference>;

bool same(const cell_reference& a, const cell_reference& b) {
  return a.offset == b.offset && a.length == b.length && a.object == b.object && a.chain == b.chain;
}

/// Runs of every kind between irregular entries: along offsets, objects, both, in groups; extreme numbers.
plain_table random_table(std::mt19937_64& random, std::uint64_t& cells) {
  plain_table out;
  cells = 0;
  const auto number = [&](std::uint64_t below) { return random() % below; };
  const auto offset = [&] { return random() >> (random() % 2 == 0 ? 24 : 0); };
  while (out.size() < 300) {
    if (number(3) == 0) cells += number(5);
    const std::uint64_t inner = 1 + number(number(2) == 0 ? 4 : 60), groups = 1 + number(number(2) == 0 ? 2 : 12);
    const std::uint64_t base = offset(), step = offset() >> number(40), outer = offset() >> number(40);
    const std::uint32_t object = static_cast<std::uint32_t>(random() >> (number(2) == 0 ? 60 : 32));
    const std::uint32_t object_step = static_cast<std::uint32_t>(number(2)), object_outer = number(2) == 0 ? 0 : 7;
    const std::uint64_t length = 1 + number(1000);
    const std::uint16_t chain = static_cast<std::uint16_t>(number(8) == 0 ? random() : 0);
    const bool whole = number(6) == 0;
    for (std::uint64_t i = 0; i < inner * groups; ++i) {
      cell_reference each;
      // The sum wraps around: such numbers are not a run.
      each.offset = whole ? 0 : base + i % inner * step + i / inner * outer;
      each.length = whole ? byte_range::kAll : std::min(length, ~each.offset);
      if (each.length == 0) each = {};
      each.object = static_cast<std::uint32_t>(object + i % inner * object_step + i / inner * object_outer);
      each.chain = chain;
      out.emplace(cells++, each);
    }
  }
  cells += number(3);
  return out;
}

void expect_same(const reference_table& of, const plain_table& plain, std::uint64_t cells) {
  ASSERT_EQ(of.entries(), plain.size());
  ASSERT_EQ(of.cells(), cells);
  std::size_t hint = 0, other = 12345;
  std::uint64_t entry = 0;
  for (cell_id cell = 0; cell < cells; ++cell) {
    cell_reference found, again;
    const auto at = plain.find(cell);
    ASSERT_EQ(of.find(cell, hint, found), at != plain.end()) << cell;
    const bool jumped = of.find((cell * 7919) % cells, other, again);
    ASSERT_EQ(jumped, plain.contains((cell * 7919) % cells));
    if (jumped) {
      ASSERT_TRUE(same(again, plain.at((cell * 7919) % cells)));
    }
    if (at == plain.end()) continue;
    ASSERT_TRUE(same(found, at->second)) << cell;
    ASSERT_EQ(of.cell(entry), cell);
    ASSERT_TRUE(same(of[entry], at->second));
    ++entry;
  }
}

TEST(ReferenceTable, EqualsAPlainTableForAnyRuns) {
  std::mt19937_64 random(20);
  for (int repeat = 0; repeat < 60; ++repeat) {
    std::uint64_t cells = 0;
    const plain_table plain = random_table(random, cells);
    reference_table_builder builder(cells);
    for (const auto& [cell, each] : plain) builder.add(cell, each);
    auto made = std::move(builder).finish();
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    ASSERT_NO_FATAL_FAILURE(expect_same(**made, plain, cells));
    auto again = reference_table::parse((*made)->save());
    ASSERT_TRUE(again.ok()) << again.error().to_string();
    ASSERT_NO_FATAL_FAILURE(expect_same(**again, plain, cells));
    // The records of one table, added to another.
    reference_table_builder copy(cells);
    for (const reference_table::record& each : (*made)->records()) {
      if (each.is_run()) {
        copy.add(each);
        continue;
      }
      for (std::uint64_t i = 0; i < each.count; ++i) copy.add((*made)->cell(each, i), (*made)->at(each, i));
    }
    auto copied = std::move(copy).finish();
    ASSERT_TRUE(copied.ok()) << copied.error().to_string();
    ASSERT_NO_FATAL_FAILURE(expect_same(**copied, plain, cells));
  }
}

TEST(ReferenceTable, RegularReferencesTakeFewBytes) {
  // 10,000 files of 10,000 references: one after the other, and alternating in groups of ten along an inner dimension.
  constexpr std::uint64_t kFiles = 10000, kEach = 10000, kTurn = 10;
  for (const bool in_turns : {false, true}) {
    reference_table_builder builder(kFiles * kEach);
    for (std::uint64_t begin = 0; begin < kFiles * kEach; begin += in_turns ? kTurn : kEach) {
      reference_run run;
      run.cell = begin;
      run.count = run.inner = in_turns ? kTurn : kEach;
      const std::uint64_t row = begin / (kFiles * kTurn);
      run.object = in_turns ? begin / kTurn % kFiles : begin / kEach;
      run.offset = 4096 + (in_turns ? row * kTurn * 512 : 0);
      run.offset_step = 512;
      run.length = 512;
      builder.add(run);
    }
    auto made = std::move(builder).finish();
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    const reference_table& table = **made;
    ASSERT_EQ(table.entries(), kFiles * kEach);
    EXPECT_LE(table.memory_bytes(), 2 * table.entries() / 100);
    const bytes saved = table.save();
    EXPECT_LE(saved.size(), std::size_t{1} << 20);
    auto again = reference_table::parse(saved);
    ASSERT_TRUE(again.ok()) << again.error().to_string();
    std::mt19937_64 random(3);
    std::size_t hint = 0;
    for (int repeat = 0; repeat < 100000; ++repeat) {
      const cell_id cell = random() % (kFiles * kEach);
      cell_reference found;
      ASSERT_TRUE((*again)->find(cell, hint, found));
      const std::uint64_t row = cell / (kFiles * kTurn), file = in_turns ? cell / kTurn % kFiles : cell / kEach;
      const std::uint64_t place = in_turns ? row * kTurn + cell % kTurn : cell % kEach;
      ASSERT_EQ(found.object, file) << cell;
      ASSERT_EQ(found.offset, 4096 + place * 512) << cell;
    }
  }
}

TEST(ReferenceTable, RefusesDamagedRecords) {
  reference_table_builder builder(1000);
  reference_run run;
  run.count = run.inner = 900;
  run.offset_step = 16;
  run.length = 16;
  builder.add(run);
  for (std::uint64_t i = 900; i < 920; ++i)
    builder.add(i, {i * i * 1000, 1 + i % 7, static_cast<std::uint32_t>(i % 3), 0});
  auto made = std::move(builder).finish();
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  const bytes saved = (*made)->save();
  ASSERT_EQ(std::memcmp(saved.data(), "PSREFS02", 8), 0);
  const auto with = [&](std::size_t at, std::uint64_t value) {
    bytes out = saved;
    std::memcpy(out.data() + at, &value, 8);
    auto parsed = reference_table::parse(out);
    return parsed.ok() ? "accepted" : parsed.error().to_string();
  };
  constexpr std::size_t kFirst = 32, kSecond = kFirst + 88;
  EXPECT_NE(with(8, 919).find("919 entries, its records have 920"), std::string::npos) << with(8, 919);
  EXPECT_NE(with(16, 919).find("cells ascend"), std::string::npos) << with(16, 919);
  EXPECT_NE(with(24, ~std::uint64_t{0}).find("records of 88 bytes"), std::string::npos);
  EXPECT_NE(with(kFirst + 8, 0).find("record 0 has 0 entries"), std::string::npos);
  EXPECT_NE(with(kFirst + 16, 7).find("in groups of 7"), std::string::npos);
  EXPECT_NE(with(kFirst + 16, 0).find("in groups of 0"), std::string::npos);
  EXPECT_NE(with(kFirst + 24, ~std::uint64_t{0} - 100).find("has 16 bytes at"), std::string::npos);
  EXPECT_NE(with(kFirst + 32, std::uint64_t{1} << 62).find("has 16 bytes at"), std::string::npos);
  EXPECT_NE(with(kFirst + 32, ~std::uint64_t{0}).find("has 16 bytes at"), std::string::npos) << "below 0";
  EXPECT_NE(with(kFirst + 56, std::uint64_t{1} << 32).find("do not fit in 32 bits"), std::string::npos);
  EXPECT_NE(with(kFirst + 64, ~std::uint64_t{0}).find("do not fit in 32 bits"), std::string::npos);
  EXPECT_NE(with(kSecond, 899).find("record 1 begins with cell 899"), std::string::npos) << with(kSecond, 899);
  EXPECT_NE(with(kSecond + 8, 21).find("rows of"), std::string::npos) << with(kSecond + 8, 21);
  EXPECT_NE(with(kSecond + 24, ~std::uint64_t{0}).find("bytes at 1844674"), std::string::npos);
  EXPECT_NE(with(kSecond + 32, 1).find("both steps and rows"), std::string::npos);
  for (std::size_t cut = 0; cut < saved.size(); cut += 5)
    EXPECT_FALSE(reference_table::parse(std::span(saved).first(cut)).ok()) << cut;
  bytes longer = saved;
  longer.push_back({});
  EXPECT_FALSE(reference_table::parse(longer).ok());
}

TEST(ReferenceTable, SavesTablesInTheSmallestWidths) {
  std::mt19937_64 random(7);
  for (int repeat = 0; repeat < 50; ++repeat) {
    saved_table wide;
    wide.cells = 1000;
    std::uint64_t cell = 0;
    wide.columns = {{8, {}}, {4, {}}, {8, {}}, {8, {}}, {2, {}}};
    while ((cell += 1 + random() % 20) < wide.cells) {
      ++wide.entries;
      wide.columns[0].second.push_back(cell);
      wide.columns[1].second.push_back(random() % 3);
      wide.columns[2].second.push_back(random() >> (random() % 60 + 4));
      wide.columns[3].second.push_back(1 + random() % 100000);
      wide.columns[4].second.push_back(random() % 2);
    }
    auto once = reference_table::parse(wide.save());
    ASSERT_TRUE(once.ok()) << once.error().to_string();
    const bytes narrow = (*once)->save();
    EXPECT_LT(narrow.size(), wide.save().size());
    auto again = reference_table::parse(narrow);
    ASSERT_TRUE(again.ok()) << again.error().to_string();
    ASSERT_EQ((*again)->entries(), wide.entries);
    for (std::uint64_t i = 0; i < wide.entries; ++i) {
      EXPECT_EQ((*again)->cell(i), wide.columns[0].second[i]);
      EXPECT_EQ((**again)[i].object, wide.columns[1].second[i]);
      EXPECT_EQ((**again)[i].offset, wide.columns[2].second[i]);
      EXPECT_EQ((**again)[i].length, wide.columns[3].second[i]);
      EXPECT_EQ((**again)[i].chain, wide.columns[4].second[i]);
    }
  }
}

TEST(ReferenceTable, RefusesContradictoryTables) {
  saved_table bad = sparse();
  bad.entries = 4;
  EXPECT_NE(refusal(bad).find("corrupt_data: reference table: 4 entries of 9 bytes, there are 27"), std::string::npos)
      << refusal(bad);
  bad = sparse();
  bad.columns[0].second = {2, 2, 9};
  EXPECT_NE(refusal(bad).find("entry 1 is cell 2 of 10, cells ascend"), std::string::npos) << refusal(bad);
  bad = sparse();
  bad.columns[0].second = {2, 3, 10};
  EXPECT_NE(refusal(bad).find("entry 2 is cell 10 of 10"), std::string::npos) << refusal(bad);
  bad = sparse();
  bad.columns[2] = {8, {70000, 0, ~std::uint64_t{0}}};
  EXPECT_NE(refusal(bad).find("entry 2 has 4 bytes at 18446744073709551615"), std::string::npos) << refusal(bad);
  bad = sparse();
  bad.columns[2].second[1] = 5;
  EXPECT_NE(refusal(bad).find("entry 1 has 0 bytes at 5"), std::string::npos) << refusal(bad);
  bad = sparse();
  bad.columns[4].first = 4;
  EXPECT_NE(refusal(bad).find("column 'chain' has 4 bytes an entry"), std::string::npos) << refusal(bad);
  bad = sparse();
  bad.columns[4].first = 3;
  EXPECT_NE(refusal(bad).find("column 'chain' has 3 bytes"), std::string::npos) << refusal(bad);
  saved_table huge;
  huge.entries = huge.cells = ~std::uint64_t{0};
  EXPECT_NE(refusal(huge).find("without data"), std::string::npos) << refusal(huge);
  huge.columns[2] = {8, {}};
  EXPECT_NE(refusal(huge).find("entries of 8 bytes, there are 0"), std::string::npos) << refusal(huge);
  for (const std::size_t cut : {0, 7, 31}) {
    bytes part = sparse().save();
    part.resize(cut);
    EXPECT_FALSE(reference_table::parse(part).ok());
  }
}

}  // namespace
}  // namespace penstock::inline v0
