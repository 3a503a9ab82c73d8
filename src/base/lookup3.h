#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::inline v0 {

/// Bob Jenkins' lookup3 hash of bytes (hashlittle), as HDF5 uses it for its metadata.
std::uint32_t lookup3(std::span<const std::byte> bytes, std::uint32_t seed) noexcept;

}  // namespace penstock::inline v0
