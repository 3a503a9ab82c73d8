#include "cuda/chain_split.h"

#include <optional>
#include <string_view>
#include <utility>

namespace penstock::inline v0::cuda {

namespace {

// Names as metadata has them: those of Zarr v3, and numcodecs' with their prefix.
std::string_view plain_name(std::string_view name) {
  constexpr std::string_view kPrefix = "numcodecs.";
  return name.substr(0, kPrefix.size()) == kPrefix ? name.substr(kPrefix.size()) : name;
}

// Codecs that need nothing of their settings to be decoded.
constexpr std::pair<std::string_view, device::step_kind> kDecoders[] = {
    {"zstd", device::step_kind::zstd}, {"lz4", device::step_kind::lz4},   {"blosc", device::step_kind::blosc},
    {"zlib", device::step_kind::zlib}, {"gzip", device::step_kind::gzip}, {"crc32c", device::step_kind::crc32c},
};

std::optional<device::device_step> step_of(const codec_chain& chain, std::size_t stage) {
  const codec_config& config = chain.stage_config(stage);
  const std::string_view name = plain_name(config.name);
  device::device_step step{};
  for (const auto& [known, kind] : kDecoders) {
    if (name != known) continue;
    step.kind = kind;
    return step;
  }
  if (name == "shuffle") {
    step.kind = device::step_kind::shuffle;
    std::uint64_t items = 4;  // numcodecs' default
    const json* const size = config.configuration.find("elementsize");
    if ((size != nullptr && !size->get(items)) || items < 1 || items > 65535) return std::nullopt;
    step.item_bytes = static_cast<std::uint32_t>(items);
    return step;
  }
  return std::nullopt;
}

}  // namespace

device_chain split_chain(const codec_chain& chain) {
  device_chain out;
  out.chain = &chain;
  if (chain.type().variable_length()) {
    out.reason = "items of variable length stay on the host";
    return out;
  }
  std::vector<device::device_step> steps;  // in encoding order
  for (std::size_t i = 0; i < chain.stages(); ++i) {
    const auto step = chain.stage_limit(i) == kUnbounded ? std::nullopt : step_of(chain, i);
    if (!step) {
      out.reason = std::string(chain.stage_codec(i).name()) + " has no device decoder";
      break;
    }
    steps.push_back(*step);
  }
  // The device begins with a decoder; what it cannot begin with goes to the host too.
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

}  // namespace penstock::inline v0::cuda
