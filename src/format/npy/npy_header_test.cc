#include "format/npy/npy_header.h"

#include <gtest/gtest.h>

namespace penstock::inline v0 {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string file_with(const std::string& literal, char major = 1) {
  std::string out = "\x93NUMPY";
  out.push_back(major);
  out.push_back('\0');
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) out.push_back(static_cast<char>(literal.size() >> 8 * i & 0xFF));
  return out + literal;
}

TEST(NpyHeader, IsReadAsItWasWritten) {
  for (const storage_order order : {storage_order::c, storage_order::fortran}) {
    for (const extents& shape : {extents{}, extents{7}, extents{3, 0, 5}}) {
      const std::string text = write_npy_header("'<f4'", order, shape);
      EXPECT_EQ(text.size() % 64, 0U);
      const auto header = parse_npy_header(bytes_of(text));
      ASSERT_TRUE(header.ok()) << header.error().to_string();
      EXPECT_EQ(header->descr, json("<f4"));
      EXPECT_EQ(header->order, order);
      EXPECT_EQ(header->shape, shape);
      EXPECT_EQ(header->data_offset, text.size());
    }
  }
}

TEST(NpyHeader, OfMoreDimensionsThanArraysHaveIsRefused) {
  const auto code_of = [](int rank) {
    std::string ones;
    for (int i = 0; i < rank; ++i) ones += "1, ";
    const auto header =
        parse_npy_header(bytes_of(file_with("{'descr': '<f4', 'fortran_order': False, 'shape': (" + ones + "), }\n")));
    return header.ok() ? errc::internal : header.error().code();
  };
  EXPECT_EQ(code_of(kMaxRank), errc::internal) << "it is readable";
  EXPECT_EQ(code_of(kMaxRank + 1), errc::unsupported);
  EXPECT_EQ(code_of(64), errc::unsupported) << "NumPy's most";
  EXPECT_EQ(code_of(65), errc::corrupt_data);
}

TEST(NpyHeader, TakesAVersionThatHasRoom) {
  std::string fields = "[";
  for (int i = 0; i < 5000; ++i) fields += "('field" + std::to_string(i) + "', '<f4'), ";
  const std::string long_one = write_npy_header(fields + "]", storage_order::c, {1});
  EXPECT_EQ(long_one[6], 2);
  EXPECT_TRUE(parse_npy_header(bytes_of(long_one)).ok());
  const std::string umlaut = write_npy_header("[('\xC3\xA4', '<f4')]", storage_order::c, {1});
  EXPECT_EQ(umlaut[6], 1);  // Latin-1
  EXPECT_NE(umlaut.find("'\xE4'"), std::string::npos);
  EXPECT_EQ(parse_npy_header(bytes_of(umlaut))->descr.as_array()->front().as_array()->front(), json("\xC3\xA4"));
  const std::string euro = write_npy_header("[('\xE2\x82\xAC', '<f4')]", storage_order::c, {1});
  EXPECT_EQ(euro[6], 3);
  EXPECT_EQ(parse_npy_header(bytes_of(euro))->descr.as_array()->front().as_array()->front(), json("\xE2\x82\xAC"));
}

// Source: NumPy 2, numpy.lib.format: spaces for 21 digits of the axis that grows.
TEST(NpyHeader, HasSpaceForAGrowingAxis) {
  const auto length = [](const std::string& descr, storage_order order, const extents& shape) {
    return write_npy_header(descr, order, shape).size();
  };
  const std::string fields = "[('a', '<f4'), ('bcdefgh', '<f8'), ('i', '<i4')]";
  EXPECT_EQ(length(fields, storage_order::c, {}), 128U);
  EXPECT_EQ(length(fields, storage_order::c, {5, 1}), 192U);
  EXPECT_EQ(length("'<f4'", storage_order::c, {5, 1}), 128U);
  const auto quoted = [](std::size_t count) { return "'" + std::string(count, 'x') + "'"; };
  EXPECT_EQ(length(quoted(64), storage_order::c, {}), 128U);
  EXPECT_EQ(length(quoted(65), storage_order::c, {}), 192U);  // one byte before the end of a line of 64
  const std::string same = "[('a', '<f4'), ('b', '<f8')]";
  EXPECT_EQ(length(same, storage_order::c, {1, 1234567890123456789}), 192U);
  EXPECT_EQ(length(same, storage_order::fortran, {1, 1234567890123456789}), 128U);
}

TEST(PythonDescr, EqualsTheTextOfNumpy) {
  EXPECT_EQ(*python_descr("<f4"), "'<f4'");
  EXPECT_EQ(*python_descr(R"([["a", "<i4"], ["", "|V4"], ["b", "<f8", [2, 3]], ["c", "<f8", [2]]])"),
            "[('a', '<i4'), ('', '|V4'), ('b', '<f8', (2, 3)), ('c', '<f8', (2,))]");
  EXPECT_EQ(*python_descr(R"([["it's", [["x", "<i2"]]]])"), R"([('it\'s', [('x', '<i2')])])");
  EXPECT_EQ(*python_descr(R"([[["title", "name"], "<i2"]])"), "[(('title', 'name'), '<i2')]");
  EXPECT_FALSE(python_descr("[1, ").ok());
  EXPECT_FALSE(python_descr("[null]").ok());
}

TEST(NpyHeader, OfFirstVersionsHasLatin1Names) {
  const auto header = parse_npy_header(
      bytes_of(file_with("{'descr': [('\xE4', '<f4', (2, 3))], 'fortran_order': False, 'shape': (3L, 4L), }\n")));
  ASSERT_TRUE(header.ok()) << header.error().to_string();
  EXPECT_EQ(header->descr.dump(), "[[\"\xC3\xA4\",\"<f4\",[2,3]]]");
  EXPECT_EQ(header->shape, (extents{3, 4}));
}

TEST(NpyHeader, WithoutSenseIsRefused) {
  const char* const bad[] = {
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)",
      "{'descr': '<f4', 'fortran_order': 0, 'shape': (3, 4)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, -4)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': 3}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
      "{'descr': '<f4', 'fortran_order': False}",
      "{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': ()}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (), 'more': 1}",
      "[]",
      "",
      "{'descr': '\\ud800', 'fortran_order': False, 'shape': ()}",
  };
  for (const char* each : bad)
    EXPECT_EQ(parse_npy_header(bytes_of(file_with(each))).error().code(), errc::corrupt_data) << each;
  const std::string deep = std::string(100, '(') + std::string(100, ')');
  EXPECT_EQ(parse_npy_header(bytes_of(file_with(deep))).error().code(), errc::corrupt_data);
}

TEST(NpyHeader, OfManyMembersIsRefusedBeforeTheyAreCompared) {
  std::string text = "{";
  for (int i = 0; i < 60000; ++i) text += "'" + std::to_string(i) + "': 0, ";
  const auto header = parse_npy_header(bytes_of(file_with(text + "}", 2)));
  ASSERT_EQ(header.error().code(), errc::corrupt_data);
  EXPECT_NE(header.error().to_string().find("too many members"), std::string::npos) << header.error().to_string();
}

TEST(NpyHeader, IsRefusedIfTruncatedAtAnyByte) {
  const std::string whole = write_npy_header("'<f4'", storage_order::c, {3, 4});
  for (std::size_t i = 0; i < whole.size(); ++i)
    EXPECT_EQ(parse_npy_header(bytes_of(whole.substr(0, i))).error().code(), errc::corrupt_data) << i;
}

TEST(NpyHeader, OfPickledObjectsIsRefused) {
  for (const char* descr : {"'|O'", "[('a', '<f4'), ('b', '|O')]", "[('a', [('b', 'O')])]"}) {
    const auto header = parse_npy_header(bytes_of(write_npy_header(descr, storage_order::c, {1})));
    EXPECT_EQ(header.error().code(), errc::unsupported) << descr;
  }
}

TEST(NpyHeader, OfFieldsWithTitlesIsRefused) {
  for (const char* descr : {"[(('title', 'a'), '<f4')]", "[('a', '<f4'), (('title', 'b'), '<f4', (2,))]",
                            "[('a', [(('title', 'b'), '<f4')])]"}) {
    const auto header = parse_npy_header(bytes_of(write_npy_header(descr, storage_order::c, {1})));
    EXPECT_EQ(header.error().code(), errc::unsupported) << descr;
  }
  // A shape, and names of fields, are not titles.
  for (const char* descr : {"[('a', '<f4', (2, 3)), ('b', '<f4')]", "[('a', [('b', '<f4'), ('c', '<f4')], (2,))]"})
    EXPECT_TRUE(parse_npy_header(bytes_of(write_npy_header(descr, storage_order::c, {1}))).ok()) << descr;
}

TEST(NpyHeader, LongerThanAnyIsRefusedBeforeMemoryIsTaken) {
  std::string text = file_with("", 2);
  text[11] = '\x7F';
  EXPECT_EQ(npy_header_bytes(bytes_of(text)).error().code(), errc::unsupported);
}

}  // namespace
}  // namespace penstock::inline v0
