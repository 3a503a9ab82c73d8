#pragma once

namespace penstock::inline v0 {

/// TIFF's LZW codes below `kLzwClear` are bytes; `kLzwFirst` is the first that represents a string. Source: TIFF 6.0,
/// section 13.
inline constexpr unsigned kLzwClear = 256, kLzwEnd = 257, kLzwFirst = 258;

}  // namespace penstock::inline v0
