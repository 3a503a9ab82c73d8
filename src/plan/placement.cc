#include "plan/placement.h"

#include "array/strided_copy.h"

namespace penstock::inline v0 {

bool place(const source& from, cell_id cell, placement& out) noexcept {
  const chunk_grid& grid = from.layout->grid();
  dim_vector<std::uint64_t> coordinates;
  grid.coordinates(cell, coordinates);
  if (!intersect(grid, coordinates, from.from, out.region)) return false;
  const std::size_t rank = grid.rank();
  out.offset = 0;
  out.counts.resize(rank);
  out.target.strides.resize(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    out.offset += static_cast<std::int64_t>(out.region.in_result[d]) * from.to_strides[d];
    out.counts[d] = out.region.in_cell[d].count;
    out.target.strides[d] = from.to_strides[d];
  }
  out.target.data = from.to == nullptr ? nullptr : from.to + out.offset;
  out.target.in_cell = &out.region.in_cell;
  out.target.covers_cell = out.region.covers_cell;
  return true;
}

bool lands_contiguously(const placement& where, const extents& cell, std::uint32_t item_bytes) noexcept {
  if (!where.region.covers_cell) return false;
  std::int64_t expected = item_bytes;
  for (std::size_t d = cell.size(); d-- > 0;) {
    if (cell[d] != 1 && where.target.strides[d] != expected) return false;
    expected *= static_cast<std::int64_t>(cell[d]);
  }
  return true;
}

bool is_whole_cell(const source& from, cell_id cell, const placement& where) {
  if (where.region.covers_cell) return true;
  const chunk_grid& grid = from.layout->grid();
  dim_vector<std::uint64_t> coordinates;
  grid.coordinates(cell, coordinates);
  for (std::size_t d = 0; d < grid.rank(); ++d) {
    // No range names an element twice, so as many as there are is all of them.
    if (where.counts[d] != grid.axis(d).valid_length(coordinates[d])) return false;
  }
  return true;
}

void gather(const source& from, const placement& where, std::byte* cell_items, const codec_chain& chain) noexcept {
  const std::uint32_t item_bytes = chain.type().item_bytes();
  strides into = c_order_strides(chain.cell(), item_bytes);
  for (std::size_t d = 0; d < into.size(); ++d) {
    const axis_range& wanted = where.region.in_cell[d];
    cell_items += wanted.start * into[d];
    into[d] *= wanted.step;
  }
  strided_copy(cell_items, into, from.to + where.offset, where.target.strides, where.counts, item_bytes, 1);
}

}  // namespace penstock::inline v0
