#pragma once

#include <cstddef>
#include <span>

#include <penstock/result.h>

namespace penstock::inline v0 {

/// Decodes one Snappy block, without framing, into all of `out`.
/// \error corrupt_data  It decodes to another size, or refers to bytes before its beginning.
/// Source: Snappy, "format_description.txt".
result<> decode_snappy(std::span<const std::byte> block, std::span<std::byte> out);

}  // namespace penstock::inline v0
