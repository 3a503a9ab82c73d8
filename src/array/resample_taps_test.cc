#include "array/resample_taps.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(ResampleTaps, NearestTakesThePixelUnderTheCentre) {
  const auto taps = make_taps(resample_kernel::nearest, -4, 2, 5, 4);
  ASSERT_TRUE(taps);
  EXPECT_EQ(taps->first, (std::vector<std::int64_t>{-1, -1, 1, 3, 4})) << "-1 and 4 are outside";
  EXPECT_EQ(*taps->single_pixels(), taps->first);
}

TEST(ResampleTaps, AverageWeighsByTheShareThatIsCovered) {
  const auto taps = make_taps(resample_kernel::average, 0.5, 1.5, 2, 4);
  ASSERT_TRUE(taps);
  ASSERT_EQ(taps->width, 2U);
  EXPECT_EQ(taps->first, (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(taps->weights, (std::vector<double>{0.5, 1, 1, 0.5}));
  EXPECT_FALSE(taps->single_pixels());
  EXPECT_EQ(taps->low(), 0);
  EXPECT_EQ(taps->high(), 4);
}

TEST(ResampleTaps, WholePixelsAreCopies) {
  for (const resample_kernel kernel : {resample_kernel::average, resample_kernel::bilinear}) {
    const auto taps = make_taps(kernel, 1 + 1e-12, 1, 2, 4);
    EXPECT_EQ(*taps->single_pixels(), (std::vector<std::int64_t>{1, 2}));
  }
}

TEST(ResampleTaps, BilinearReachesOnePixelOrOneOfTheResult) {
  EXPECT_EQ(make_taps(resample_kernel::bilinear, 0.25, 1, 1, 4)->weights, (std::vector<double>{0, 0.75, 0.25}));
  EXPECT_EQ(make_taps(resample_kernel::bilinear, 2, 4, 1, 8)->weights,
            (std::vector<double>{0.125, 0.375, 0.625, 0.875, 0.875, 0.625, 0.375, 0.125}));
}

TEST(ResampleTaps, TapsOutsideTheAxisAreOmitted) {
  const auto taps = make_taps(resample_kernel::average, -1e15, 1e15, 3, 4);
  ASSERT_TRUE(taps);
  EXPECT_LE(taps->width, 6U);
  EXPECT_FALSE(make_taps(resample_kernel::average, 0, 1e6, 1000, 1000000)) << "2^27 taps at most";
}

}  // namespace
}  // namespace penstock
