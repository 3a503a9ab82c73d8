#include "npy.h"

#include <gtest/gtest.h>

namespace penstock::inline v0::cli {
namespace {

TEST(NpyHeader, EqualsThatOfNumPy) {
  const auto header = npy_header(dtype(dtype_kind::floating, 32), {3, 4});
  ASSERT_TRUE(header.ok());
  const std::string dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }";
  std::string expected("\x93NUMPY\x01\x00\x76\x00", 10);
  expected += dictionary + std::string(128 - 10 - 1 - dictionary.size(), ' ') + "\n";
  EXPECT_EQ(*header, expected);
}

TEST(NpyHeader, EndsAtAMultipleOf64BytesForEveryRank) {
  extents shape;
  for (std::size_t rank = 0; rank <= kMaxRank; ++rank) {
    const auto header = npy_header(dtype(dtype_kind::boolean, 8), shape);
    ASSERT_TRUE(header.ok());
    EXPECT_EQ(header->size() % 64, 0U) << rank;
    EXPECT_EQ(header->back(), '\n');
    const auto* bytes = reinterpret_cast<const unsigned char*>(header->data());
    EXPECT_EQ(bytes[8] + 256U * bytes[9], header->size() - 10);
    if (rank < kMaxRank) shape.push_back(18446744073709551615U);
  }
}

TEST(NpyHeader, WritesShapesAsPythonTuples) {
  EXPECT_NE(npy_header(dtype(dtype_kind::signed_integer, 16), {5})->find("'<i2'"), std::string::npos);
  EXPECT_NE(npy_header(dtype(dtype_kind::signed_integer, 16), {5})->find("'shape': (5,), }"), std::string::npos);
  EXPECT_NE(npy_header(dtype(dtype_kind::signed_integer, 16), {})->find("'shape': (), }"), std::string::npos);
}

TEST(NpyHeader, RefusesTypesThatNumPyDoesNotHave) {
  const auto header = npy_header(dtype(dtype_kind::brain_float, 16), {5});
  ASSERT_FALSE(header.ok());
  EXPECT_EQ(header.error().code(), errc::unsupported);
}

}  // namespace
}  // namespace penstock::inline v0::cli
