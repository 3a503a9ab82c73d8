#pragma once

#include <cstddef>
#include <span>

namespace penstock::inline v0 {

/// Fills `out` with the first decoded bytes of a DEFLATE stream; later ones are neither decoded nor checked.
///
/// For headers: libdeflate decodes whole streams only.
/// \param encoded  The stream, or as much of its beginning as `out` needs.
/// \returns Whether `out` was filled; false if `encoded` ends, or is invalid, before that. Source: RFC 1951.
bool inflate_head(std::span<const std::byte> encoded, std::span<std::byte> out) noexcept;

}  // namespace penstock::inline v0
