#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::inline v0 {

/// CRC-32C (Castagnoli) of `bytes`, by the processor's instruction if it has one. Continues from `so_far`, the checksum
/// of the bytes before. Source: RFC 3720, appendix B.4.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t so_far = 0) noexcept;

/// The same for every processor: eight table look-ups for eight bytes.
std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t so_far = 0) noexcept;

}  // namespace penstock::inline v0
