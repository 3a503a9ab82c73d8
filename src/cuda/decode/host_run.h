#pragma once

// Kernels and waves on the host, in the calling thread. The emulator in tests/ replaces these two functions by its own,
// which run the device's branches.

#include <cstdint>
#include <vector>

#include "cuda/decode/launch.h"
#include "cuda/decode/wave.h"

namespace penstock::inline v0::device {

/// Runs the host form of a kernel with all its thread blocks, in the calling thread: the same source, with the 32 lanes
/// as a loop.
///
/// `argument` is the kernel's structure; its addresses are those of host memory. Never reads or writes outside of the
/// memory in the descriptors, whatever the encoded bytes are.
void run_on_host(kernel_id kernel, std::uint32_t grid, std::uint32_t threads, const void* argument);

/// Runs the launches that a wave emits for host addresses. \returns The status words.
std::vector<std::uint32_t> run_wave_on_host(const decode_wave& wave);

}  // namespace penstock::inline v0::device
