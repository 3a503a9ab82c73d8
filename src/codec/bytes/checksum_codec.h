#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "codec/byte_codecs.h"

namespace penstock::inline v0 {

/// A 32-bit checksum of all bytes, with a seed, which is 0 for most checksums.
using checksum_function = std::uint32_t (*)(std::span<const std::byte> bytes, std::uint32_t seed) noexcept;

/// The position of the checksum.
enum class checksum_place : std::uint8_t { start, end };

/// A codec that adds a checksum of 32 bits, little-endian, to the content and checks it. Decoding does not move bytes.
/// \param name  Must outlive the codec.
compiled_codec make_checksum_codec(std::string_view name, checksum_function function, checksum_place place,
                                   const stage_type& input, std::uint32_t seed = 0);

/// numcodecs' setting `location`.
/// \error corrupt_data  Neither "start" nor "end". \error unsupported  An unknown setting.
result<checksum_place> checksum_place_of(const codec_config& config, checksum_place absent);

}  // namespace penstock::inline v0
