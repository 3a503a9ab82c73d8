#include "cuda/host_kernels.h"

#include "cuda/move/move.h"

namespace penstock::inline v0::cuda {
namespace {

void run_move(const void* parameters, unsigned grid, unsigned block) {
  const auto& with = *static_cast<const move_parameters*>(parameters);
  for (unsigned i = 0; i < grid; ++i)
    for (unsigned thread = 0; thread < block; ++thread) move_block(with, i, thread, block);
}

constexpr host_kernel kKernels[] = {{kMoveKernel, sizeof(move_parameters), run_move}};

}  // namespace

std::span<const host_kernel> host_kernels() noexcept { return kKernels; }

}  // namespace penstock::inline v0::cuda
