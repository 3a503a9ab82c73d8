#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <penstock/result.h>
#include "cuda/decode/device_step.h"
#include "cuda/device_wave.h"
#include "cuda/driver.h"
#include "cuda/parcel.h"

namespace penstock::inline v0::cuda {

/// The batch of these steps, made at first need. At most `kKeptBatches` survive `trim_batches`.
/// \error unsupported  The device cannot run these steps.
result<std::uint32_t> batch_of(std::vector<std::unique_ptr<wave_batch>>& batches,
                               std::span<const device::device_step> steps, const device::library_use& by_library);
/// Removes all batches. Arrays with many chains, or many arrays, must not retain more batches than are useful.
void trim_batches(std::vector<std::unique_ptr<wave_batch>>& batches) noexcept;
inline constexpr std::size_t kKeptBatches = 32;

/// A cell of a transfer batch that has been placed in a wave.
struct scanned_cell {
  std::size_t cell = 0;                                 ///< its number in the batch
  std::uint32_t batch = kNoStatus, status = kNoStatus;  ///< numbers in the scan; kNoStatus: the device decodes nothing
  device_address decoded = 0;                           ///< where its elements are, or will be
};

/// The headers of a run of cells, read before a wave receives the cells: by one thread, without the engine's lock.
/// Reusable.
struct cell_scan {
  /// Reads the headers of a cell whose bytes will be at `encoded` on the device, and its decoded bytes at `decoded`.
  /// \error corrupt_data  The headers contradict their format. \error unsupported  The host must decode this cell. In
  /// both cases the scan is as before.
  result<> add(const parcel& of, std::size_t cell, device_address encoded, device_address decoded,
               const device::library_use& by_library);
  void clear() noexcept;

  std::vector<scanned_cell> cells;
  std::vector<std::unique_ptr<wave_batch>> batches;  ///< some may be empty: they are cached
};

}  // namespace penstock::inline v0::cuda
