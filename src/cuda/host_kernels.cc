#include "cuda/host_kernels.h"

#include <array>
#include <cstddef>
#include <utility>

#include "cuda/decode/host_run.h"
#include "cuda/move/move.h"

namespace penstock::inline v0::cuda {
namespace {

void run_move(const void* parameters, unsigned grid, unsigned block) {
  const auto& with = *static_cast<const move_parameters*>(parameters);
  for (unsigned i = 0; i < grid; ++i)
    for (unsigned thread = 0; thread < block; ++thread) move_block(with, i, thread, block);
}

void run_gather(const void* parameters, unsigned grid, unsigned block) {
  const auto& with = *static_cast<const gather_parameters*>(parameters);
  for (unsigned i = 0; i < grid; ++i)
    for (unsigned thread = 0; thread < block; ++thread) gather_block(with, i, thread, block);
}

template <std::size_t Kernel>
void run_decoder(const void* parameters, unsigned grid, unsigned block) {
  device::run_on_host(static_cast<device::kernel_id>(Kernel), grid, block, parameters);
}

template <std::size_t... Kernel>
std::array<host_kernel, device::kKernels + 2> all_kernels(std::index_sequence<Kernel...>) {
  return {{{kMoveKernel, sizeof(move_parameters), run_move},
           {kGatherKernel, sizeof(gather_parameters), run_gather},
           {device::kernel_name(static_cast<device::kernel_id>(Kernel)), sizeof(device::kernel_launch::argument),
            run_decoder<Kernel>}...}};
}

}  // namespace

std::span<const host_kernel> host_kernels() noexcept {
  static const std::array<host_kernel, device::kKernels + 2> all =
      all_kernels(std::make_index_sequence<device::kKernels>());
  return all;
}

}  // namespace penstock::inline v0::cuda
