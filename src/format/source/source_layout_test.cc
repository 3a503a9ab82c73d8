#include "format/source/source_layout.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(BoxKey, IsReadAsItIsWritten) {
  const extents origin{0, 18446744073709551610U, 7}, shape{1, 5, 30};
  std::string key;
  append_box_key(key, origin, shape);
  EXPECT_EQ(key, "[0:1, 18446744073709551610:18446744073709551615, 7:37]");
  extents begin(3), lengths(3);
  ASSERT_TRUE(parse_box_key(key, begin, lengths));
  EXPECT_EQ(begin, origin);
  EXPECT_EQ(lengths, shape);
}

TEST(BoxKey, OfAnotherRankOrFormIsRefused) {
  for (const char* const key :
       {"", "[", "[0:1]", "[0:1, 2:3, 4:5]", "[0:1, 3:3]", "[0:1, 3:2]", "[0:1,2:3]", "[0:1, 2:3", "[0:1, 2:3]x",
        "[-1:1, 2:3]", "[0:99999999999999999999, 2:3]", "0:1, 2:3"}) {
    extents origin(2), shape(2);
    EXPECT_FALSE(parse_box_key(key, origin, shape)) << key;
  }
}

TEST(SourceLayout, KeysHaveTheElementsThatExist) {
  const auto made = source_layout::make(*dtype::from_name("int32"), {5, 3}, {4, 2});
  ASSERT_TRUE(made.ok());
  std::vector<std::string> keys(4);
  for (object_id object = 0; object < 4; ++object) (*made)->key(object, keys[object]);
  EXPECT_EQ(keys, (std::vector<std::string>{"[0:4, 0:2]", "[0:4, 2:3]", "[4:5, 0:2]", "[4:5, 2:3]"}));
  EXPECT_EQ((*made)->describe(3), "box [4:5, 2:3]");
}

}  // namespace
}  // namespace penstock
