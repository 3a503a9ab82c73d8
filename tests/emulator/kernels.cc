// Compiles the kernels as nvcc would, but for a CPU. Built with -fsanitize=thread, so that memory.cc is called for
// accesses.

#include "emulator/kernels.h"

#include <cassert>
#include <cstdint>
#include <cstring>

#include "emulator/cuda_names.h"

#define __CUDACC__ 1
#define __CUDA_ARCH__ 900
#define penstock penstock_on_device  // inline functions must not be merged with those of the host's form
#include "cuda/kernels/kernels.cu"

namespace emulator {
namespace {

template <auto Kernel, class Argument>
void run(const void* bytes) {
  alignas(Argument) std::byte argument[sizeof(Argument)];  // on the lane's stack: its own, as a parameter is
  std::memcpy(argument, bytes, sizeof argument);
  Kernel(*reinterpret_cast<const Argument*>(argument));
}

struct none {};

template <auto Kernel, class Shared = none, class Argument>
constexpr kernel kernel_of(const char* name, void (*)(Argument)) {
  return {name, sizeof(Argument), std::is_same_v<Shared, none> ? 0 : sizeof(Shared), run<Kernel, Argument>};
}

#define KERNEL(name, ...) kernel_of<name __VA_OPT__(, ) __VA_ARGS__>(#name, name)

constexpr kernel kKernels[] = {
    KERNEL(penstock_zstd_literals, zstd_literals_shared),
    KERNEL(penstock_zstd_sequences, zstd_sequences_shared),
    KERNEL(penstock_zstd_execute, zstd_execute_shared),
    KERNEL(penstock_zstd_checksum, zstd_checksum_shared),
    KERNEL(penstock_lz, lz_parts_shared),
    KERNEL(penstock_inflate, inflate_shared),
    KERNEL(penstock_lz4_frame, lz_parts_shared),
    KERNEL(penstock_lzw, lzw_shared),
    KERNEL(penstock_delta),
    KERNEL(penstock_rows),
    KERNEL(penstock_crc32c),
    KERNEL(penstock_library_check),
    KERNEL(penstock_transform),
    KERNEL(penstock_move),
    KERNEL(penstock_gather),
    KERNEL(penstock_encode_lz4, lz4_encode_shared),
    KERNEL(penstock_encode_zstd, zstd_encode_shared),
    KERNEL(penstock_encode_zstd_blocks, zstd_encode_block_shared),
    KERNEL(penstock_join_zstd_blocks, zstd_join_shared),
    KERNEL(penstock_append_crc32c),
    KERNEL(penstock_shuffle),
};

}  // namespace

const kernel* find_kernel(std::string_view name) {
  for (const kernel& each : kKernels)
    if (each.name == name) return &each;
  return nullptr;
}

}  // namespace emulator
