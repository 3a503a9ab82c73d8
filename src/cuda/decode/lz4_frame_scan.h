#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <penstock/result.h>

namespace penstock::inline v0::device {

/// Checks the headers of LZ4 frames on the host; the device reads them again.
///
/// \error corrupt_data  They contradict the format, or their size differs from `decoded_bytes`.
/// \error unsupported   A frame needs a dictionary.
result<> check_lz4_frames(std::span<const std::byte> bytes, std::uint64_t decoded_bytes);

}  // namespace penstock::inline v0::device
