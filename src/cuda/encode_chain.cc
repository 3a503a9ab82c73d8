#include "cuda/encode_chain.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace penstock::inline v0::cuda {
namespace {

// Metadata of Zarr v3 has numcodecs' names with their prefix.
std::string_view plain_name(std::string_view name) {
  constexpr std::string_view kPrefix = "numcodecs.";
  return name.substr(0, kPrefix.size()) == kPrefix ? name.substr(kPrefix.size()) : name;
}

std::optional<device::device_step> step_of(const codec_chain& chain, std::size_t stage) {
  const codec_config& config = chain.stage_config(stage);
  const std::string_view name = plain_name(config.name);
  if (name == "lz4") return device::device_step{device::step_kind::lz4};
  if (name == "crc32c") return device::device_step{device::step_kind::crc32c};
  if (name == "zstd") {
    const json* const given = config.configuration.find("checksum");
    const bool checksum = given != nullptr && given->as_bool() != nullptr && *given->as_bool();
    return device::device_step{device::step_kind::zstd, 1, checksum ? 1u : 0u};
  }
  if (name != "shuffle") return std::nullopt;
  // Where none is written, an item of the array is meant.
  std::uint64_t items = stage == 0 ? chain.type().item_bytes() : 0;
  const json* const given = config.configuration.find("elementsize");
  if (given != nullptr && !given->get(items)) return std::nullopt;
  if (items < 1 || items > 0xffff) return std::nullopt;
  return device::device_step{device::step_kind::shuffle, static_cast<std::uint32_t>(items)};
}

error refused(std::string what) { return {errc::unsupported, std::move(what)}; }

}  // namespace

result<device::encode_plan> plan_encode(const codec_chain& chain) {
  if (chain.type().variable_length()) return refused("items of variable length have no device encoder");
  if (!chain.stores_native_order())
    return refused(fmt::format("'{}' stores items in another order, which has no device encoder", chain.describe()));
  std::vector<device::device_step> steps;
  for (std::size_t i = 0; i < chain.stages(); ++i) {
    const auto step = step_of(chain, i);
    if (!step) return refused(chain.stage_codec(i).describe() + " has no device encoder");
    steps.push_back(*step);
  }
  auto made = device::encode_plan::make(steps, chain.decoded_bytes(), chain.max_encoded_bytes());
  if (!made.ok()) return refused(fmt::format("{} ('{}')", made.error().message(), chain.describe()));
  return made;
}

}  // namespace penstock::inline v0::cuda
