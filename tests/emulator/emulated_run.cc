// Replaces src/cuda/decode/host_run.cc: the decoders' tests, unchanged, run the code that the device compiles.

#include <cstdlib>
#include <memory>
#include <new>

#include "cuda/decode/host_run.h"
#include "cuda/decode/warp.h"
#include "emulator/emulator.h"
#include "emulator/kernels.h"

namespace penstock::inline v0::device {
namespace {

constexpr std::align_val_t kAligned{256};

struct aligned_free {
  void operator()(std::byte* block) const { ::operator delete(block, kAligned); }
};

std::unique_ptr<std::byte, aligned_free> allocate(std::uint64_t bytes) {
  return std::unique_ptr<std::byte, aligned_free>(static_cast<std::byte*>(::operator new(bytes, kAligned)));
}

std::uint64_t address_of(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

// Announces the sources and targets of a launch. Those within the workspace are announced already.
template <class Wave>
void give_parts(const kernel_launch& launch, std::uint64_t workspace, std::uint64_t workspace_end) {
  Wave wave;
  std::memcpy(&wave, launch.argument.data(), sizeof wave);
  const auto outside = [&](std::uint64_t at) { return at < workspace || at >= workspace_end; };
  const auto* const parts = reinterpret_cast<const decode_part*>(wave.parts);
  for (std::uint32_t i = 0; i < wave.part_count; ++i) {
    const decode_part& part = parts[i];
    if (outside(part.target))
      emulator::give_memory(reinterpret_cast<const void*>(part.target), part.target_bytes, "the target",
                            emulator::content::unwritten, emulator::use::write);
  }
  for (std::uint32_t i = 0; i < wave.part_count; ++i) {
    const decode_part& part = parts[i];
    if (outside(part.source) && part.source != part.target)
      emulator::give_memory(reinterpret_cast<const void*>(part.source), part.source_bytes, "the source",
                            emulator::content::written, emulator::use::read);
  }
}

void give_parts_of(const kernel_launch& launch, std::uint64_t workspace, std::uint64_t end) {
  switch (launch.kernel) {
    case kernel_id::zstd_literals:
    case kernel_id::zstd_sequences:
    case kernel_id::zstd_execute:
    case kernel_id::zstd_checksum:
      return give_parts<zstd_wave>(launch, workspace, end);
    case kernel_id::transform:
      return give_parts<transform_wave>(launch, workspace, end);
    case kernel_id::rows:
      return give_parts<rows_wave>(launch, workspace, end);
    case kernel_id::library_check:
      return give_parts<library_wave>(launch, workspace, end);
    default:
      return give_parts<part_wave>(launch, workspace, end);
  }
}

}  // namespace

void run_on_host(kernel_id kernel, std::uint32_t grid, std::uint32_t threads, const void* argument) {
  const emulator::kernel* const found = emulator::find_kernel(kernel_name(kernel));
  if (found == nullptr) std::abort();
  emulator::give_memory(argument, found->argument_bytes, "the argument", emulator::content::written,
                        emulator::use::read);
  emulator::launch(grid, threads, found->shared_bytes, [&] { found->lane(argument); });
}

std::vector<std::uint32_t> run_wave_on_host(const decode_wave& wave) {
  const auto descriptors = allocate(wave.descriptor_bytes()), workspace = allocate(wave.workspace_bytes());
  std::vector<std::uint32_t> statuses(wave.chunks(), 0);
  std::vector<kernel_launch> launches;
  wave.emit({descriptors.get(), wave.descriptor_bytes()}, address_of(descriptors.get()), address_of(workspace.get()),
            address_of(statuses.data()), launches);
  emulator::forget_memory();
  const std::uint64_t begin = address_of(workspace.get()), end = begin + wave.workspace_bytes();
  for (const kernel_launch& launch : launches) give_parts_of(launch, begin, end);
  emulator::give_memory(descriptors.get(), wave.descriptor_bytes(), "the descriptors", emulator::content::written,
                        emulator::use::read);
  emulator::give_memory(workspace.get(), wave.workspace_bytes(), "the workspace", emulator::content::unwritten,
                        emulator::use::write);
  emulator::give_memory(statuses.data(), statuses.size() * sizeof(statuses[0]), "the statuses",
                        emulator::content::written, emulator::use::write);
  // Tests run each decoder in three orders of the lanes.
  emulator::set_turn(static_cast<emulator::turn>(host_lane_order));
  for (const kernel_launch& launch : launches)
    run_on_host(launch.kernel, launch.grid, launch.threads, launch.argument.data());
  return statuses;
}

}  // namespace penstock::inline v0::device
