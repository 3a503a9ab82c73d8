#pragma once

#include <cstdint>
#include <string>

#include "codec/codec_chain.h"
#include "cuda/driver.h"

namespace penstock::inline v0::cuda {

/// Chunks that a write from device memory replaces as a whole, and which encoders may encode them.
struct encode_work {
  std::uint64_t chunks = 0;
  unsigned workers = 1;          ///< of the host
  unsigned multiprocessors = 0;  ///< of the device
  double clock_hz = 0;
  std::uint64_t memory_bytes = ~std::uint64_t{0};  ///< of the device, except for results; the default: no limit
};

struct encode_choice {
  bool on_device = false;
  double host_seconds = 0, device_seconds = 0;  ///< estimates; 0 if none was needed
  std::string why;
};

/// Chooses the encoder: the device only if it has encoders for all codecs and the model predicts that the host takes at
/// least twice as long. In the model, each host worker encodes at its codecs' rate on packed climate-like numbers, on
/// one core of an EPYC. The device has a warp for each chunk or block of a zstd frame, in waves that fit into its
/// memory; a warp's time is that of the machine code's cycles (docs/design/0021-device-encoders.md). Codecs with a
/// level that compresses more than the device's encoders are left to the host.
encode_choice choose_encoder(const codec_chain& chain, const encode_work& work);

/// The device's part of an encode_work. \error  The driver's.
result<encode_work> device_part_of(const driver& with, device_number device);

}  // namespace penstock::inline v0::cuda
