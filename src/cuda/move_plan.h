#pragma once

#include <cstdint>
#include <vector>

#include "array/conversion.h"
#include "cuda/move/move.h"
#include "plan/placement.h"

namespace penstock::inline v0::cuda {

/// The pattern that a fill reads: one item, or as many of it as fill 16 bytes.
struct fill_pattern {
  std::uint64_t address = 0;  ///< of the pattern on the device, 16-byte aligned
  bool repeats = false;       ///< it holds 16 bytes of whole items
};

/// Where a plan's rows go: behind those of others.
struct move_tables {
  std::vector<move_axis>& axes;
  std::vector<move_run>& runs;
};

/// Units of a tile: what one thread block moves.
std::uint64_t tile_units(const move_item& item) noexcept;

/// Describes the scatter of a decoded cell at `cell` (an address, or an offset that is as well aligned) to where the
/// read wants it: merges axes, then takes the widest unit that everything is aligned to.
///
/// Rows are appended to the tables; `item.first_axis` and `item.first_run` count from their begin.
move_item plan_scatter(const placement& where, const codec_chain& chain, std::uint64_t cell, const move_tables& tables);
/// The same where the elements become others on the way: strides of `where.target` are those of what they become.
move_item plan_convert(const placement& where, const codec_chain& chain, const conversion& how, std::uint64_t cell,
                       const move_tables& tables);
/// The reverse: the wanted elements from the caller's memory, whose strides are `where.target`'s, to `to` in C order.
/// `how` may convert nothing. `where` must be a box.
move_item plan_gather(const placement& where, const conversion& how, std::uint64_t to, std::vector<move_axis>& axes);
/// The same as `plan_scatter` for the fill value.
move_item plan_fill(const placement& where, std::uint32_t item_bytes, const fill_pattern& pattern,
                    const move_tables& tables);

}  // namespace penstock::inline v0::cuda
