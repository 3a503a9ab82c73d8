#pragma once

// Kernels by number, name and argument, without dependence on CUDA: what the engine launches, and what a host without a
// GPU runs instead.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include <penstock/config.h>

namespace penstock::inline v0::device {

/// Every kernel of the fatbin except those of cuda/move. Its argument's type follows it (cuda/decode/descriptors.h,
/// nvcomp.h, cuda/encode/encode_parts.h, zstd_encode.h).
enum class kernel_id : std::uint32_t {
  zstd_literals,       ///< zstd_wave
  zstd_sequences,      ///< zstd_wave
  zstd_execute,        ///< zstd_wave
  zstd_checksum,       ///< zstd_wave
  lz,                  ///< part_wave; a part's parameter is an lz_format
  inflate,             ///< part_wave; a part's parameter is a deflate_format
  lz4_frame,           ///< part_wave
  lzw,                 ///< part_wave
  delta,               ///< part_wave; a part's parameter is a delta_layout
  rows,                ///< rows_wave
  crc32c,              ///< part_wave; the last four bytes of each source
  transform,           ///< transform_wave
  library_check,       ///< library_wave
  shuffle,             ///< shuffle_wave
  encode_lz4,          ///< encode_wave
  encode_zstd,         ///< zstd_encode_wave
  encode_zstd_blocks,  ///< zstd_encode_blocks_wave
  join_zstd_blocks,    ///< the same
  append_crc32c,       ///< encode_wave
  nvcomp,              ///< nvcomp_call; not a kernel but a call on the stream, which the engine makes
};
inline constexpr int kKernels = 19;  ///< without nvcomp

/// The symbol of a kernel in the fatbin: `penstock_` and its name above.
const char* kernel_name(kernel_id kernel) noexcept;

/// One launch: one axis of thread blocks, static shared memory only, one structure by value as the only argument.
struct kernel_launch {
  kernel_id kernel;
  std::uint32_t grid;     ///< thread blocks
  std::uint32_t threads;  ///< per thread block, a multiple of 32
  std::uint32_t argument_bytes;
  alignas(8) std::array<std::byte, 160> argument;
  bool beside_last = false;  ///< reads nothing that the launch before it writes, so that both may run at the same time
};

template <class Argument>
kernel_launch make_launch(kernel_id kernel, std::uint32_t grid, std::uint32_t threads, const Argument& argument) {
  static_assert(std::is_trivially_copyable_v<Argument> && sizeof(Argument) <= sizeof(kernel_launch::argument));
  kernel_launch launch{kernel, grid, threads, sizeof argument, {}, false};
  std::memcpy(launch.argument.data(), &argument, sizeof argument);
  return launch;
}

}  // namespace penstock::inline v0::device
