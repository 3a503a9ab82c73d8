#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace penstock::inline v0 {

/// The little-endian number of `bytes` bytes, 0 to 8, at `from`.
inline std::uint64_t little_endian(const std::byte* from, std::size_t bytes) noexcept {
  const auto whole = [from]<class T>(T value) -> std::uint64_t {
    std::memcpy(&value, from, sizeof value);
    return value;
  };
  if constexpr (std::endian::native == std::endian::little) {
    switch (bytes) {  // the usual ones in one instruction each
      case 8:
        return whole(std::uint64_t{});
      case 4:
        return whole(std::uint32_t{});
      case 2:
        return whole(std::uint16_t{});
      default:
        break;
    }
  }
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<std::uint64_t>(from[i]);
  return value;
}

}  // namespace penstock::inline v0
