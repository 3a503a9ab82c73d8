#include <penstock/dtype.h>

#include <gtest/gtest.h>

namespace penstock::inline v0 {
namespace {

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

TEST(Dtype, RefusesOtherNames) {
  for (const char* name : {"", "int", "int128", "float8", "r", "r0", "r7", "r-8", "r+8", "r08", "r8 ", "r4294967296",
                           "Int8", "fixed_length_utf32"}) {
    const auto type = dtype::from_name(name);
    ASSERT_FALSE(type.ok()) << name;
    EXPECT_EQ(type.error().code(), errc::unsupported);
  }
  EXPECT_EQ(dtype::from_name("int128").error().message(), "there is no data type named 'int128'");
}

TEST(Dtype, KnowsItsBytesAndWhatASwapReverses) {
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

}  // namespace
}  // namespace penstock::inline v0
