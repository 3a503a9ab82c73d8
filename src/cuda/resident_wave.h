#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/result.h>
#include "cuda/decode/wave.h"
#include "cuda/driver.h"
#include "cuda/kernel_module.h"

namespace penstock::inline v0::cuda {

/// Chunks of one codec chain that stay on a device and can be decoded repeatedly: to time the decoders without storage
/// and copies, and to inspect the output of each kernel.
///
/// Has its own stream, memory and kernels, and does not use an engine. Every call waits until the device is done. The
/// same chunks can be decoded on the host, by the kernels' host forms. Not thread-safe.
class resident_wave {
 public:
  struct chunk {
    std::span<const std::byte> encoded;  ///< borrowed by `make` only
    std::uint64_t decoded_bytes;
  };
  /// A range of the memory that kernels write.
  struct region {
    std::string_view name;
    std::vector<std::byte> bytes;
  };
  static constexpr int kHost = -1;

  /// Copies the chunks to the device; `clear` follows.
  ///
  /// \param ordinal  The device's number; kHost: the host decodes, and no driver is needed.
  /// \param library  Decodes the codecs that it supports in place of this library's kernels; null: none. Not on the
  /// host.
  /// \error corrupt_data, unsupported  As `decode_wave::add`, and `load_driver`. \error resource_exhausted  Memory.
  static result<std::unique_ptr<resident_wave>> make(int ordinal, std::span<const device::device_step> steps,
                                                     std::span<const chunk> chunks, const device::nvcomp* library);
  ~resident_wave();

  std::size_t launches() const noexcept { return launches_.size(); }
  /// The symbol of the kernel that a launch runs; "nvcomp" for a call of the library.
  std::string_view kernel(std::size_t launch) const noexcept;

  /// Fills outputs and workspace with one byte value that is easily recognised, and sets the statuses to 0.
  result<> clear();
  /// Runs one launch. Launches depend on earlier ones.
  result<> run(std::size_t launch);
  /// Clears outputs and statuses, and runs all launches without waiting between them.
  /// \returns Milliseconds of each by the device's events; zeros on the host.
  result<std::vector<float>> decode();

  /// The data that kernels pass to kernels: "intermediates" (between the steps of a chain) and, for zstd,
  /// "block_results", "frame_starts", "literals" and "sequences", as `zstd_wave` describes them.
  result<std::vector<region>> workspace() const;
  /// The decoded bytes of a chunk.
  result<std::vector<std::byte>> output(std::size_t number) const;
  /// By chunk: `chunk_status`.
  result<std::vector<std::uint32_t>> statuses() const;

 private:
  explicit resident_wave(device::decode_wave planned) noexcept : planned_(std::move(planned)) {}
  result<> start(int ordinal, std::span<const chunk> chunks);
  result<> queue(std::size_t launch);
  result<> fill(std::uint64_t at, std::byte value, std::uint64_t bytes);
  result<> write(std::uint64_t at, std::span<const std::byte> bytes);
  result<std::vector<std::byte>> read(std::uint64_t at, std::uint64_t bytes) const;
  result<> synchronize() const;

  device::decode_wave planned_;
  const device::nvcomp* library_ = nullptr;
  std::vector<device::kernel_launch> launches_;

  // The device's; null if the host decodes, with memory of the host.
  const driver* driver_ = nullptr;
  device_number device_ = 0;
  context_ref context_ = nullptr;
  stream_ref stream_ = nullptr;
  std::unique_ptr<kernel_module> kernels_;
  std::vector<event_ref> events_;
  std::vector<std::byte> host_memory_;
  std::uint64_t allocated_ = 0;

  // Addresses in the one block of memory.
  std::vector<std::uint64_t> sources_, targets_, target_bytes_;
  std::uint64_t statuses_ = 0, workspace_ = 0, first_target_ = 0, end_of_targets_ = 0;
};

}  // namespace penstock::inline v0::cuda
