#include "array/packed_fields.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace penstock::inline v0 {
namespace {

dtype number(std::uint32_t bits) { return {dtype_kind::unsigned_integer, bits}; }

std::vector<std::byte> counted(std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(i);
  return out;
}

std::vector<int> packed(const dtype& type, std::uint64_t count) {
  const auto from = counted(count * type.item_bytes());
  std::vector<std::byte> to(count * without_gaps(type).value().item_bytes());
  pack_items(type, from.data(), to.data(), count);
  std::vector<int> out;
  for (const std::byte each : to) out.push_back(static_cast<int>(each));
  return out;
}

TEST(PackedFields, FieldsFollowOneAnother) {
  const dtype type = dtype::structured({{"a", number(8), 0, {}}, {"b", number(16), 2, {}}}, 6).value();
  EXPECT_TRUE(has_gaps(type));
  const dtype without = without_gaps(type).value();
  EXPECT_FALSE(has_gaps(without));
  EXPECT_EQ(without.item_bytes(), 3U);
  EXPECT_EQ(packed(type, 2), (std::vector<int>{0, 2, 3, 6, 8, 9}));
}

TEST(PackedFields, StructuresWithinStructuresArePacked) {
  const dtype inner = dtype::structured({{"c", number(8), 1, {}}}, 2).value();
  const dtype type = dtype::structured({{"a", inner, 0, {2}}, {"b", number(8), 4, {}}}, 5).value();
  EXPECT_TRUE(has_gaps(type));
  EXPECT_EQ(packed(type, 2), (std::vector<int>{1, 3, 4, 6, 8, 9}));
}

TEST(PackedFields, OtherTypesAreNotChanged) {
  const dtype type = dtype::structured({{"a", number(8), 0, {}}, {"b", number(16), 1, {}}}).value();
  EXPECT_FALSE(has_gaps(type));
  EXPECT_TRUE(without_gaps(type).value() == type);
  EXPECT_FALSE(has_gaps(number(32)));
  EXPECT_EQ(packed(type, 1), (std::vector<int>{0, 1, 2}));
}

}  // namespace
}  // namespace penstock::inline v0
