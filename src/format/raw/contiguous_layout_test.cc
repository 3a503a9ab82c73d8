#include <penstock/extend/contiguous_layout.h>

#include <gtest/gtest.h>

#include <algorithm>

#include "array/chunk_grid.h"

namespace penstock::inline v0 {
namespace {

const dtype kBytes(dtype_kind::unsigned_integer, 8);

contiguous_object rows(std::uint64_t count) {
  contiguous_object out;
  out.key = "a.rows";
  out.header.assign(3, std::byte{'h'});
  out.shape = {count, 1 << 20};  // a block for each row
  out.type = kBytes;
  return out;
}

std::vector<std::byte> joined(const assembled_object& of) {
  std::vector<std::byte> out;
  for (const part& each : of.parts) out.insert(out.end(), each.begin(), each.end());
  return out;
}

TEST(ContiguousLayout, AssemblesNewObjectsOfHeaderAndZeros) {
  const auto layout = make_contiguous_layout(rows(3)).value();
  assembled_object out;
  ASSERT_TRUE(layout->assembler()->assemble(0, nullptr, {}, out).ok());
  std::vector<std::byte> wanted(3 + (3 << 20));
  std::fill_n(wanted.begin(), 3, std::byte{'h'});
  EXPECT_EQ(joined(out), wanted);
  EXPECT_EQ(out.bytes, wanted.size());
  EXPECT_EQ(out.made_count, 2U) << "the zeros of a block serve all blocks";
}

TEST(ContiguousLayout, KeepsTheBlocksThatAreNotWritten) {
  const auto layout = make_contiguous_layout(rows(5)).value();
  ASSERT_EQ(layout->grid().cells(), 5U);
  constexpr std::size_t kRow = 1 << 20;
  std::vector<std::byte> old(3 + 5 * kRow + 7, std::byte{1}), wanted(old.begin(), old.end() - 7);
  const std::vector<std::byte> row(kRow, std::byte{2});
  const new_cell cells[] = {{3, {}, true}, {2, row, false}};
  std::fill_n(wanted.begin(), 3, std::byte{'h'});
  std::fill_n(wanted.begin() + 3 + 2 * kRow, kRow, std::byte{2});
  std::fill_n(wanted.begin() + 3 + 3 * kRow, kRow, std::byte{0});
  const part all(old);
  assembled_object out;
  ASSERT_TRUE(layout->assembler()->assemble(0, &all, cells, out).ok());
  EXPECT_EQ(joined(out), wanted);
  EXPECT_EQ(out.parts.size(), 5U) << "adjacent blocks that are kept are one part";
  const part cut = all.first(3 + 5 * kRow - 1);
  const auto refused = layout->assembler()->assemble(0, &cut, cells, out);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), errc::corrupt_data);
}

TEST(ContiguousLayout, RefusesObjectsThatAreTooShortAndShapesBeyond63Bits) {
  contiguous_object what = rows(2);
  what.bytes = 3 + (2 << 20);
  EXPECT_TRUE(make_contiguous_layout(what).ok());
  --what.bytes;
  EXPECT_EQ(make_contiguous_layout(what).error().code(), errc::corrupt_data);
  EXPECT_EQ(make_contiguous_layout(rows(std::uint64_t{1} << 44)).error().code(), errc::unsupported);
  what = rows(2);
  what.type = *dtype::from_name("string");
  EXPECT_EQ(make_contiguous_layout(what).error().code(), errc::unsupported);
}

TEST(ContiguousLayout, HasNoBlocksWithoutElements) {
  const auto layout = make_contiguous_layout(rows(0)).value();
  EXPECT_EQ(layout->grid().cells(), 0U);
  assembled_object out;
  ASSERT_TRUE(layout->assembler()->assemble(0, nullptr, {}, out).ok());
  EXPECT_EQ(out.bytes, 3U);
}

}  // namespace
}  // namespace penstock::inline v0
