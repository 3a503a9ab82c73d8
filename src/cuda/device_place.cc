#include "cuda/device_place.h"

#include <fstream>

#include <fmt/format.h>

namespace penstock::inline v0::cuda {
namespace {

// Returns nullopt if the driver does not have the attribute.
std::optional<int> attribute_of(const driver& with, device_number device, int which) noexcept {
  int value = 0;
  if (with.device_get_attribute(&value, which, device) != kSuccess) return std::nullopt;
  return value;
}

}  // namespace

bool reads_host_memory(const driver& with, device_number device) noexcept {
  const auto has = [&](int which) { return attribute_of(with, device, which).value_or(0) != 0; };
  if (has(kAttributeUsesHostPageTables)) return true;
  // If the driver refuses to allocate page-locked memory, the ring registers its own.
  return has(kAttributeIntegrated) && has(kAttributeUsesRegisteredAddress);
}

std::optional<unsigned> host_node_of(const driver& with, device_number device, const std::string& system_files) {
  const auto as_node = [](int node) { return node < 0 ? std::nullopt : std::optional(static_cast<unsigned>(node)); };
  if (const auto told = attribute_of(with, device, kAttributeHostNode)) return as_node(*told);
  const auto domain = attribute_of(with, device, kAttributePciDomain);
  const auto bus = attribute_of(with, device, kAttributePciBus);
  const auto slot = attribute_of(with, device, kAttributePciDevice);
  if (!domain || !bus || !slot) return std::nullopt;
  std::ifstream file(fmt::format("{}/{:04x}:{:02x}:{:02x}.0/numa_node", system_files, *domain, *bus, *slot));
  int node = -1;
  return file >> node ? as_node(node) : std::nullopt;
}

}  // namespace penstock::inline v0::cuda
