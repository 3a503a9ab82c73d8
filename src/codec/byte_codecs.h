#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include <penstock/codec.h>
#include "codec/codec_chain.h"

namespace penstock::inline v0 {

/// The factories that the registry lists, one for each bytes-to-bytes codec.
///
/// \error corrupt_data  A setting is absent, or of the wrong kind or range. \error unsupported  An unknown setting.
/// Source: Zarr v3 codec specifications of the same names.
using byte_codec_factory = result<std::shared_ptr<const byte_codec>>(const codec_config& config);
byte_codec_factory make_zstd_codec, make_gzip_codec, make_blosc_codec, make_crc32c_codec;

/// a + b, or the largest number where that leaves 64 bits: for bounds, which a buffer of that size never reaches.
constexpr std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) noexcept {
  return a > std::numeric_limits<std::uint64_t>::max() - b ? std::numeric_limits<std::uint64_t>::max() : a + b;
}

}  // namespace penstock::inline v0
