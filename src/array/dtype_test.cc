#include <penstock/dtype.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "array/dtype_names.h"
#include "array/item_swap.h"
#include "array/list_items.h"

namespace penstock::inline v0 {
namespace {

TEST(Dtype, ListsHaveItemsOfAFixedSize) {
  const dtype list = dtype::variable_list(dtype(dtype_kind::signed_integer, 16)).value();
  EXPECT_TRUE(list.variable_length());
  EXPECT_EQ(list.item_bytes(), 16U);
  EXPECT_EQ(list.item()->name(), "int16");
  EXPECT_TRUE(list.fields().empty());
  EXPECT_EQ(list.name(), "variable_length_list[int16]");
  EXPECT_EQ(list.numpy_typestr(), "|O");
  EXPECT_TRUE(list == dtype::variable_list(dtype(dtype_kind::signed_integer, 16)).value());
  EXPECT_FALSE(list == dtype::variable_list(dtype(dtype_kind::signed_integer, 32)).value());
  EXPECT_EQ(dtype::variable_list(dtype(dtype_kind::signed_integer, 4)).error().code(), errc::unsupported);
  EXPECT_EQ(dtype::variable_list(dtype::raw(0)).error().code(), errc::invalid_argument);
}

TEST(Dtype, ListsCanHaveArraysAsItems) {
  const dtype int16(dtype_kind::signed_integer, 16);
  const dtype pairs = dtype::variable_list(int16, {2, 3}).value();
  EXPECT_EQ(pairs.name(), "variable_length_list[int16 (2, 3)]");
  EXPECT_TRUE(*pairs.item() == int16);
  EXPECT_EQ(pairs.item_shape().size(), 2U);
  EXPECT_EQ(pairs.item_shape()[1], 3U);
  EXPECT_EQ(pairs.list_item_bytes(), 12U);
  EXPECT_EQ(dtype::variable_list(int16).value().list_item_bytes(), 2U);
  EXPECT_FALSE(pairs == dtype::variable_list(int16).value());
  EXPECT_FALSE(pairs == dtype::variable_list(int16, {3, 2}).value());
  EXPECT_TRUE(is_nested_list(pairs));
  EXPECT_TRUE(int16.item_shape().empty());
  EXPECT_EQ(dtype::variable_list(int16, {2, 0}).error().code(), errc::invalid_argument);
  EXPECT_EQ(dtype::variable_list(int16, {std::uint64_t{1} << 40, 2}).error().code(), errc::unsupported);
  EXPECT_EQ(dtype::variable_list(dtype::variable_utf8(), {2}).error().code(), errc::unsupported);
}

TEST(Dtype, ListsCanHaveListsAndTextAsItems) {
  const dtype int16(dtype_kind::signed_integer, 16);
  const dtype list = dtype::variable_list(int16).value();
  const dtype lists = dtype::variable_list(list).value();
  EXPECT_EQ(lists.name(), "variable_length_list[variable_length_list[int16]]");
  EXPECT_TRUE(*lists.item() == list);
  EXPECT_FALSE(lists == list);
  EXPECT_TRUE(is_nested_list(lists));
  EXPECT_FALSE(is_nested_list(list));
  EXPECT_FALSE(is_nested_list(int16));
  EXPECT_EQ(dtype::variable_list(dtype::variable_utf8()).value().item()->kind(), dtype_kind::variable_utf8);
  EXPECT_EQ(dtype::variable_list(dtype::object()).error().code(), errc::unsupported);
  dtype deep = int16;
  for (int i = 0; i < 32; ++i) deep = dtype::variable_list(deep).value();
  EXPECT_EQ(dtype::variable_list(deep).error().code(), errc::unsupported);
}

TEST(Dtype, ReadsBackItsName) {
  for (const char* name : {"bool",
                           "int2",
                           "int4",
                           "int8",
                           "int16",
                           "int32",
                           "int64",
                           "uint2",
                           "uint4",
                           "uint8",
                           "uint16",
                           "uint32",
                           "uint64",
                           "float16",
                           "float32",
                           "float64",
                           "bfloat16",
                           "complex64",
                           "complex128",
                           "r8",
                           "r24",
                           "string",
                           "variable_length_bytes",
                           "numpy.datetime64",
                           "numpy.timedelta64"}) {
    const auto type = dtype::from_name(name);
    ASSERT_TRUE(type.ok()) << name;
    EXPECT_EQ(type.value().name(), name);
  }
  EXPECT_EQ(dtype::from_name("variable_length_bytes").value(), dtype::from_name("bytes").value());
}

TEST(Dtype, NamesNumbersThatNumpyDoesNotHave) {
  const std::vector<std::string_view> names = numbers_without_typestr();
  EXPECT_EQ(names.size(), 16U);
  for (const std::string_view name : names) EXPECT_EQ(dtype::from_name(name).value().numpy_typestr(), "") << name;
  EXPECT_NE(std::find(names.begin(), names.end(), "float8_e5m2"), names.end());
}

TEST(Dtype, RefusesOtherNames) {
  for (const char* name : {"", "int", "int128", "float8", "r", "r0", "r7", "r-8", "r+8", "r08", "r8 ", "r4294967296",
                           "Int8", "fixed_length_utf32"}) {
    const auto type = dtype::from_name(name);
    ASSERT_FALSE(type.ok()) << name;
    EXPECT_EQ(type.error().code(), errc::unsupported);
  }
  EXPECT_EQ(dtype::from_name("int128").error().message(), "there is no data type named 'int128'");
}

TEST(Dtype, HasTheBytesAndSwapUnitsOfItsKind) {
  struct expectation {
    dtype type;
    std::uint32_t item_bytes, swap_bytes;
    const char* typestr;
  };
  const expectation all[] = {
      {{dtype_kind::boolean, 8}, 1, 1, "|b1"},      {{dtype_kind::signed_integer, 8}, 1, 1, "|i1"},
      {{dtype_kind::signed_integer, 4}, 1, 1, ""},  {{dtype_kind::unsigned_integer, 16}, 2, 2, "<u2"},
      {{dtype_kind::floating, 16}, 2, 2, "<f2"},    {{dtype_kind::floating, 64}, 8, 8, "<f8"},
      {{dtype_kind::brain_float, 16}, 2, 2, ""},    {{dtype_kind::complex, 64}, 8, 4, "<c8"},
      {{dtype_kind::complex, 128}, 16, 8, "<c16"},  {{dtype_kind::raw, 24}, 3, 1, "|V3"},
      {{dtype_kind::fixed_bytes, 40}, 5, 1, "|S5"}, {{dtype_kind::fixed_utf32, 96}, 12, 4, "<U3"},
      {{dtype_kind::datetime, 64}, 8, 8, "<M8"},    {{dtype_kind::timedelta, 64}, 8, 8, "<m8"},
      {{dtype_kind::variable_utf8, 0}, 16, 1, ""},  {{dtype_kind::variable_bytes, 0}, 16, 1, ""},
  };
  for (const expectation& each : all) {
    EXPECT_EQ(each.type.item_bytes(), each.item_bytes) << each.type.name();
    EXPECT_EQ(each.type.swap_bytes(), each.swap_bytes) << each.type.name();
    EXPECT_EQ(each.type.numpy_typestr(), each.typestr) << each.type.name();
  }
}

TEST(Dtype, ReadsBackWhatNumpyWrites) {
  for (const char* text : {"|b1", "|i1", "<i8", ">u2", "<f2", ">f8", "<c8", "|S5", "|S0", "<U3", ">U12", "|V7", "<M8",
                           "<m8[s]", ">M8[10ns]", "<M8[25us]", "<m8[Y]", "|O"}) {
    const auto parsed = dtype::from_numpy(text);
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(parsed->type.numpy_typestr(parsed->big_endian), text);
  }
  EXPECT_EQ(dtype::from_numpy("|O8")->type, dtype::object());
  EXPECT_EQ(dtype::from_numpy(">S3")->big_endian, false);
  EXPECT_EQ(dtype::from_numpy("<M8[10s]")->type, dtype::datetime(time_unit::second, 10));
  for (const char* text : {"", "<", "f4", "<f", ">f16", "<c4", "<i3", "<x4", "<f04", "<f-4", "<f4 ", "<M4", "<M8[",
                           "<M8[s", "<M8[0s]", "<M8[fortnight]", "<U4294967296", "|O4", "<c32"}) {
    EXPECT_FALSE(dtype::from_numpy(text).ok()) << text;
  }
}

TEST(Dtype, LaysOutStructures) {
  const dtype f8(dtype_kind::floating, 64), i1(dtype_kind::signed_integer, 8), u2(dtype_kind::unsigned_integer, 16);
  const dtype inner = dtype::structured({{"x", i1, 0, {}}, {"y", u2, 0, {}}}).value();
  EXPECT_EQ(inner.item_bytes(), 3u);
  const dtype outer = dtype::structured({{"a", f8, 0, {2, 3}}, {"it's", inner, 0, {}}}).value();
  EXPECT_EQ(outer.item_bytes(), 51u);
  EXPECT_EQ(outer.field("it's")->offset, 48u);
  EXPECT_EQ(outer.field("b"), nullptr);
  EXPECT_EQ(outer.numpy_descr(false), R"([('a', '<f8', (2, 3)), ('it\'s', [('x', '|i1'), ('y', '<u2')])])");
  EXPECT_TRUE(outer.has_byte_order());
  EXPECT_EQ(outer.swap_bytes(), 1u);
  EXPECT_EQ(leaf_count(outer), 3u);

  const dtype padded = dtype::structured({{"b", f8, 8, {}}, {"a", i1, 0, {1}}}, 24).value();
  EXPECT_EQ(padded.fields()[0].name, "a");
  EXPECT_EQ(padded.numpy_descr(true), "[('a', '|i1', (1,)), ('', '|V7'), ('b', '>f8'), ('', '|V8')]");
  EXPECT_FALSE(dtype::structured({{"a", i1, 0, {}}}).value().has_byte_order());
  EXPECT_EQ(dtype::structured({{"a", i1, 0, {}}}).value(), dtype::structured({{"a", i1, 0, {}}}, 1).value());
  EXPECT_FALSE(dtype::structured({{"a", i1, 0, {}}}).value() == dtype::structured({{"b", i1, 0, {}}}).value());
}

TEST(Dtype, RefusesInvalidStructures) {
  const dtype f8(dtype_kind::floating, 64);
  const auto code = [](std::vector<dtype_field> fields, std::uint32_t bytes = 0) {
    const auto made = dtype::structured(std::move(fields), bytes);
    return made.ok() ? errc::internal : made.error().code();
  };
  EXPECT_EQ(code({}), errc::invalid_argument);
  EXPECT_EQ(code({{"", f8, 0, {}}}), errc::invalid_argument);
  EXPECT_EQ(code({{"a", f8, 0, {}}, {"a", f8, 0, {}}}), errc::invalid_argument);
  EXPECT_EQ(code({{"a", f8, 0, {}}, {"b", f8, 4, {}}}, 16), errc::invalid_argument);
  EXPECT_EQ(code({{"a", f8, 9, {}}}, 16), errc::invalid_argument);
  EXPECT_EQ(code({{"a", dtype::variable_utf8(), 0, {}}}), errc::unsupported);
  EXPECT_EQ(code({{"a", f8, 0, {std::uint64_t{1} << 26}}}), errc::unsupported);
  EXPECT_EQ(code({{"a", f8, 0, {~std::uint64_t{0}, 3}}}), errc::unsupported);
  dtype deep = f8;
  errc last = errc::internal;
  for (int i = 0; i < 100 && last == errc::internal; ++i) {
    auto next = dtype::structured({{"a", deep, 0, {}}});
    if (next.ok()) {
      deep = *next;
    } else {
      last = next.error().code();
    }
  }
  EXPECT_EQ(last, errc::unsupported);
}

TEST(Dtype, SwapsEachFieldOfAStructure) {
  const dtype i4(dtype_kind::signed_integer, 32), u2(dtype_kind::unsigned_integer, 16),
      i1(dtype_kind::signed_integer, 8);
  const dtype inner = dtype::structured({{"x", i1, 0, {}}, {"y", u2, 0, {}}}).value();
  const dtype type = dtype::structured({{"a", i4, 0, {}}, {"b", inner, 0, {2}}, {"c", u2, 0, {}}}).value();
  const auto items = [](std::initializer_list<int> values) {
    std::vector<std::byte> made;
    for (const int value : values) made.push_back(static_cast<std::byte>(value));
    return made;
  };
  auto all = items({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31});
  auto some = all;
  swap_items(all.data(), 2, type, {});
  EXPECT_EQ(all, items({3, 2, 1, 0, 4, 6, 5, 7, 9, 8, 11, 10, 23, 22, 21, 20, 24, 26, 25, 27, 29, 28, 31, 30}));
  swap_items(some.data(), 2, type, {false, false, true, false});
  EXPECT_EQ(some, items({0, 1, 2, 3, 4, 6, 5, 7, 9, 8, 10, 11, 20, 21, 22, 23, 24, 26, 25, 27, 29, 28, 30, 31}));
}

}  // namespace
}  // namespace penstock::inline v0
