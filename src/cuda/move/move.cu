#include "cuda/move/move.h"

using namespace penstock::cuda;

extern "C" __global__ void __launch_bounds__(kMoveThreads) penstock_move(const move_parameters with) {
  move_block(with, blockIdx.x, threadIdx.x, blockDim.x);
}
