#include "cuda/encode_chain.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "codec/device_form.h"
#include "cuda/wave_arena.h"

namespace penstock::inline v0::cuda {
namespace {

std::optional<device::device_step> step_of(const byte_codec& codec) {
  const auto form = codec.form_on_device();
  if (!form || !form->encodes) return std::nullopt;
  switch (form->what) {
    case device_form::kind::lz4:
      return device::device_step{device::step_kind::lz4};
    case device_form::kind::crc32c:
      return device::device_step{device::step_kind::crc32c};
    case device_form::kind::zstd:
      return device::device_step{device::step_kind::zstd, 1, form->checksum ? 1u : 0u};
    case device_form::kind::shuffle:
      return device::device_step{device::step_kind::shuffle, form->item_bytes};
    default:
      return std::nullopt;
  }
}

/// Device memory of a wave: with 461 KiB for each block of zstd, it suffices for most of the warps that a large device
/// holds.
constexpr std::uint64_t kMostWaveBytes = std::uint64_t{1} << 30;

error refused(std::string what) { return {errc::unsupported, std::move(what)}; }

}  // namespace

result<device::encode_plan> plan_encode(const codec_chain& chain) {
  if (chain.type().variable_length()) return refused("items of variable length have no device encoder");
  if (!chain.stores_native_order())
    return refused(fmt::format("'{}' stores items in another order, which has no device encoder", chain.describe()));
  std::vector<device::device_step> steps;
  for (std::size_t i = 0; i < chain.stages(); ++i) {
    const auto step = step_of(chain.stage_codec(i));
    if (!step) return refused(chain.stage_codec(i).describe() + " has no device encoder");
    steps.push_back(*step);
  }
  auto made = device::encode_plan::make(steps, chain.decoded_bytes(), chain.max_encoded_bytes());
  if (!made.ok()) return refused(fmt::format("{} ('{}')", made.error().message(), chain.describe()));
  return made;
}

std::uint64_t most_wave_chunks(const device::encode_plan& plan, std::uint64_t memory_limit) {
  const std::uint64_t limit = std::min(kMostWaveBytes, memory_limit / (2 * kEncodeWavesAtOnce));
  return std::min<std::uint64_t>(kMostCells, limit / plan.bytes(1));
}

}  // namespace penstock::inline v0::cuda
