#include "cuda/chain_split.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "codec/device_form.h"
#include "cuda/decode/step_settings.h"
#include "cuda/decode/zstd_scan.h"

namespace penstock::inline v0::cuda {

device_chain split_chain(const codec_chain& chain) {
  device_chain out;
  out.chain = &chain;
  if (chain.type().variable_length()) {
    out.reason = "items of variable length stay on the host";
    return out;
  }
  std::vector<device::device_step> steps;  // in encoding order
  for (std::size_t i = 0; i < chain.stages(); ++i) {
    const std::uint64_t limit = chain.stage_limit(i);
    const byte_codec& codec = chain.stage_codec(i);
    const auto form = codec.form_on_device();
    const auto step = limit == kUnbounded || !form ? std::nullopt : device::step_of(*form);
    // Tries the codecs one by one, as the scan of a chunk does.
    if (step && step->kind == device::step_kind::zstd && limit > device::kMostZstdBytes) {
      out.reason = "zstd of more than 128 MiB has no device decoder";
      break;
    }
    if (step && limit > device::kMostChunkBytes) {
      out.reason = "chunks of more than 4032 MiB have no device decoder";
      break;
    }
    if (!step) {
      // If the device has the codec, its settings are the reason.
      out.reason = (form ? codec.describe() : std::string(codec.name())) + " has no device decoder";
      break;
    }
    steps.push_back(*step);
  }
  // The device begins with a decoder; the host also does the stages with which the device cannot begin.
  for (; !steps.empty(); steps.pop_back()) {
    const std::vector<device::device_step> decoding(steps.rbegin(), steps.rend());
    auto made = device::decode_wave::make(decoding);
    if (made.ok()) {
      out.steps = decoding;
      out.device_stages = steps.size();
      return out;
    }
    out.reason = made.error().message();
  }
  return out;
}

device_chain host_chain(const codec_chain& chain, std::string reason) {
  device_chain out;
  out.chain = &chain;
  out.reason = std::move(reason);
  return out;
}

std::string describe(const device_chain& split) {
  std::string out;
  for (std::size_t i = split.chain->stages(); i-- > 0;) {
    if (!out.empty()) out += ", ";
    out += split.chain->stage_codec(i).describe();
    if (i >= split.device_stages) {
      if (i == split.device_stages) out += " on the host (" + split.reason + ")";
    } else if (i == 0) {
      out += " on the device";
    }
  }
  return out.empty() ? "no codec" : out;
}

json to_json(const device_chain& split) {
  json::array_t host, device;
  for (std::size_t i = split.chain->stages(); i-- > 0;)
    (i >= split.device_stages ? host : device).push_back(json(split.chain->stage_codec(i).describe()));
  return json::object_t{{"host", std::move(host)}, {"device", std::move(device)}, {"reason", split.reason}};
}

}  // namespace penstock::inline v0::cuda
