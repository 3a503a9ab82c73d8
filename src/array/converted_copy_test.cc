#include "array/converted_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "array/strided_copy.h"

namespace penstock::inline v0 {
namespace {

const std::vector<std::string>& type_names() {
  static const std::vector<std::string> names = {"bool",     "int8",    "int16",   "int32",     "int64",
                                                 "uint8",    "uint16",  "uint32",  "uint64",    "float16",
                                                 "bfloat16", "float32", "float64", "complex64", "complex128"};
  return names;
}

// Every existing conversion.
template <class Each>
void for_each_conversion(const Each& each) {
  for (const std::string& from : type_names()) {
    for (const std::string& to : type_names()) {
      const dtype source = dtype::from_name(from).value(), target = dtype::from_name(to).value();
      const auto how = conversion_of(source, target);
      if (how.ok() && how->converts()) each(*how, source, from + " to " + to);
    }
  }
}

std::vector<std::byte> random_items(std::mt19937_64& random, std::size_t bytes, bool booleans) {
  std::vector<std::byte> out(bytes);
  for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t drawn = booleans ? random() & 0x0101010101010101 : random();
    std::memcpy(out.data() + at, &drawn, std::min(sizeof drawn, bytes - at));
  }
  return out;
}

TEST(ConvertItems, EqualsConvertingOneByOne) {
  std::mt19937_64 random(1);
  std::size_t seen = 0;
  for_each_conversion([&](const conversion& how, const dtype& from, const std::string& name) {
    ++seen;
    constexpr std::size_t kCount = 4099;
    // At an odd address: any alignment is valid.
    std::vector<std::byte> items = random_items(random, 1 + kCount * how.from_bytes, from.name() == "bool");
    std::vector<std::byte> made(1 + kCount * how.to_bytes), expected(kCount * how.to_bytes);
    convert_items(how, items.data() + 1, made.data() + 1, kCount);
    for (std::size_t i = 0; i < kCount; ++i)
      convert_item(how, items.data() + 1 + i * how.from_bytes, expected.data() + i * how.to_bytes);
    EXPECT_EQ(std::memcmp(made.data() + 1, expected.data(), expected.size()), 0) << name;
  });
  EXPECT_GE(seen, 100U);
}

// Longer than a megabyte, they are written past the caches, at any address.
TEST(ConvertLine, ManyElementsEqualFew) {
  std::mt19937_64 random(2);
  for_each_conversion([&](const conversion& how, const dtype& from, const std::string& name) {
    const std::size_t count = (std::size_t{1} << 20) / how.to_bytes + 5;
    const std::vector<std::byte> items = random_items(random, count * how.from_bytes, from.name() == "bool");
    std::vector<std::byte> expected(count * how.to_bytes);
    convert_items(how, items.data(), expected.data(), count);
    for (const std::size_t offset : {0, 1, 8, 15}) {
      const std::size_t end = offset + count * how.to_bytes;
      std::vector<std::byte> made(end + 1, std::byte{0x5a});
      convert_line(made.data() + offset, how.to_bytes, items.data(), how.from_bytes, count, how, 1);
      EXPECT_EQ(std::memcmp(made.data() + offset, expected.data(), expected.size()), 0) << name << ' ' << offset;
      EXPECT_EQ(std::count(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(offset), std::byte{0x5a}),
                static_cast<std::ptrdiff_t>(offset));
      EXPECT_EQ(made[end], std::byte{0x5a}) << name << ' ' << offset;
    }
  });
}

// Axes in any order and direction, with gaps.
strides random_strides(std::mt19937_64& random, const extents& counts, std::uint32_t item, std::int64_t& first,
                       std::size_t& bytes) {
  std::vector<std::size_t> order(counts.size());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
  std::shuffle(order.begin(), order.end(), random);
  strides out(counts.size());
  std::int64_t step = item;
  first = 0;
  for (const std::size_t d : order) {
    step += static_cast<std::int64_t>(random() % 3 == 0 ? random() % 5 : 0);
    out[d] = step;
    step *= static_cast<std::int64_t>(counts[d]);
    if (random() % 3 == 0) {
      first += out[d] * static_cast<std::int64_t>(counts[d] - 1);
      out[d] = -out[d];
    }
  }
  bytes = static_cast<std::size_t>(step) + item;
  return out;
}

TEST(StridedConvert, EqualsCopyingAndConvertingOneByOne) {
  std::mt19937_64 random(2);
  for_each_conversion([&](const conversion& how, const dtype& from, const std::string& name) {
    for (int round = 0; round < 12; ++round) {
      extents counts(random() % 4);
      for (std::uint64_t& each : counts) each = 1 + random() % (round == 0 ? 200 : 40);
      std::int64_t first_from = 0, first_to = 0;
      std::size_t bytes_from = 0, bytes_to = 0;
      const strides from_strides = random_strides(random, counts, how.from_bytes, first_from, bytes_from);
      const strides to_strides = random_strides(random, counts, how.to_bytes, first_to, bytes_to);
      const std::uint32_t swap = random() % 2 == 0 || from.item_bytes() == 1 ? 1 : from.swap_bytes();
      const std::vector<std::byte> items = random_items(random, bytes_from, from.name() == "bool");
      std::vector<std::byte> made(bytes_to), expected(bytes_to);
      strided_convert(made.data() + first_to, to_strides, items.data() + first_from, from_strides, counts, how, swap);

      std::vector<std::uint64_t> at(counts.size(), 0);
      for (bool more = true; more;) {
        std::int64_t f = first_from, t = first_to;
        for (std::size_t d = 0; d < counts.size(); ++d) {
          f += from_strides[d] * static_cast<std::int64_t>(at[d]);
          t += to_strides[d] * static_cast<std::int64_t>(at[d]);
        }
        std::byte item[16];
        swap_contiguous_portable(item, items.data() + f, how.from_bytes, swap);
        convert_item(how, item, expected.data() + t);
        std::size_t d = counts.size();
        for (; d > 0 && ++at[d - 1] == counts[d - 1]; --d) at[d - 1] = 0;
        more = d > 0;
      }
      ASSERT_EQ(made, expected) << name << " " << to_string(counts) << " swap " << swap;
    }
  });
}

}  // namespace
}  // namespace penstock::inline v0
