#include "format/reference/reference_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
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
  for (const std::uint64_t hint : {0, 1, 2, 3, 100}) {
    EXPECT_EQ(of.find(2, hint), 0u);
    EXPECT_EQ(of.find(3, hint), 1u);
    EXPECT_EQ(of.find(9, hint), 2u);
    for (const cell_id absent : {0, 1, 4, 8}) EXPECT_EQ(of.find(absent, hint), of.entries()) << absent;
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
  EXPECT_EQ((*table)->find(1, 0), 1u);
  EXPECT_EQ((*table)->find(2, 0), 2u) << "not listed: never written";
  EXPECT_EQ((*table)->find(4, 0), 2u);
}

TEST(ReferenceTable, SavesWhatItReadAsNarrowAsItCan) {
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

TEST(ReferenceTable, RefusesWhatContradictsItself) {
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
  EXPECT_NE(refusal(huge).find("that say nothing"), std::string::npos) << refusal(huge);
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
