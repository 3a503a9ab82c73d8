#include "base/counted.h"

#include <gtest/gtest.h>

namespace penstock::inline v0 {
namespace {

TEST(BytesText, HasThreeDigitsAndDecimalUnits) {
  EXPECT_EQ(bytes_text(0), "0 bytes");
  EXPECT_EQ(bytes_text(1), "1 byte");
  EXPECT_EQ(bytes_text(999), "999 bytes");
  EXPECT_EQ(bytes_text(1000), "1.00 kB");
  EXPECT_EQ(bytes_text(12345), "12.3 kB");
  EXPECT_EQ(bytes_text(999499), "999 kB");
  EXPECT_EQ(bytes_text(999999), "1.00 MB");
  EXPECT_EQ(bytes_text(3276800000.0), "3.28 GB");
}

}  // namespace
}  // namespace penstock::inline v0
