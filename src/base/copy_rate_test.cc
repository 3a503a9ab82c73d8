#include "base/copy_rate.h"

#include <gtest/gtest.h>

namespace penstock::inline v0 {
namespace {

TEST(CopyRate, IsMeasuredOnceForEachNumberOfThreads) {
  const double one = copy_rate(1), two = copy_rate(2);
  EXPECT_GT(one, 1e7);
  EXPECT_GT(two, 1e7);
  EXPECT_EQ(copy_rate(1), one);
  EXPECT_EQ(copy_rate(2), two);
}

TEST(CopyRate, LimitsTheThreads) {
  EXPECT_GT(copy_rate(), 1e7);
  EXPECT_EQ(copy_rate(1000), copy_rate(16));
}

}  // namespace
}  // namespace penstock::inline v0
