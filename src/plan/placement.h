#pragma once

#include <penstock/plan.h>
#include "array/chunk_grid.h"
#include "codec/codec_chain.h"

namespace penstock::inline v0 {

/// The selected part of one cell and its destination in the caller's memory. Reused from cell to cell: it holds
/// dimensions inline and costs nothing to keep.
struct placement {
  cell_region region;
  decode_target target;     ///< `in_cell` points into `region`
  std::int64_t offset = 0;  ///< offset of the first selected element from `source.to`, in bytes
  extents counts;           ///< selected elements along each dimension

  // If the selected part is not a box, `target.indexed` points here, and of the members above only `target` has a
  // meaning.
  indexed_region indexed;
  dim_vector<index_run> ranges;  // ranges of the dimensions that have no list
};

/// Computes the placement of `cell`; false if the selection does not touch it.
bool place_cell(const source& from, cell_id cell, placement& out) noexcept;

/// How many destinations in the caller's memory `cell` has: more than one only if several boxes are read at once
/// (plan/crop_list.h). The executor of a plan decodes such a cell once and copies from it for each.
std::size_t places_of(const source& from, cell_id cell) noexcept;
/// The placement of the which-th of them.
bool place_cell(const source& from, cell_id cell, std::size_t which, placement& out) noexcept;

/// Fills in the rest of a placement from its `region`, if the selected part is a box.
void place_box(const source& from, placement& out) noexcept;

/// The selected part is the whole cell and has in the target exactly the layout of `chain`, so that the last byte stage
/// may decode (or the store may read) directly into it.
bool lands_contiguously(const placement& where, const extents& cell, std::uint32_t item_bytes) noexcept;

/// The bytes of a stored cell from its first selected element to its last.
struct wanted_part {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  bool as_stored = false;  ///< they include no other byte, and have the stored layout in the target
};

/// For a chain without stages; a part of a mask, and points in a cell that is not stored in C order, count as the whole
/// cell.
wanted_part part_of_cell(const placement& where, const codec_chain& chain) noexcept;

/// Every element of the cell inside the array is selected: a write of it needs no old bytes. Elements of the codec's
/// shape beyond the array's edge do not count.
bool is_whole_cell(const source& from, cell_id cell, const placement& where);

/// Writes the fill value to the selected elements.
void fill(const source& from, const placement& where, const codec_chain& chain) noexcept;

/// Number of selected elements, including duplicates.
std::uint64_t wanted_elements(const placement& where) noexcept;

/// The reverse of a decode's scatter: copies the selected elements from the caller's memory (`from.to`, which is only
/// read) into a decoded cell, `cell_items`: C order, the chain's shape, native byte order. If the selection names an
/// element more than once, the last in C order is stored, as in NumPy. `from.to_strides` may be 0: one value for many.
void gather(const source& from, const placement& where, std::byte* cell_items, const codec_chain& chain) noexcept;

}  // namespace penstock::inline v0
