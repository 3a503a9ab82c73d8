#include "base/base64.h"

#include <cstdint>

namespace penstock::inline v0 {
std::string base64_encode(std::span<const std::byte> bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    const std::size_t here = bytes.size() - i < 3 ? bytes.size() - i : 3;
    for (std::size_t k = 0; k < 3; ++k) group = group << 8 | (k < here ? static_cast<std::uint32_t>(bytes[i + k]) : 0);
    for (std::size_t k = 0; k < 4; ++k) out.push_back(k <= here ? kBase64Letters[group >> (18 - 6 * k) & 63] : '=');
  }
  return out;
}

std::optional<std::vector<std::byte>> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::vector<std::byte> out;
  out.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    std::size_t padding = 0;
    if (i + 4 == text.size()) {
      padding = text[i + 3] != '=' ? 0 : text[i + 2] != '=' ? 1 : 2;
    }
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const std::size_t digit = k < 4 - padding ? kBase64Letters.find(text[i + k]) : 0;
      if (digit == std::string_view::npos) return std::nullopt;
      group = group << 6 | static_cast<std::uint32_t>(digit);
    }
    for (std::size_t k = 0; k < 3 - padding; ++k) out.push_back(static_cast<std::byte>(group >> (16 - 8 * k) & 255));
  }
  return out;
}

}  // namespace penstock::inline v0
