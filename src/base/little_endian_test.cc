#include "base/little_endian.h"

#include <gtest/gtest.h>

#include <array>

namespace penstock::test {
namespace {

TEST(LittleEndian, NumbersOfZeroToEightBytesAtAnyAddress) {
  std::array<std::byte, 16> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(0xF1 - 13 * i);
  for (std::size_t at = 0; at < 8; ++at) {
    for (std::size_t count = 0; count <= 8; ++count) {
      std::uint64_t expected = 0;
      for (std::size_t i = 0; i < count; ++i) expected |= std::to_integer<std::uint64_t>(bytes[at + i]) << (8 * i);
      EXPECT_EQ(little_endian(bytes.data() + at, count), expected) << count << " bytes at " << at;
    }
  }
}

TEST(LittleEndian, AcceptsAnyAddressForZeroBytes) { EXPECT_EQ(little_endian(nullptr, 0), 0U); }

}  // namespace
}  // namespace penstock::test
