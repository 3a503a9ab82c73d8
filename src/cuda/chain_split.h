#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <penstock/extend/json.h>
#include "codec/codec_chain.h"
#include "cuda/decode/wave.h"

namespace penstock::inline v0::cuda {

/// How a chain is divided: the host decodes its last stages, from number `device_stages` on, and the device the rest.
///
/// A decode begins with the last stage, so the device's part is the stages before the first one that it does not
/// support. Byte order, transposes and the scatter are the device's in any case.
struct device_chain {
  const codec_chain* chain = nullptr;
  std::size_t device_stages = 0;
  std::vector<device::device_step> steps;  ///< the device's stages, in decoding order
  std::string reason;  ///< why the host decodes a stage: `bz2 has no device decoder`; empty: it decodes none

  bool decodes_on_device() const noexcept { return device_stages != 0; }
  bool decodes_on_host() const noexcept { return device_stages != chain->stages(); }
  /// Whether the stored bytes are the elements.
  bool is_raw() const noexcept { return !decodes_on_device() && !decodes_on_host(); }
};

device_chain split_chain(const codec_chain& chain);
/// The same, with all stages on the host: for cells that the device's decoders refuse.
device_chain host_chain(const codec_chain& chain, std::string reason);

/// In decoding order: `crc32c, zstd(level=0) on the device`, `bz2(level=1) on the host (bz2 has no device decoder),
/// shuffle(elementsize=4) on the device`.
std::string describe(const device_chain& split);
/// The same as `{"host": [...], "device": [...], "reason": "..."}`.
json to_json(const device_chain& split);

}  // namespace penstock::inline v0::cuda
