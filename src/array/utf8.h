#pragma once

#include <cstddef>
#include <span>

namespace penstock::inline v0 {

/// Well-formed UTF-8: no surrogates, nothing overlong, nothing beyond U+10FFFF.
/// Source: Unicode standard, table 3-7.
bool is_utf8(std::span<const std::byte> bytes) noexcept;

}  // namespace penstock::inline v0
