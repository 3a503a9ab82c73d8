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

std::string as_utf8(std::string_view bytes) {
  static constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string out;
  out.reserve(bytes.size());
  for (std::size_t i = 0; i < bytes.size();) {
    const auto first = static_cast<unsigned char>(bytes[i]);
    // How many bytes follow, and the range of the first of them.
    unsigned more = 0, low = 0x80, high = 0xBF;
    if (first < 0x80) {
      out.push_back(bytes[i++]);
      continue;
    }
    if (first >= 0xC2 && first <= 0xDF) more = 1;
    if (first >= 0xE0 && first <= 0xEF) more = 2;
    if (first >= 0xF0 && first <= 0xF4) more = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
    std::size_t valid = 1;
    for (; valid <= more && i + valid < bytes.size(); ++valid, low = 0x80, high = 0xBF) {
      const auto next = static_cast<unsigned char>(bytes[i + valid]);
      if (next < low || next > high) break;
    }
    if (more != 0 && valid == more + 1)
      out.append(bytes.substr(i, valid));
    else
      out.append(kReplacement);
    i += valid;
  }
  return out;
}

}  // namespace penstock::inline v0
