#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::inline v0 {

/// Elements whose bits share a byte of a plane.
inline constexpr std::size_t kBitGroup = 8;

/// Bit j of byte i becomes bit i of byte j.
inline std::uint64_t transpose_bits(std::uint64_t x) noexcept {
  std::uint64_t t = (x ^ x >> 7) & 0x00AA00AA00AA00AA;
  x ^= t ^ t << 7;
  t = (x ^ x >> 14) & 0x0000CCCC0000CCCC;
  x ^= t ^ t << 14;
  t = (x ^ x >> 28) & 0x00000000F0F0F0F0;
  return x ^ t ^ t << 28;
}

/// Elements from their bit planes: plane 8 j + b has bit b of byte j of every element, eight elements a byte, the first
/// lowest. Source: the layout that bitshuffle documents.
///
/// \param elements  A multiple of kBitGroup.
inline void unshuffle_bits(const std::uint8_t* from, std::uint8_t* to, std::size_t elements,
                           std::size_t item) noexcept {
  const std::size_t plane = elements / kBitGroup;
  for (std::size_t j = 0; j < item; ++j) {
    const std::uint8_t* const planes = from + 8 * j * plane;
    for (std::size_t i = 0; i < plane; ++i) {
      std::uint64_t bits = 0;
      for (std::size_t b = 0; b < 8; ++b) bits |= std::uint64_t{planes[b * plane + i]} << (8 * b);
      bits = transpose_bits(bits);
      std::uint8_t* const out = to + kBitGroup * i * item + j;
      for (std::size_t k = 0; k < kBitGroup; ++k) out[k * item] = static_cast<std::uint8_t>(bits >> (8 * k));
    }
  }
}

}  // namespace penstock::inline v0
