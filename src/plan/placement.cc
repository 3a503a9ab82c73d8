#include "plan/placement.h"

#include "array/strided_copy.h"
#include "plan/indexed_selection.h"

namespace penstock::inline v0 {

bool place(const source& from, cell_id cell, placement& out) noexcept {
  if (from.indexed != nullptr) [[unlikely]]
    return from.indexed->place(from, cell, out);
  const chunk_grid& grid = from.layout->grid();
  dim_vector<std::uint64_t> coordinates;
  grid.coordinates(cell, coordinates);
  if (!intersect(grid, coordinates, from.from, out.region)) return false;
  place_box(from, out);
  return true;
}

void place_box(const source& from, placement& out) noexcept {
  const std::size_t rank = out.region.in_cell.size();
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
  out.target.indexed = nullptr;
}

bool lands_contiguously(const placement& where, const extents& cell, std::uint32_t item_bytes) noexcept {
  if (!where.target.covers_cell) return false;
  std::int64_t expected = item_bytes;
  for (std::size_t d = cell.size(); d-- > 0;) {
    if (cell[d] != 1 && where.target.strides[d] != expected) return false;
    expected *= static_cast<std::int64_t>(cell[d]);
  }
  return true;
}

bool is_whole_cell(const source& from, cell_id cell, const placement& where) {
  if (where.target.covers_cell) return true;
  const chunk_grid& grid = from.layout->grid();
  dim_vector<std::uint64_t> coordinates;
  grid.coordinates(cell, coordinates);
  std::uint64_t inside = 1;
  for (std::size_t d = 0; d < grid.rank(); ++d) inside *= grid.axis(d).valid_length(coordinates[d]);
  // No range names an element twice, so as many as there are is all of them.
  if (where.target.indexed == nullptr) return wanted_elements(where) == inside;
  if (wanted_elements(where) < inside) return false;
  extents shape(grid.rank());
  for (std::size_t d = 0; d < grid.rank(); ++d) shape[d] = grid.axis(d).codec_length(coordinates[d]);
  return distinct_elements(*where.target.indexed, shape) == inside;
}

std::uint64_t wanted_elements(const placement& where) noexcept {
  if (where.target.indexed != nullptr) return wanted_elements(*where.target.indexed);
  std::uint64_t count = 1;
  for (const std::uint64_t each : where.counts) count *= each;
  return count;
}

void fill(const source& from, const placement& where, const codec_chain& chain) noexcept {
  const std::uint32_t item_bytes = chain.type().item_bytes();
  if (where.target.indexed == nullptr)
    return strided_fill(where.target.data, where.target.strides, where.counts, from.fill, item_bytes);
  const strides of_cell = c_order_strides(chain.cell(), item_bytes);
  indexed_fill({where.target.data, where.target.strides, nullptr, of_cell, chain.cell(), item_bytes},
               *where.target.indexed, from.fill);
}

void gather(const source& from, const placement& where, std::byte* cell_items, const codec_chain& chain) noexcept {
  const std::uint32_t item_bytes = chain.type().item_bytes();
  strides into = c_order_strides(chain.cell(), item_bytes);
  if (where.target.indexed != nullptr) {
    return indexed_gather({from.to, where.target.strides, cell_items, into, chain.cell(), item_bytes},
                          *where.target.indexed);
  }
  for (std::size_t d = 0; d < into.size(); ++d) {
    const axis_range& wanted = where.region.in_cell[d];
    cell_items += wanted.start * into[d];
    into[d] *= wanted.step;
  }
  strided_copy(cell_items, into, from.to + where.offset, where.target.strides, where.counts, item_bytes, 1);
}

}  // namespace penstock::inline v0
