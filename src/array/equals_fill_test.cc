#include "array/equals_fill.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace penstock::inline v0 {
namespace {

template <class T>
bool equal(const std::vector<T>& values, T fill, const dtype& type) {
  const extents shape{values.size()};
  return equals_fill(reinterpret_cast<const std::byte*>(values.data()), c_order_strides(shape, sizeof(T)), shape,
                     reinterpret_cast<const std::byte*>(&fill), type);
}

TEST(EqualsFill, EveryNanIsTheSameAndZerosDiffer) {
  const dtype type = *dtype::from_name("float64");
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const auto other = std::bit_cast<double>(0xFFF8'0000'0000'1234U),
             signalling = std::bit_cast<double>(0x7FF0'0000'0000'0001U);
  EXPECT_TRUE(equal<double>({nan, other, signalling}, nan, type));
  EXPECT_TRUE(equal<double>({nan, nan}, other, type));
  EXPECT_FALSE(equal<double>({nan, inf}, nan, type));
  EXPECT_FALSE(equal<double>({nan, 0.0}, nan, type));
  EXPECT_FALSE(equal<double>({0.0, -0.0}, 0.0, type));
  EXPECT_FALSE(equal<double>({nan}, inf, type));
  EXPECT_TRUE(equal<double>({-0.0, -0.0}, -0.0, type));
  EXPECT_TRUE(equal<double>({}, 1.0, type));
  EXPECT_FALSE(equal<std::uint64_t>({std::bit_cast<std::uint64_t>(other)}, std::bit_cast<std::uint64_t>(nan),
                                    *dtype::from_name("int64")))
      << "an integer is not a NaN";
}

TEST(EqualsFill, PartsOfComplexNumbersAreComparedSeparately) {
  using number = std::complex<float>;
  const dtype type = *dtype::from_name("complex64");
  const float nan = std::numeric_limits<float>::quiet_NaN(), other = -nan;
  EXPECT_TRUE(equal<number>({{other, 1}, {nan, 1}}, {nan, 1}, type));
  EXPECT_FALSE(equal<number>({{nan, 2}}, {nan, 1}, type));
  EXPECT_FALSE(equal<number>({{1, nan}}, {nan, 1}, type));
  EXPECT_FALSE(equal<number>({{-0.0F, 0}}, {0, 0}, type));
}

// Equal numbers of a dtype, defined independently: all are replaced by the same bits.
std::uint64_t canonical(std::uint64_t bits, const std::string& name) {
  if (name == "int2" || name == "uint2") return bits & 0x03;
  if (name == "int4" || name == "uint4" || name == "float4_e2m1fn") return bits & 0x0F;
  if (name == "float6_e2m3fn" || name == "float6_e3m2fn") return bits & 0x3F;
  if (name == "float16") return (bits & 0x7FFF) > 0x7C00 ? 0x7E00 : bits;
  if (name == "bfloat16") return (bits & 0x7FFF) > 0x7F80 ? 0x7FC0 : bits;
  if (name == "float8_e3m4") return (bits & 0x70) == 0x70 && (bits & 0x0F) != 0 ? 0x78 : bits;
  if (name == "float8_e4m3") return (bits & 0x78) == 0x78 && (bits & 0x07) != 0 ? 0x7C : bits;
  if (name == "float8_e4m3fn") return (bits & 0x7F) == 0x7F ? 0x7F : bits;
  if (name == "float8_e5m2") return (bits & 0x7C) == 0x7C && (bits & 0x03) != 0 ? 0x7E : bits;
  return bits;
}

TEST(EqualsFill, EveryPairOfSmallNumbers) {
  for (const char* name : {"int8", "uint8", "bool", "int2", "uint2", "int4", "uint4", "float8_e3m4", "float8_e4m3",
                           "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
                           "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"}) {
    const auto type = dtype::from_name(name);
    ASSERT_TRUE(type.ok()) << name;
    for (unsigned a = 0; a < 256; ++a)
      for (unsigned b = 0; b < 256; ++b)
        ASSERT_EQ(equal<std::uint8_t>({static_cast<std::uint8_t>(a)}, static_cast<std::uint8_t>(b), *type),
                  canonical(a, name) == canonical(b, name))
            << name << " " << a << " " << b;
  }
  for (const char* name : {"float16", "bfloat16", "int16", "uint16"}) {
    const auto type = dtype::from_name(name);
    ASSERT_TRUE(type.ok()) << name;
    for (const unsigned b : {0U, 0x8000U, 0x7C00U, 0x7C01U, 0xFE00U, 0x7F80U, 0x7F81U, 0xFFC0U, 0xFFFFU, 0x3C00U})
      for (unsigned a = 0; a < 65536; ++a)
        ASSERT_EQ(equal<std::uint16_t>({static_cast<std::uint16_t>(a)}, static_cast<std::uint16_t>(b), *type),
                  canonical(a, name) == canonical(b, name))
            << name << " " << a << " " << b;
  }
}

TEST(EqualsFill, StridedBlocksAreComparedElementByElement) {
  std::mt19937_64 random(3);
  const dtype type = *dtype::from_name("float32");
  const std::uint32_t nans[] = {0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF};
  for (int round = 0; round < 2000; ++round) {
    const extents shape{1 + random() % 4, 1 + random() % 4, 1 + random() % 5};
    const extents memory{shape[0], 2 * shape[1], 3 * shape[2]};
    std::vector<std::uint32_t> values(memory[0] * memory[1] * memory[2], 7);
    strides steps = c_order_strides(memory, 4);
    steps[1] *= 2, steps[2] *= 3;
    const bool breaks = random() % 2 == 0;
    const std::uint64_t broken = random() % (shape[0] * shape[1] * shape[2]);
    std::uint64_t number = 0;
    for (std::uint64_t i = 0; i < shape[0]; ++i)
      for (std::uint64_t j = 0; j < shape[1]; ++j)
        for (std::uint64_t k = 0; k < shape[2]; ++k, ++number)
          values[(i * memory[1] + 2 * j) * memory[2] + 3 * k] =
              breaks && number == broken ? 0x7F800000 : nans[random() % 4];
    EXPECT_EQ(equals_fill(reinterpret_cast<const std::byte*>(values.data()), steps, shape,
                          reinterpret_cast<const std::byte*>(&nans[round % 4]), type),
              !breaks);
  }
}

}  // namespace
}  // namespace penstock::inline v0
