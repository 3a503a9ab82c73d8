#pragma once

#include "codec/codec_chain.h"
#include "cuda/encode/encode_plan.h"

namespace penstock::inline v0::cuda {

/// How the device encodes the cells of a chain: in C order and native byte order, with any number of `shuffle`, then
/// `lz4` or `zstd`, then `crc32c`, each of them optional. The device's encoders use levels and accelerations of their
/// own, not those of the chain: these affect the encoded size only.
/// \error unsupported  The device has no encoder for the chain. Names the codec.
result<device::encode_plan> plan_encode(const codec_chain& chain);

/// One wave of chunks is encoded while the cells of another are taken.
inline constexpr std::size_t kEncodeWavesAtOnce = 2;

/// The most chunks of a wave; 0: one chunk needs more memory than the encoder may use.
/// \param memory_limit  In bytes, of device memory for everything except results.
std::uint64_t most_wave_chunks(const device::encode_plan& plan, std::uint64_t memory_limit);

}  // namespace penstock::inline v0::cuda
