#include <penstock/variable.h>

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "array/utf8.h"

namespace penstock::inline v0 {
namespace {

TEST(Utf8, RecognisesWellFormedText) {
  const auto is = [](std::string_view text) { return is_utf8(std::as_bytes(std::span(text))); };
  for (const char* text :
       {"", "a", "plain text of more than eight", "\xc3\xa4", "12345678\xe2\x82\xac", "\xf0\x9f\x98\x80",
        "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf", "\xe0\xa0\x80", "\xf0\x90\x80\x80"})
    EXPECT_TRUE(is(text)) << text;
  EXPECT_TRUE(is(std::string_view("a\0b", 3)));
  for (const char* text :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xc3", "\xe2\x82", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "12345678\xe2\x82", "\xc3\x41", "\xe2\x82\x41"})
    EXPECT_FALSE(is(text)) << text;
}

TEST(ItemArena, KeepsItsItems) {
  item_arena arena;
  std::vector<variable_item> items;
  for (std::size_t i = 0; i < 3000; ++i) {
    const std::string text(i % 700, static_cast<char>('a' + i % 26));
    items.push_back(arena.copy(std::as_bytes(std::span(text))).value());
  }
  for (std::size_t i = 0; i < items.size(); ++i)
    EXPECT_EQ(items[i].text(), std::string(i % 700, static_cast<char>('a' + i % 26)));
  EXPECT_FALSE(arena.allocate(std::uint64_t{1} << 60).ok());
  auto owner = std::make_shared<int>(1);
  arena.keep(owner);
  EXPECT_EQ(owner.use_count(), 2);
  arena.clear();
  EXPECT_EQ(owner.use_count(), 1);
  EXPECT_EQ(arena.bytes(), 0u);
}

}  // namespace
}  // namespace penstock::inline v0
