#include <penstock/shape.h>

#include <gtest/gtest.h>

namespace penstock::inline v0 {
namespace {

TEST(Shape, CountsElementsWithin64Bits) {
  EXPECT_EQ(element_count({2, 3, 4}).value(), 24U);
  EXPECT_EQ(element_count({}).value(), 1U);
  EXPECT_EQ(element_count({1ULL << 32, (1ULL << 32) - 1}).value(), 0xffffffff00000000U);
  EXPECT_EQ(element_count({1ULL << 32, 1ULL << 32}).error().code(), errc::out_of_range);
  EXPECT_EQ(element_count({1ULL << 32, 1ULL << 32, 0}).value(), 0U) << "an empty dimension makes any array empty";
}

TEST(Shape, IsWrittenAsAPythonTuple) {
  EXPECT_EQ(to_string(extents{2, 3, 4}), "(2, 3, 4)");
  EXPECT_EQ(to_string(extents{5}), "(5,)");
  EXPECT_EQ(to_string(extents{}), "()");
}

TEST(Shape, HasStridesInCOrder) {
  EXPECT_EQ(c_order_strides({2, 3, 4}, 8), (strides{96, 32, 8}));
  EXPECT_EQ(c_order_strides({}, 8), strides());
  EXPECT_EQ(c_order_strides({5, 0, 3}, 2), (strides{0, 6, 2}));
}

}  // namespace
}  // namespace penstock::inline v0
