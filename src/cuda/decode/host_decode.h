#pragma once

// The device decoders on the host: the same wave, descriptors and kernels, run one after the other in the calling
// thread.

#include <cstddef>
#include <span>

#include <penstock/result.h>

#include "cuda/decode/wave.h"

namespace penstock::inline v0::device {

/// Decodes one chunk to exactly `out.size()` bytes, as a device would.
///
/// \error corrupt_data, unsupported  As `decode_wave::add` and the status words say.
result<> decode_on_host(std::span<const device_step> steps, std::span<const std::byte> encoded,
                        std::span<std::byte> out);

/// Runs what a wave emits for host addresses. \returns The status words.
std::vector<std::uint32_t> run_wave_on_host(const decode_wave& wave);

}  // namespace penstock::inline v0::device
