#include "base/printable.h"

#include <gtest/gtest.h>

namespace penstock::inline v0 {
namespace {

TEST(Printable, HasNoControlCharacters) {
  EXPECT_EQ(printable("t2m \xc3\xa9 \\n"), "t2m \xc3\xa9 \\n");
  EXPECT_EQ(printable("a\nb\tc\x1b[31m\x7f"), "a\\nb\\x09c\\x1b[31m\\x7f");
  EXPECT_EQ(printable(std::string_view("\0\r", 2)), "\\x00\\x0d");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m \xc2\xa0 \xc3\x9b"),
            "\\x9b31m \xc2\xa0 \xc3\x9b");
  EXPECT_EQ(printable("\xc2"), "\xc2");
}

TEST(Printable, TextIsCutBetweenCharacters) {
  EXPECT_EQ(first_characters("a\xc3\xa9z", 4), "a\xc3\xa9z");
  EXPECT_EQ(first_characters("a\xc3\xa9z", 3), "a\xc3\xa9");
  EXPECT_EQ(first_characters("a\xc3\xa9z", 2), "a");
  EXPECT_EQ(first_characters("\xa9\xa9", 1), "");
}

TEST(Printable, LinesStayLines) { EXPECT_EQ(printable_lines("a\n\tb\r\x1b"), "a\n\tb\\x0d\\x1b"); }

}  // namespace
}  // namespace penstock::inline v0
