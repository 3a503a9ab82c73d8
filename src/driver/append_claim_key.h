#pragma once

#include <string_view>

namespace penstock::inline v0 {

/// The key of the claim, which exists next to an array's metadata while a writer appends or resizes: neither metadata
/// nor data of the array. See docs/design/0020-appends.md.
inline constexpr std::string_view kClaimKey = ".penstock-append";

}  // namespace penstock::inline v0
