// The device's form of every kernel: the functions of cuda/decode, cuda/encode and cuda/move, with one warp for each
// thread block if lanes work together.

#include "cuda/decode/inflate.h"
#include "cuda/decode/library_check.h"
#include "cuda/decode/lz4_frame.h"
#include "cuda/decode/lz_formats.h"
#include "cuda/decode/lzw.h"
#include "cuda/decode/numbers.h"
#include "cuda/decode/transforms.h"
#include "cuda/decode/zstd_checksum.h"
#include "cuda/decode/zstd_execute.h"
#include "cuda/decode/zstd_literals.h"
#include "cuda/decode/zstd_sequences.h"
#include "cuda/encode/append_crc32c.h"
#include "cuda/encode/lz4_encode.h"
#include "cuda/encode/shuffles.h"
#include "cuda/encode/zstd_encode_blocks.h"
#include "cuda/move/move.h"

using namespace penstock::device;

extern "C" __global__ void __launch_bounds__(32) penstock_zstd_literals(zstd_wave wave) {
  __shared__ zstd_literals_shared shared;
  zstd_literals_warp(wave, blockIdx.x, shared, warp{});
}

extern "C" __global__ void __launch_bounds__(32) penstock_zstd_sequences(zstd_wave wave) {
  __shared__ zstd_sequences_shared shared;
  zstd_sequences_warp(wave, blockIdx.x, shared, warp{});
}

extern "C" __global__ void __launch_bounds__(256, 2) penstock_zstd_execute(zstd_wave wave) {
  static_assert(kExecuteWarps * kLanes == 256);
  __shared__ zstd_execute_shared shared;
  zstd_execute_part(wave, blockIdx.x, shared, blockDim.x);
}

extern "C" __global__ void __launch_bounds__(32) penstock_zstd_checksum(zstd_wave wave) {
  __shared__ zstd_checksum_shared shared;
  zstd_checksum_warp(wave, blockIdx.x, shared, warp{});
}

// Without a number of blocks, ptxas spills to stay at 64 registers, which allow 32 blocks.
extern "C" __global__ void __launch_bounds__(32, 20) penstock_lz(part_wave wave) {
  __shared__ lz_parts_shared shared;
  lz_warp(wave, blockIdx.x, shared, warp{});
}

extern "C" __global__ void __launch_bounds__(32) penstock_inflate(part_wave wave) {
  __shared__ inflate_shared shared;
  inflate_warp(wave, blockIdx.x, shared, warp{});
}

// Likewise, for sm_100.
extern "C" __global__ void __launch_bounds__(32, 16) penstock_lz4_frame(part_wave wave) {
  __shared__ lz_parts_shared shared;
  lz4_frame_warp(wave, blockIdx.x, shared, warp{});
}

extern "C" __global__ void __launch_bounds__(32) penstock_lzw(part_wave wave) {
  __shared__ lzw_shared shared;
  lzw_warp(wave, blockIdx.x, shared, warp{});
}

extern "C" __global__ void __launch_bounds__(32) penstock_delta(part_wave wave) {
  delta_warp(wave, blockIdx.x, warp{});
}

extern "C" __global__ void __launch_bounds__(32) penstock_rows(const __grid_constant__ rows_wave wave) {
  rows_warp(wave, blockIdx.x, warp{});
}

extern "C" __global__ void __launch_bounds__(32) penstock_crc32c(part_wave wave) {
  crc32c_warp(wave, blockIdx.x, warp{});
}

extern "C" __global__ void __launch_bounds__(32) penstock_library_check(library_wave wave) {
  library_check_warp(wave, blockIdx.x, warp{});
}

extern "C" __global__ void __launch_bounds__(256, 4) penstock_transform(transform_wave wave) {
  transform_thread(wave, blockIdx.x, threadIdx.x, blockDim.x);
}

extern "C" __global__ void __launch_bounds__(256) penstock_shuffle(shuffle_wave wave) {
  shuffle_thread(wave, blockIdx.x, threadIdx.x, blockDim.x);
}

extern "C" __global__ void __launch_bounds__(32) penstock_encode_lz4(encode_wave wave) {
  __shared__ lz4_encode_shared shared;
  encode_lz4_warp(wave, blockIdx.x, shared, warp{});
}

extern "C" __global__ void __launch_bounds__(32) penstock_encode_zstd(zstd_encode_wave wave) {
  __shared__ zstd_encode_shared shared;
  encode_zstd_warp(wave, blockIdx.x, shared, warp{});
}

extern "C" __global__ void __launch_bounds__(32) penstock_encode_zstd_blocks(zstd_encode_blocks_wave wave) {
  __shared__ zstd_encode_block_shared shared;
  encode_zstd_block_warp(wave, blockIdx.x, shared, warp{});
}

extern "C" __global__ void __launch_bounds__(32) penstock_join_zstd_blocks(zstd_encode_blocks_wave wave) {
  __shared__ zstd_join_shared shared;
  join_zstd_block_warp(wave, blockIdx.x, shared, warp{});
}

extern "C" __global__ void __launch_bounds__(32) penstock_append_crc32c(encode_wave wave) {
  append_crc32c_warp(wave, blockIdx.x, warp{});
}

// Likewise for sm_80 and sm_90, to stay at 32.
extern "C" __global__ void __launch_bounds__(penstock::cuda::kMoveThreads, 5)
    penstock_move(penstock::cuda::move_parameters with) {
  penstock::cuda::move_block(with, blockIdx.x, threadIdx.x, blockDim.x);
}

extern "C" __global__ void __launch_bounds__(penstock::cuda::kMoveThreads)
    penstock_gather(const __grid_constant__ penstock::cuda::gather_parameters with) {
  penstock::cuda::gather_block(with, blockIdx.x, threadIdx.x, blockDim.x);
}
