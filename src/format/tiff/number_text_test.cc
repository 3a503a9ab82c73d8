#include "format/tiff/number_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace penstock {
namespace {

TEST(NumberText, WritesNumbersAsPythonDoes) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(text_of_number(-9999), "-9999.0");
  EXPECT_EQ(text_of_number(-0.0), "-0.0");
  EXPECT_EQ(text_of_number(0.1), "0.1");
  EXPECT_EQ(text_of_number(1e-7), "1e-07");
  EXPECT_EQ(text_of_number(0.0001), "0.0001");
  EXPECT_EQ(text_of_number(1e15), "1000000000000000.0");
  EXPECT_EQ(text_of_number(1e16), "1e+16");
  EXPECT_EQ(text_of_number(5e-324), "5e-324");
  EXPECT_EQ(text_of_number(double{std::numeric_limits<float>::max()}), "3.4028234663852886e+38");
  EXPECT_EQ(text_of_number(-kInfinity), "-inf");
  EXPECT_EQ(text_of_number(-std::numeric_limits<double>::quiet_NaN()), "nan");
}

}  // namespace
}  // namespace penstock
