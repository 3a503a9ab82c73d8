#include "base/lookup3.h"

#include <bit>
#include <cstring>

namespace penstock::inline v0 {
namespace {

struct lookup3_state {
  std::uint32_t a, b, c;

  void mix() noexcept {
    constexpr int kTurns[] = {4, 6, 8, 16, 19, 4};
    for (int i = 0; i < 6; i += 3) {
      a -= c, a ^= std::rotl(c, kTurns[i]), c += b;
      b -= a, b ^= std::rotl(a, kTurns[i + 1]), a += c;
      c -= b, c ^= std::rotl(b, kTurns[i + 2]), b += a;
    }
  }
  void finish() noexcept {
    c ^= b, c -= std::rotl(b, 14);
    a ^= c, a -= std::rotl(c, 11);
    b ^= a, b -= std::rotl(a, 25);
    c ^= b, c -= std::rotl(b, 16);
    a ^= c, a -= std::rotl(c, 4);
    b ^= a, b -= std::rotl(a, 14);
    c ^= b, c -= std::rotl(b, 24);
  }
  void add(const std::byte* at) noexcept {
    a += word(at);
    b += word(at + 4);
    c += word(at + 8);
  }
  static std::uint32_t word(const std::byte* at) noexcept {
    std::uint32_t value = 0;
    for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<std::uint32_t>(at[i]);
    return value;
  }
};

}  // namespace

std::uint32_t lookup3(std::span<const std::byte> bytes, std::uint32_t seed) noexcept {
  const std::uint32_t start = 0xdeadbeef + static_cast<std::uint32_t>(bytes.size()) + seed;
  lookup3_state state{start, start, start};
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left > 12; at += 12, left -= 12) {
    state.add(at);
    state.mix();
  }
  if (left > 0) {
    std::byte last[12] = {};
    std::memcpy(last, at, left);
    state.add(last);
    state.finish();
  }
  return state.c;
}

}  // namespace penstock::inline v0
