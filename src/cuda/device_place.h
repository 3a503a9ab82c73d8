#pragma once

#include <optional>
#include <string>

#include "cuda/driver.h"

namespace penstock::inline v0::cuda {

/// Whether the device's kernels read page-locked memory by its host address and about as fast as their own: the memory
/// is shared (integrated devices), or a coherent link exists and the device uses the host's page tables (Grace Hopper).
bool reads_host_memory(const driver& with, device_number device) noexcept;

/// The NUMA node of the host that is nearest to the device: from the driver or, before 12.2, from the system's data
/// about its place on the PCI bus. Returns nullopt if neither has one.
/// \param system_files  The folder of the system's data; for tests.
std::optional<unsigned> host_node_of(const driver& with, device_number device,
                                     const std::string& system_files = "/sys/bus/pci/devices");

}  // namespace penstock::inline v0::cuda
