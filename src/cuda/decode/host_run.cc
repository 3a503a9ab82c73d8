#include "cuda/decode/host_run.h"

#include <memory>
#include <new>

#include "cuda/decode/inflate.h"
#include "cuda/decode/library_check.h"
#include "cuda/decode/lz4_frame.h"
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

namespace penstock::inline v0::device {
namespace {

constexpr int kLeftBytes = 0xa5;

template <class Argument>
Argument argument_of(const void* bytes) {
  Argument argument;
  std::memcpy(&argument, bytes, sizeof argument);
  return argument;
}

// A kernel of one warp per thread block, with `Shared` as its shared memory, which keeps its earlier content.
template <class Argument, class Shared, class Body>
void run_warps(std::uint32_t grid, const void* bytes, Body&& body) {
  const auto argument = argument_of<Argument>(bytes);
  const auto shared = std::make_unique<Shared>();  // on the heap, so that a sanitizer detects accesses outside of it
  for (std::uint32_t group = 0; group < grid; ++group) {
    std::memset(static_cast<void*>(shared.get()), kLeftBytes, sizeof(Shared));
    body(argument, group, *shared, warp{});
  }
}

// A kernel whose threads do not communicate.
template <class Argument, class Body>
void run_threads(std::uint32_t grid, std::uint32_t threads, const void* bytes, Body&& body) {
  const auto argument = argument_of<Argument>(bytes);
  for (std::uint32_t block = 0; block < grid; ++block)
    for (std::uint32_t thread = 0; thread < threads; ++thread) body(argument, block, thread, threads);
}

constexpr std::align_val_t kAligned{256};

struct aligned_free {
  void operator()(std::byte* block) const { ::operator delete(block, kAligned); }
};
using aligned_block = std::unique_ptr<std::byte, aligned_free>;

aligned_block allocate(std::uint64_t bytes) {
  return aligned_block(static_cast<std::byte*>(::operator new(bytes, kAligned)));
}

std::uint64_t address_of(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

}  // namespace

void run_on_host(kernel_id kernel, std::uint32_t grid, std::uint32_t threads, const void* argument) {
  switch (kernel) {
    case kernel_id::zstd_literals:
      return run_warps<zstd_wave, zstd_literals_shared>(grid, argument,
                                                        [](auto&&... all) { zstd_literals_warp(all...); });
    case kernel_id::zstd_sequences:
      return run_warps<zstd_wave, zstd_sequences_shared>(grid, argument,
                                                         [](auto&&... all) { zstd_sequences_warp(all...); });
    case kernel_id::zstd_execute:
      return run_warps<zstd_wave, zstd_execute_shared>(
          grid, argument, [&](const zstd_wave& wave, std::uint32_t turn, zstd_execute_shared& shared, warp) {
            zstd_execute_part(wave, turn, shared, threads);
          });
    case kernel_id::zstd_checksum:
      return run_warps<zstd_wave, zstd_checksum_shared>(grid, argument,
                                                        [](auto&&... all) { zstd_checksum_warp(all...); });
    case kernel_id::lz:
      return run_warps<part_wave, lz_parts_shared>(grid, argument, [](auto&&... all) { lz_warp(all...); });
    case kernel_id::inflate:
      return run_warps<part_wave, inflate_shared>(grid, argument, [](auto&&... all) { inflate_warp(all...); });
    case kernel_id::lz4_frame:
      return run_warps<part_wave, lz_parts_shared>(grid, argument, [](auto&&... all) { lz4_frame_warp(all...); });
    case kernel_id::lzw:
      return run_warps<part_wave, lzw_shared>(grid, argument, [](auto&&... all) { lzw_warp(all...); });
    case kernel_id::delta:
      return run_warps<part_wave, char>(
          grid, argument,
          [](const part_wave& wave, std::uint32_t turn, char&, warp lanes) { delta_warp(wave, turn, lanes); });
    case kernel_id::rows:
      return run_warps<rows_wave, char>(
          grid, argument,
          [](const rows_wave& wave, std::uint32_t group, char&, warp lanes) { rows_warp(wave, group, lanes); });
    case kernel_id::crc32c:
      return run_warps<part_wave, char>(
          grid, argument,
          [](const part_wave& wave, std::uint32_t turn, char&, warp lanes) { crc32c_warp(wave, turn, lanes); });
    case kernel_id::transform:
      return run_threads<transform_wave>(grid, threads, argument, [](auto&&... all) { transform_thread(all...); });
    case kernel_id::library_check:
      return run_warps<library_wave, char>(grid, argument,
                                           [](const library_wave& wave, std::uint32_t turn, char&, warp lanes) {
                                             library_check_warp(wave, turn, lanes);
                                           });
    case kernel_id::shuffle:
      return run_threads<shuffle_wave>(grid, threads, argument, [](auto&&... all) { shuffle_thread(all...); });
    case kernel_id::encode_lz4:
      return run_warps<encode_wave, lz4_encode_shared>(grid, argument, [](auto&&... all) { encode_lz4_warp(all...); });
    case kernel_id::encode_zstd:
      return run_warps<zstd_encode_wave, zstd_encode_shared>(grid, argument,
                                                             [](auto&&... all) { encode_zstd_warp(all...); });
    case kernel_id::encode_zstd_blocks:
      return run_warps<zstd_encode_blocks_wave, zstd_encode_block_shared>(
          grid, argument, [](auto&&... all) { encode_zstd_block_warp(all...); });
    case kernel_id::join_zstd_blocks:
      return run_warps<zstd_encode_blocks_wave, zstd_join_shared>(grid, argument,
                                                                  [](auto&&... all) { join_zstd_block_warp(all...); });
    case kernel_id::append_crc32c:
      return run_warps<encode_wave, char>(grid, argument,
                                          [](const encode_wave& wave, std::uint32_t turn, char&, warp lanes) {
                                            append_crc32c_warp(wave, turn, lanes);
                                          });
    case kernel_id::nvcomp:
      return;
  }
}

std::vector<std::uint32_t> run_wave_on_host(const decode_wave& wave) {
  const aligned_block descriptors = allocate(wave.descriptor_bytes()), workspace = allocate(wave.workspace_bytes());
  std::vector<std::uint32_t> statuses(wave.chunks(), 0);
  std::vector<kernel_launch> launches;
  wave.emit({descriptors.get(), wave.descriptor_bytes()}, address_of(descriptors.get()), address_of(workspace.get()),
            address_of(statuses.data()), launches);
  for (const kernel_launch& launch : launches)
    run_on_host(launch.kernel, launch.grid, launch.threads, launch.argument.data());
  return statuses;
}

}  // namespace penstock::inline v0::device
