#pragma once

#include <penstock/plan.h>
#include "array/chunk_grid.h"
#include "codec/codec_chain.h"

namespace penstock::inline v0 {

/// The wanted part of one cell and where it goes in the caller's memory. Reused from cell to cell: it holds dimensions
/// inline and costs nothing to keep.
struct placement {
  cell_region region;
  decode_target target;     ///< `in_cell` points into `region`
  std::int64_t offset = 0;  ///< of the first wanted element from `source.to`, in bytes
  extents counts;           ///< wanted elements along each dimension

  // Where the wanted part is no box, `target.indexed` points here, and of the above only `target` has a meaning.
  indexed_region indexed;
  dim_vector<index_run> ranges;  // of the dimensions that are ranges beside lists
};

/// Computes the placement of `cell`; false where the selection does not touch it.
bool place_cell(const source& from, cell_id cell, placement& out) noexcept;

/// How many places in the caller's memory parts of `cell` go to: more than one only where several boxes are read at
/// once (plan/crop_list.h). Whoever carries out a plan decodes such a cell once and copies from it for each.
std::size_t places_of(const source& from, cell_id cell) noexcept;
/// The placement of the which-th of them.
bool place_cell(const source& from, cell_id cell, std::size_t which, placement& out) noexcept;

/// Fills in the rest of a placement from its `region`, where the wanted part is a box after all.
void place_box(const source& from, placement& out) noexcept;

/// The wanted part is all of the cell and lies in the target exactly as `chain` stores it, so that the last byte stage
/// may decode (or the store may read) straight into it.
bool lands_contiguously(const placement& where, const extents& cell, std::uint32_t item_bytes) noexcept;

/// The bytes of a stored cell from its first wanted element to its last.
struct wanted_part {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  bool as_stored = false;  ///< no other byte is among them, and they lie in the target as they are stored
};

/// For a chain without stages; a part of a mask, and points in a cell that is not stored in C order, count as all of
/// it.
wanted_part part_of_cell(const placement& where, const codec_chain& chain) noexcept;

/// Every element of the cell that lies inside the array is wanted: a write of it needs no old bytes. What the codec's
/// shape has beyond the array's edge does not count.
bool is_whole_cell(const source& from, cell_id cell, const placement& where);

/// Writes the fill value to the wanted elements.
void fill(const source& from, const placement& where, const codec_chain& chain) noexcept;

/// Wanted elements, duplicates included.
std::uint64_t wanted_elements(const placement& where) noexcept;

/// The reverse of a decode's scatter: copies the wanted elements from the caller's memory (`from.to`, which is only
/// read) into a decoded cell, `cell_items`: C order, the chain's shape, native byte order. Where the selection names
/// an element more than once, the last in C order stays, as in NumPy. `from.to_strides` may be 0: one value for many.
void gather(const source& from, const placement& where, std::byte* cell_items, const codec_chain& chain) noexcept;

}  // namespace penstock::inline v0
