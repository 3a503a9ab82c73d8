#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace penstock::inline v0 {

/// A number and its noun, for texts: `1 chunk`, `0 chunks`, `3 axes`. `plural` is `noun` with an s if it is empty.
template <class Number>
std::string counted(Number count, std::string_view noun, std::string_view plural = {}) {
  if (count == 1) return fmt::format("{} {}", count, noun);
  return plural.empty() ? fmt::format("{} {}s", count, noun) : fmt::format("{} {}", count, plural);
}

/// `1.61 GB`, `512 bytes`: decimal units, three digits.
std::string bytes_text(double bytes);

}  // namespace penstock::inline v0
