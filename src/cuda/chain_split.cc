#include "cuda/chain_split.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "codec/portable_form.h"
#include "cuda/decode/numbers.h"
#include "cuda/decode/step_settings.h"
#include "cuda/decode/zstd_scan.h"

namespace penstock::inline v0::cuda {

namespace {

// Names as metadata has them: those of Zarr v3, and numcodecs' with their prefix.
std::string_view plain_name(std::string_view name) {
  constexpr std::string_view kPrefix = "numcodecs.";
  return name.substr(0, kPrefix.size()) == kPrefix ? name.substr(kPrefix.size()) : name;
}

// Codecs that need nothing of their settings to be decoded.
constexpr std::pair<std::string_view, device::step_kind> kPlainDecoders[] = {
    {"zstd", device::step_kind::zstd}, {"lz4", device::step_kind::lz4},   {"blosc", device::step_kind::blosc},
    {"zlib", device::step_kind::zlib}, {"gzip", device::step_kind::gzip}, {"crc32c", device::step_kind::crc32c},
};

std::optional<device::device_step> step_of(const portable_form& form) {
  using kind = portable_form::kind;
  using place = portable_form::padding_place;
  device::device_step step{};
  switch (form.what) {
    case kind::tiff_lzw:
      step.kind = device::step_kind::lzw;
      return step;
    case kind::tiff_packbits:
      step.kind = device::step_kind::packbits;
      return step;
    case kind::tiff_deflate:
      step.kind = device::step_kind::zlib_or_more;
      return step;
    case kind::tiff_zstd:
      step.kind = device::step_kind::zstd;
      return step;
    case kind::reversed_bits:
      step.kind = device::step_kind::reverse_bits;
      return step;
    case kind::delta: {
      const bool is_signed = form.encoded.kind >= number::int8 && form.encoded.kind <= number::int64;
      const device::delta_layout how{item_bytes(form.encoded.kind), item_bytes(form.decoded.kind), is_signed,
                                     form.encoded.swapped, form.decoded.swapped};
      step.kind = device::step_kind::delta;
      step.settings = how.parameter();
      return step;
    }
    case kind::packed_bits:
      step.kind = device::step_kind::unpack_bits;
      step.settings = (form.highest_first ? device::kHighestBitFirst : 0) |
                      (form.padding == place::first_byte  ? device::kPaddingInFirstByte
                       : form.padding == place::last_byte ? device::kPaddingInLastByte
                                                          : 0);
      return step;
    case kind::tiff_samples:
      break;
  }
  const tiff_samples& from = *form.samples;
  const bool complex = from.kind == sample_kind::complex_floating;
  constexpr std::uint64_t kMost = 0xffffffffU;
  if (from.kind == sample_kind::complex_integer || from.mask || from.rows > kMost || from.width > kMost ||
      form.picked.size() > device::kMostPicked)
    return std::nullopt;
  // Items of other widths are unpacked on the host.
  if (from.bits != 8 && from.bits != 16 && from.bits != 32 && from.bits != 64 && from.bits != 128) return std::nullopt;
  step.kind = device::step_kind::rows;
  step.rows.rows = static_cast<std::uint32_t>(from.rows);
  step.rows.width = static_cast<std::uint32_t>(from.width);
  step.rows.samples = from.samples;
  step.rows.item_bytes = from.bits / 8;
  step.rows.unit_bytes = complex && from.predictor == 1 ? from.bits / 16 : std::min(from.bits / 8, 8U);
  step.rows.predictor = from.predictor;
  step.rows.big_endian = from.big_endian ? 1 : 0;
  step.rows.wanted = static_cast<std::uint32_t>(form.picked.size());
  for (std::size_t j = 0; j < form.picked.size(); ++j) {
    if (form.picked[j] > 255) return std::nullopt;
    step.rows.picked[j] = static_cast<std::uint8_t>(form.picked[j]);
  }
  return step;
}

std::optional<device::device_step> step_of(const codec_chain& chain, std::size_t stage) {
  const codec_config& config = chain.stage_config(stage);
  const std::string_view name = plain_name(config.name);
  if (const auto* const portable = dynamic_cast<const has_portable_form*>(&chain.stage_codec(stage))) {
    const auto form = portable->portable();
    return form ? step_of(*form) : std::nullopt;
  }
  device::device_step step{};
  for (const auto& [known, kind] : kPlainDecoders) {
    if (name != known) continue;
    step.kind = kind;
    return step;
  }
  // The first codec gets the array's items; what a later one gets are bytes of an earlier one.
  return device::step_of_settings(name, config.configuration, stage == 0 ? chain.type().item_bytes() : 0);
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
    const std::uint64_t limit = chain.stage_limit(i);
    const auto step = limit == kUnbounded ? std::nullopt : step_of(chain, i);
    // As the scan of every chunk would say, one by one.
    if (step && step->kind == device::step_kind::zstd && limit > device::kMostZstdBytes) {
      out.reason = "zstd of more than 128 MiB has no device decoder";
      break;
    }
    if (step && limit > device::kMostChunkBytes) {
      out.reason = "chunks of more than 4032 MiB have no device decoder";
      break;
    }
    if (!step) {
      // Of a codec that has one, these settings have none.
      const byte_codec& codec = chain.stage_codec(i);
      const bool known = dynamic_cast<const has_portable_form*>(&codec) != nullptr;
      out.reason = (known ? codec.describe() : std::string(codec.name())) + " has no device decoder";
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

json to_json(const device_chain& split) {
  json::array_t host, device;
  for (std::size_t i = split.chain->stages(); i-- > 0;)
    (i >= split.device_stages ? host : device).push_back(json(split.chain->stage_codec(i).describe()));
  return json::object_t{{"host", std::move(host)}, {"device", std::move(device)}, {"reason", split.reason}};
}

}  // namespace penstock::inline v0::cuda
