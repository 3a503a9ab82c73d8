#include "plan/placement.h"

#include <algorithm>

#include "array/converted_copy.h"
#include "array/strided_copy.h"
#include "plan/indexed_selection.h"

namespace penstock::inline v0 {

bool place_cell(const source& from, cell_id cell, placement& out) noexcept {
  out.target.convert = from.convert;
  if (from.indexed != nullptr) [[unlikely]]
    return from.indexed->place(from, cell, out);
  const chunk_grid& grid = from.layout->grid();
  dim_vector<std::uint64_t> coordinates;
  grid.coordinates(cell, coordinates);
  if (!intersect(grid, coordinates, from.from, out.region)) return false;
  place_box(from, out);
  return true;
}

std::size_t places_of(const source& from, cell_id cell) noexcept {
  return from.indexed == nullptr ? 1 : from.indexed->places(cell);
}

bool place_cell(const source& from, cell_id cell, std::size_t which, placement& out) noexcept {
  out.target.convert = from.convert;
  return from.indexed == nullptr ? place_cell(from, cell, out) : from.indexed->place_one(from, cell, which, out);
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
  const bool is_along = from.convert != nullptr && !from.convert->along.empty();
  out.target.first_along = is_along ? out.region.in_result[from.convert->by_axis] : 0;
  out.target.in_cell = &out.region.in_cell;
  out.target.covers_cell = out.region.covers_cell;
  out.target.indexed = nullptr;
}

bool lands_contiguously(const placement& where, const extents& cell, std::uint32_t item_bytes) noexcept {
  if (!where.target.covers_cell || where.target.convert != nullptr) return false;
  std::int64_t expected = item_bytes;
  for (std::size_t d = cell.size(); d-- > 0;) {
    if (cell[d] != 1 && where.target.strides[d] != expected) return false;
    expected *= static_cast<std::int64_t>(cell[d]);
  }
  return true;
}

namespace {

wanted_part part_of_box(const placement& where, const codec_chain& chain) noexcept {
  const strides& stored = chain.stored_strides();
  std::uint64_t first = 0, last = 0, wanted = chain.type().item_bytes();
  bool same = !chain.swaps() && where.target.convert == nullptr;
  for (std::size_t d = 0; d < stored.size(); ++d) {
    const axis_range& range = where.region.in_cell[d];
    const auto step = static_cast<std::uint64_t>(stored[d]);
    const std::uint64_t one_end = range.start;
    const std::uint64_t other_end = range.start + static_cast<std::uint64_t>(range.step) * (range.count - 1);
    first += std::min(one_end, other_end) * step;
    last += std::max(one_end, other_end) * step;
    wanted *= range.count;
    same = same && (range.count == 1 || where.target.strides[d] == stored[d] * range.step);
  }
  const std::uint64_t length = last - first + chain.type().item_bytes();
  return {first, length, same && length == wanted};
}

// False if the region is not sufficient to decide.
bool bounds_of_indexed(const indexed_region& region, const codec_chain& chain, std::uint64_t& first,
                       std::uint64_t& last) noexcept {
  const std::uint64_t item = chain.type().item_bytes();
  first = last = 0;
  if (region.what == indexed_region::kind::axes) {
    for (std::size_t d = 0; d < region.axes.size(); ++d) {
      std::uint64_t low = ~std::uint64_t{0}, high = 0;
      for (std::size_t i = 0; i < region.axes[d].size; ++i) {
        const index_run& run = region.axes[d].runs[i];
        const auto begin = static_cast<std::uint64_t>(run.start);
        const std::uint64_t end = begin + static_cast<std::uint64_t>(run.step) * (run.count - 1);
        low = std::min({low, begin, end});
        high = std::max({high, begin, end});
      }
      if (low > high) return false;
      first += low * static_cast<std::uint64_t>(chain.stored_strides()[d]);
      last += high * static_cast<std::uint64_t>(chain.stored_strides()[d]);
    }
    return true;
  }
  if (region.what == indexed_region::kind::mask ||
      chain.stored_strides() != c_order_strides(chain.cell(), chain.type().item_bytes())) {
    return false;
  }
  std::uint64_t low = ~std::uint64_t{0}, high = 0;
  for (const cell_point& point : region.points) {
    low = std::min<std::uint64_t>(low, point.in_cell);
    high = std::max<std::uint64_t>(high, point.in_cell);
  }
  for (const point_run& run : region.runs) {
    low = std::min(low, run.in_cell);
    high = std::max(high, run.in_cell + run.count - 1);
  }
  if (low > high) return false;
  first = low * item;
  last = high * item;
  return true;
}

}  // namespace

wanted_part part_of_cell(const placement& where, const codec_chain& chain) noexcept {
  if (where.target.indexed == nullptr) return part_of_box(where, chain);
  std::uint64_t first = 0, last = 0;
  if (!bounds_of_indexed(*where.target.indexed, chain, first, last)) return {0, chain.decoded_bytes(), false};
  return {first, last - first + chain.type().item_bytes(), false};
}

bool is_whole_cell(const source& from, cell_id cell, const placement& where) {
  if (where.target.covers_cell) return true;
  const chunk_grid& grid = from.layout->grid();
  dim_vector<std::uint64_t> coordinates;
  grid.coordinates(cell, coordinates);
  std::uint64_t inside = 1;
  for (std::size_t d = 0; d < grid.rank(); ++d) inside *= grid.axis(d).valid_length(coordinates[d]);
  // No range names an element twice, so an equal number means all of them.
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
  const std::uint32_t item_bytes = from.convert == nullptr ? chain.type().item_bytes() : from.convert->how.to_bytes;
  const std::byte* const item = from.convert == nullptr ? from.fill : from.convert->fill;
  if (from.convert != nullptr && !from.convert->along.empty()) {
    const std::size_t axis = from.convert->by_axis;
    extents one = where.counts;
    one[axis] = 1;
    for (std::uint64_t i = 0; i < where.counts[axis]; ++i)
      strided_fill(where.target.data + static_cast<std::int64_t>(i) * where.target.strides[axis], where.target.strides,
                   one, from.convert->fills[where.target.first_along + i].data(), item_bytes);
    return;
  }
  if (where.target.indexed == nullptr)
    return strided_fill(where.target.data, where.target.strides, where.counts, item, item_bytes);
  const strides of_cell = c_order_strides(chain.cell(), item_bytes);
  indexed_fill({where.target.data, where.target.strides, nullptr, of_cell, chain.cell(), item_bytes},
               *where.target.indexed, item);
}

void gather(const source& from, const placement& where, std::byte* cell_items, const codec_chain& chain) noexcept {
  const std::uint32_t item_bytes = chain.type().item_bytes();
  strides into = c_order_strides(chain.cell(), item_bytes);
  if (where.target.indexed != nullptr) {
    const indexed_blocks blocks{from.to, where.target.strides, cell_items, into, chain.cell(), item_bytes};
    if (from.convert != nullptr) return indexed_gather(blocks, *where.target.indexed, from.convert->how);
    return indexed_gather(blocks, *where.target.indexed);
  }
  for (std::size_t d = 0; d < into.size(); ++d) {
    const axis_range& wanted = where.region.in_cell[d];
    cell_items += wanted.start * into[d];
    into[d] *= wanted.step;
  }
  const std::byte* const values = from.to + where.offset;
  if (from.convert != nullptr)
    return strided_convert(cell_items, into, values, where.target.strides, where.counts, from.convert->how, 1);
  strided_copy(cell_items, into, values, where.target.strides, where.counts, item_bytes, 1);
}

}  // namespace penstock::inline v0
