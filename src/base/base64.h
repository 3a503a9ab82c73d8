#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::inline v0 {

/// The letters of the digits 0 to 63. Source: RFC 4648, section 4.
inline constexpr std::string_view kBase64Letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The standard alphabet, padded. Source: RFC 4648, section 4.
std::string base64_encode(std::span<const std::byte> bytes);

/// Returns nullopt if `text` is not such an encoding: another character, a wrong length, padding in the middle.
std::optional<std::vector<std::byte>> base64_decode(std::string_view text);

}  // namespace penstock::inline v0
