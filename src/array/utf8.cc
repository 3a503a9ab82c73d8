#include "array/utf8.h"

#include <cstdint>
#include <cstring>

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kNotAscii = 0x8080808080808080;

}  // namespace

bool is_utf8(std::span<const std::byte> bytes) noexcept {
  const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
  const auto* const end = at + bytes.size();
  while (at != end) {
    while (end - at >= 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, at, sizeof word);
      if ((word & kNotAscii) != 0) break;
      at += 8;
    }
    if (at == end) break;
    const unsigned first = *at++;
    if (first < 0x80) continue;
    const int rest = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (first < 0xc2 || first > 0xf4 || end - at < rest) return false;
    // Only the second byte's range depends on the first.
    const unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (at[0] < low || at[0] > high) return false;
    for (int i = 1; i < rest; ++i) {
      if (at[i] < 0x80 || at[i] > 0xbf) return false;
    }
    at += rest;
  }
  return true;
}

}  // namespace penstock::inline v0
