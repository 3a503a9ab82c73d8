#include <algorithm>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <penstock/result.h>

namespace penstock::inline v0 {
namespace {

result<int> half(int value) {
  if (value % 2 != 0) return error(errc::invalid_argument, "odd");
  return value / 2;
}

result<int> quarter(int value) {
  PENSTOCK_ASSIGN(const int once, half(value));
  PENSTOCK_TRY(half(once));
  return once / 2;
}

TEST(Error, WritesTheCodeTheSentenceAndOneLineForEachNote) {
  const error failed =
      error(errc::corrupt_data, "chunk decoded to 4080 bytes, its shape needs 4096").note("inner").note("outer");
  EXPECT_EQ(failed.to_string(), "corrupt_data: chunk decoded to 4080 bytes, its shape needs 4096\n  inner\n  outer");
}

TEST(Error, CloneOwnsItsOwnText) {
  error first(errc::io_error, "gone");
  first.note("a");
  error second = first.clone();
  second.note("b");
  EXPECT_EQ(first.to_string(), "io_error: gone\n  a");
  EXPECT_EQ(second.to_string(), "io_error: gone\n  a\n  b");
}

TEST(Error, EveryCodeHasItsOwnName) {
  std::vector<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(errc::internal); ++code)
    names.push_back(to_string(static_cast<errc>(code)));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  EXPECT_EQ(to_string(errc::version_changed), "version_changed");
}

TEST(Result, TryAndAssignReturnTheFirstFailure) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(7).error().code(), errc::invalid_argument);
  EXPECT_EQ(quarter(6).error().message(), "odd");
}

}  // namespace
}  // namespace penstock::inline v0
