#include "array/conversion.h"

#include <bit>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "codec/filters/number.h"

namespace penstock::inline v0 {
namespace {

dtype type_of(number which) { return dtype::from_name(to_string(which)).value(); }

bool is_signalling_half(std::uint64_t bits) { return (bits & 0x7E00) == 0x7C00 && (bits & 0x1FF) != 0; }
bool is_signalling_single(std::uint64_t bits) { return (bits & 0x7FC00000) == 0x7F800000 && (bits & 0x3FFFFF) != 0; }

// Values whose bits are at edges, and random ones. From and to 16 bits signalling NaN are not changed here, as in
// NumPy; the host's codecs make them quiet.
std::vector<std::uint64_t> bits_of(number kind) {
  std::vector<std::uint64_t> out;
  const std::uint32_t bytes = item_bytes(kind), bits = bytes * 8;
  if (bytes <= 2) {
    for (std::uint64_t i = 0; i < (std::uint64_t{1} << bits); ++i) {
      if (kind == number::boolean && i > 1) break;
      if (kind != number::float16 || !is_signalling_half(i)) out.push_back(i);
    }
    return out;
  }
  const std::uint64_t all = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  for (std::uint32_t at = 0; at < bits; ++at) {
    for (std::int64_t near = -2; near <= 2; ++near) {
      const std::uint64_t value = ((std::uint64_t{1} << at) + static_cast<std::uint64_t>(near)) & all;
      out.push_back(value);
      out.push_back(~value & all);
    }
  }
  std::mt19937_64 random(bits);
  for (int i = 0; i < 20000; ++i) {
    out.push_back(random() & all);
    if (kind == number::float32)
      out.push_back(std::bit_cast<std::uint32_t>(static_cast<float>(random() % 140000) * 0.5F - 30000.0F));
    if (kind == number::float64)
      out.push_back(std::bit_cast<std::uint64_t>(static_cast<double>(random() % 1400000) * 0.05 - 30000.0));
    // The subnormal numbers of 16 bits, and halves between them.
    if (kind == number::float32)
      out.push_back(std::bit_cast<std::uint32_t>(static_cast<float>(random() % 5000) * 0x1p-26F));
    if (kind == number::float64)
      out.push_back(std::bit_cast<std::uint64_t>(static_cast<double>(random() % 5000) * 0x1p-26));
  }
  return out;
}

TEST(Conversion, IsBitForBitThatOfTheHostsCodecs) {
  for (std::size_t i = 0; i < kNumbers; ++i) {
    for (std::size_t j = 0; j < kNumbers; ++j) {
      const auto from = static_cast<number>(i), to = static_cast<number>(j);
      const auto how = conversion_of(type_of(from), type_of(to));
      if (!how.ok() || !how->converts()) continue;
      for (const std::uint64_t bits : bits_of(from)) {
        if (from == number::float32 && to == number::float16 && is_signalling_single(bits)) continue;
        std::uint64_t expected = 0, made = 0;
        cast_of(from, to)(reinterpret_cast<const std::byte*>(&bits), reinterpret_cast<std::byte*>(&expected), 1);
        convert_item(*how, reinterpret_cast<const std::byte*>(&bits), reinterpret_cast<std::byte*>(&made));
        ASSERT_EQ(made, expected) << to_string(from) << " to " << to_string(to) << ": " << std::hex << bits;
      }
    }
  }
}

TEST(Conversion, ConvertsToTheSameOrHigherKindsOnly) {
  const auto outcome = [](const char* from, const char* to) {
    auto how = conversion_of(dtype::from_name(from).value(), dtype::from_name(to).value());
    return how.ok() ? errc{} : how.error().code();
  };
  for (const auto& [from, to] :
       {std::pair("bool", "int8"), std::pair("uint64", "int8"), std::pair("int64", "int8"),
        std::pair("int64", "float16"), std::pair("float64", "bfloat16"), std::pair("bfloat16", "float16"),
        std::pair("float64", "complex64"), std::pair("complex128", "complex64")})
    EXPECT_EQ(outcome(from, to), errc{}) << from << " to " << to;
  for (const auto& [from, to] : {std::pair("float32", "int32"), std::pair("int8", "uint8"), std::pair("int8", "bool"),
                                 std::pair("complex64", "float64")})
    EXPECT_EQ(outcome(from, to), errc::invalid_argument) << from << " to " << to;
  EXPECT_EQ(outcome("float32", "float8_e5m2"), errc::unsupported);
  EXPECT_EQ(outcome("complex_bfloat16", "complex64"), errc::unsupported);
  EXPECT_FALSE(
      conversion_of(dtype::from_name("float8_e5m2").value(), dtype::from_name("float8_e5m2").value())->converts());
}

TEST(Conversion, ConvertsComplexNumbersByTheirParts) {
  const auto how = conversion_of(dtype::from_name("complex128").value(), dtype::from_name("complex64").value()).value();
  const double from[2] = {1.0000000001, -2.5};
  float to[2] = {};
  convert_item(how, reinterpret_cast<const std::byte*>(from), reinterpret_cast<std::byte*>(to));
  EXPECT_EQ(to[0], 1.0F);
  EXPECT_EQ(to[1], -2.5F);
  const auto real = conversion_of(dtype::from_name("int16").value(), dtype::from_name("complex64").value()).value();
  const std::int16_t whole = -7;
  to[1] = 3;
  convert_item(real, reinterpret_cast<const std::byte*>(&whole), reinterpret_cast<std::byte*>(to));
  EXPECT_EQ(to[0], -7.0F);
  EXPECT_EQ(to[1], 0.0F);
}

}  // namespace
}  // namespace penstock::inline v0
