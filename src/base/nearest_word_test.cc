#include "base/nearest_word.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock::inline v0 {
namespace {

TEST(NearestWord, IsFoundAmongOthers) {
  const std::vector<std::string> verbs = {"info", "plan", "read", "check", "copy", "ls", "head"};
  EXPECT_EQ(nearest_word("chekc", verbs), "check");
  EXPECT_EQ(nearest_word("INFO", verbs), "info");
  EXPECT_EQ(nearest_word("cpoy", verbs), "copy");
  EXPECT_EQ(nearest_word("l", verbs), "ls");
  EXPECT_EQ(nearest_word("frobnicate", verbs), "");
  EXPECT_EQ(nearest_word("", verbs), "");
  EXPECT_EQ(nearest_word(std::string(1000, 'x'), verbs), "");
  EXPECT_EQ(nearest_word("x", verbs), "") << "one letter that is changed leaves nothing of the word";
  const std::vector<std::string> options = {"-h", "--help", "-l", "--long", "--format"};
  EXPECT_EQ(nearest_word("-r", options), "") << "the letter is another one";
  EXPECT_EQ(nearest_word("--", options), "");
  EXPECT_EQ(nearest_word("-L", options), "-l");
  EXPECT_EQ(nearest_word("-format", options), "--format");
  EXPECT_EQ(nearest_word("--formt", options), "--format");
  EXPECT_EQ(suggestion("reed", verbs), "; did you mean 'read'?");
}

TEST(NearestWord, IsANoteOfAnError) {
  const std::vector<std::string> codecs = {"gzip", "zlib", "zstd"};
  const error found = with_suggestion(error(errc::unsupported, "no codec 'zsdt'"), "zsdt", codecs);
  ASSERT_EQ(found.notes().size(), 1U);
  EXPECT_EQ(found.notes()[0], "did you mean 'zstd'?");
  EXPECT_TRUE(with_suggestion(error(errc::unsupported, "no codec 'jpeg'"), "jpeg", codecs).notes().empty());
}

}  // namespace
}  // namespace penstock::inline v0
