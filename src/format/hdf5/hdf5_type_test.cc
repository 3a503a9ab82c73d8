#include "format/hdf5/hdf5_type.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

#include "format/hdf5/hdf5_values.h"

namespace penstock::inline v0 {
namespace {

using bytes = std::vector<std::byte>;

bytes of(std::initializer_list<unsigned> values) {
  bytes out;
  for (const unsigned each : values) out.push_back(static_cast<std::byte>(each));
  return out;
}

// A little-endian integer of `size` bytes that uses all of its bits.
bytes integer(unsigned size, bool is_signed = true) {
  return of({0x10, is_signed ? 8U : 0U, 0, 0, size, 0, 0, 0, 0, 0, 8 * size, 0});
}

bytes operator+(bytes a, const bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

result<hdf5_type> parse(const bytes& message) {
  hdf5_cursor cursor(message);
  return parse_hdf5_type(cursor);
}

TEST(Hdf5Type, ReadsIntegersOfAnyWidthWithUnusedBits) {
  // 10 bits from bit 3 of 3 bytes, big-endian.
  const auto type = parse(of({0x10, 9, 0, 0, 3, 0, 0, 0, 3, 0, 10, 0}));
  ASSERT_TRUE(type.ok());
  EXPECT_EQ(type->bytes, 3U);
  EXPECT_TRUE(type->big_endian);
  EXPECT_TRUE(type->is_signed);
  EXPECT_EQ(type->bit_offset, 3U);
  EXPECT_EQ(type->precision, 10U);
  const auto bad = parse(of({0x10, 8, 0, 0, 2, 0, 0, 0, 8, 0, 9, 0}));
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code(), errc::corrupt_data);
}

TEST(Hdf5Type, OffsetsInCompoundsHaveTheWidthOfTheCompound) {
  // Version 3: names without padding, offsets of 1 byte for a compound of 12 bytes.
  const auto type = parse(of({0x36, 2, 0, 0, 12, 0, 0, 0, 'a', 0, 0}) + integer(4) + of({'b', 'c', 0, 8}) + integer(2));
  ASSERT_TRUE(type.ok()) << type.error().message();
  ASSERT_EQ(type->members.size(), 2U);
  EXPECT_EQ(type->members[1].name, "bc");
  EXPECT_EQ(type->members[1].offset, 8U);
  EXPECT_FALSE(parse(of({0x36, 1, 0, 0, 12, 0, 0, 0, 'a', 0, 9}) + integer(4)).ok());
}

TEST(Hdf5Type, MembersWithDimensionsOfVersionOneAreArrays) {
  bytes message = of({0x16, 1, 0, 0, 24, 0, 0, 0, 'a', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0});
  message = message + of({0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}) + integer(4);
  const auto type = parse(message);
  ASSERT_TRUE(type.ok()) << type.error().message();
  EXPECT_EQ(type->members[0].type.what, hdf5_type::kind::array);
  EXPECT_EQ(type->members[0].type.extents, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(type->members[0].type.bytes, 24U);
}

TEST(Hdf5Type, RefusesEndlessNestingAndWrongArraySizes) {
  bytes message;
  for (int i = 0; i < 40; ++i) message = message + of({0x19, 0, 0, 0, 16, 0, 0, 0});
  const auto deep = parse(message + integer(4));
  ASSERT_FALSE(deep.ok());
  EXPECT_NE(deep.error().message().find("nested deeper than 32"), std::string::npos);
  EXPECT_FALSE(parse(of({0x3A, 0, 0, 0, 9, 0, 0, 0, 1, 2, 0, 0, 0}) + integer(4)).ok());
  EXPECT_TRUE(parse(of({0x3A, 0, 0, 0, 8, 0, 0, 0, 1, 2, 0, 0, 0}) + integer(4)).ok());
}

TEST(Hdf5Type, EveryTruncatedMessageIsRefused) {
  const bytes whole = of({0x36, 2, 0, 0, 12, 0, 0, 0, 'a', 0, 0}) + integer(4) + of({'b', 'c', 0, 8}) + integer(2);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto cut = parse(bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)));
    ASSERT_FALSE(cut.ok()) << length;
    EXPECT_EQ(cut.error().code(), errc::corrupt_data) << length;
  }
}

TEST(Hdf5Text, ReplacesBytesThatAreNotUtf8) {
  const std::string replaced = "\xEF\xBF\xBD";
  EXPECT_EQ(hdf5_text("gr\xC3\xBCn"), "gr\xC3\xBCn");
  EXPECT_EQ(hdf5_text("a\xFF"
                      "b"),
            "a" + replaced + "b");
  EXPECT_EQ(hdf5_text("\xF0\x9F\x98"), replaced);                        // the beginning of one character
  EXPECT_EQ(hdf5_text("\xED\xA0\x80"), replaced + replaced + replaced);  // a surrogate
  EXPECT_EQ(hdf5_text("\xC0\x80"), replaced + replaced);                 // longer than necessary for its code point
}

}  // namespace
}  // namespace penstock::inline v0
