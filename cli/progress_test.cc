#include "progress.h"

#include <gtest/gtest.h>

namespace penstock::inline v0::cli {
namespace {

TEST(ProgressText, ShowsBytesRateAndTimeLeft) {
  EXPECT_EQ(progress_text("reading", {1200000000, 3276800000}, 0.75),
            "reading  1.20 GB of 3.28 GB  36%  1.60 GB/s  2 s left");
  EXPECT_EQ(progress_text("checking a", {1000000, 3601000000}, 1.0),
            "checking a  1.00 MB of 3.60 GB  0%  0.00 GB/s  1:00 h left");
}

TEST(ProgressText, HasNoControlCharactersOfNames) {
  EXPECT_EQ(progress_text("comparing a\x1b[31m", {0, 512}, 0), "comparing a\\x1b[31m  0 bytes of 512 bytes  0%");
}

TEST(ProgressText, ComparesTheSpeedWithThatOfMemory) {
  const std::string text = progress_text("reading", {1200000000, 3276800000}, 0.75, 5.964e9);
  EXPECT_EQ(text, "reading  1.20 GB of 3.28 GB  36%  1.60 GB/s (memcpy: 5.96)  2 s left");
  EXPECT_LT(text.size(), 80U);
}

TEST(ProgressText, OmitsTheRateUntilItIsKnown) {
  EXPECT_EQ(progress_text("reading", {0, 512}, 0), "reading  0 bytes of 512 bytes  0%");
  EXPECT_EQ(progress_text("reading", {0, 0}, 0), "reading  0 bytes of 0 bytes  100%");
}

}  // namespace
}  // namespace penstock::inline v0::cli
