#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace penstock::inline v0 {

/// Well-formed UTF-8: no surrogates, nothing overlong, nothing beyond U+10FFFF.
/// Source: Unicode standard, table 3-7.
bool is_utf8(std::span<const std::byte> bytes) noexcept;

/// UTF-8 in which U+FFFD replaces each longest part that is not valid. Source: Unicode Standard 15, section 3.9.
std::string as_utf8(std::string_view bytes);

}  // namespace penstock::inline v0
