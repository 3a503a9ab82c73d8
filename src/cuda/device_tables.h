#pragma once

#include <cstdint>
#include <span>

#include "cuda/cell_scan.h"
#include "cuda/device_wave.h"
#include "cuda/move_plan.h"
#include "cuda/parcel.h"

namespace penstock::inline v0::cuda {

/// Offset of each table in a wave's tail, in bytes. Uploaded tables are first.
struct wave_layout {
  std::uint64_t items = 0, axes = 0, runs = 0, tiles = 0, notes = 0, patterns = 0;
  std::uint64_t statuses = 0, status_bytes = 0;  ///< uploaded as zeros: a memset would be one more kernel
  std::uint64_t uploaded = 0;
  std::uint64_t total = 0;
};

/// Adds the scanned cells of a batch to a wave. `report` belongs to their read. Returns false if the wave has no space
/// for their tables and workspace; the wave is unchanged then.
result<bool> add_cells(device_wave& wave, const parcel& of, const cell_scan& scanned, device_address report);
/// Adds a fill of the wanted part of a cell. Returns false if the wave has no space, as above.
bool add_fill(device_wave& wave, const placement& where, std::span<const std::byte> item);

/// Cuts the moves into tiles and returns the length of the tables.
wave_layout lay_out(device_wave& wave);
/// Writes the tables into `wave.tables`, with the addresses that they will have in `wave.tail`.
void write(device_wave& wave, const wave_layout& layout);
move_parameters move_parameters_of(const device_wave& wave, const wave_layout& layout) noexcept;

}  // namespace penstock::inline v0::cuda
