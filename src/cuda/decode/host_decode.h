#pragma once

// The device decoders on the host: the same wave, descriptors and kernels, run one after the other in the calling
// thread.

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include <penstock/result.h>

#include "cuda/decode/wave.h"

namespace penstock::inline v0::device {

/// Decodes one chunk to exactly `out.size()` bytes, as a device would.
///
/// \error corrupt_data, unsupported  As from `decode_wave::add` and the status words.
result<> decode_on_host(std::span<const device_step> steps, std::span<const std::byte> encoded,
                        std::span<std::byte> out);

/// The step that decodes the codec that Zarr and numcodecs call `name`: zstd, lz4, snappy, blosc, zlib, gzip; deflate
/// and lz4_block for the formats inside those; lz4_frame, and TIFF's lzw and packbits.
///
/// "lz4" is a frame if `encoded` begins like one, and does not begin with `decoded_bytes` as numcodecs writes it.
/// \error unsupported  No device decoder has this name.
result<device_step> step_of_codec(std::string_view name, std::span<const std::byte> encoded,
                                  std::uint64_t decoded_bytes);

}  // namespace penstock::inline v0::device
