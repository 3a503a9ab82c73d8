#pragma once

#include "codec/codec_chain.h"
#include "cuda/encode/encode_plan.h"

namespace penstock::inline v0::cuda {

/// How the device encodes the cells of a chain: in C order and native byte order, with any number of `shuffle`, then
/// `lz4` or `zstd`, then `crc32c`, each of them optional. Levels and accelerations are those of the device's encoders,
/// whatever the chain says: they change the encoded size only.
/// \error unsupported  The device has no encoder for the chain. Names the codec.
result<device::encode_plan> plan_encode(const codec_chain& chain);

/// One wave of chunks is encoded while the cells of another are taken.
inline constexpr std::size_t kEncodeWavesAtOnce = 2;

/// How many chunks a wave has at most; 0: the encoder may not use the memory that one takes.
/// \param memory_limit  In bytes, of device memory for everything but results.
std::uint64_t most_wave_chunks(const device::encode_plan& plan, std::uint64_t memory_limit);

}  // namespace penstock::inline v0::cuda
