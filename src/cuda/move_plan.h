#pragma once

#include <cstdint>
#include <vector>

#include "array/conversion.h"
#include "cuda/move/move.h"
#include "plan/placement.h"

namespace penstock::inline v0::cuda {

/// The pattern that a fill reads: one item, or as many repetitions of it as fill 16 bytes.
struct fill_pattern {
  std::uint64_t address = 0;  ///< of the pattern on the device, 16-byte aligned
  bool repeats = false;       ///< it holds 16 bytes of whole items
};

/// The tables that a plan's rows are appended to, after those of other plans.
struct move_tables {
  std::vector<move_axis>& axes;
  std::vector<move_run>& runs;
};

/// Units of a tile: the work of one thread block.
std::uint64_t tile_units(const move_item& item) noexcept;

/// Describes the scatter of a decoded cell at `cell` (an address, or an offset with the same alignment) to its
/// destination: merges axes, then takes the widest unit that everything is aligned to.
///
/// Rows are appended to the tables; `item.first_axis` and `item.first_run` count from their begin.
move_item plan_scatter(const placement& where, const codec_chain& chain, std::uint64_t cell, const move_tables& tables);
/// The same with a conversion of the elements: strides of `where.target` are those of the converted elements.
move_item plan_convert(const placement& where, const codec_chain& chain, const conversion& how, std::uint64_t cell,
                       const move_tables& tables);
/// The reverse: copies the wanted elements from the caller's memory, whose strides are those of `where.target`, to `to`
/// in C order. `how` may be no conversion. `where` must be a box.
move_item plan_gather(const placement& where, const conversion& how, std::uint64_t to, std::vector<move_axis>& axes);
/// The same as `plan_scatter` for the fill value.
move_item plan_fill(const placement& where, std::uint32_t item_bytes, const fill_pattern& pattern,
                    const move_tables& tables);

}  // namespace penstock::inline v0::cuda
