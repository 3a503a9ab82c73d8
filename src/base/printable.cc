#include "base/printable.h"

#include <fmt/format.h>

#include <cstddef>

namespace penstock::inline v0 {
namespace {

std::string escaped_controls(std::string_view text, bool keeps_lines) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto at = static_cast<unsigned char>(text[i]);
    const unsigned next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
    if (at == 0xc2 && next >= 0x80 && next <= 0x9f) {  // U+0080 to U+009F are control characters, too
      out += fmt::format("\\x{:02x}", next);
      ++i;
    } else if (keeps_lines && (at == '\n' || at == '\t')) {
      out += text[i];
    } else if (at == '\n') {
      out += "\\n";
    } else if (at < 0x20 || at == 0x7f) {
      out += fmt::format("\\x{:02x}", at);
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return escaped_controls(text, false); }
std::string printable_lines(std::string_view text) { return escaped_controls(text, true); }

std::string_view first_characters(std::string_view text, std::size_t most) noexcept {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return text.substr(0, most);
}

}  // namespace penstock::inline v0
