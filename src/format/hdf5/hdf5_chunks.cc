#include "format/hdf5/hdf5_chunks.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/checked.h"
#include "format/hdf5/hdf5_chunk_columns.h"

namespace penstock::inline v0 {
namespace {

result<> list_implicit(hdf5_file& file, std::uint64_t address, hdf5_chunk_columns& to) {
  const hdf5_chunk_grid& grid = to.grid();
  PENSTOCK_TRY(check_implicit_chunks(file, address, grid));
  for (std::uint64_t i = 0; i < grid.numbers(); ++i)
    to.add_number(i, address + i * grid.chunk_bytes(), grid.chunk_bytes(), 0);
  return {};
}

result<> list_by(hdf5_file& file, const hdf5_layout& layout, hdf5_chunk_columns& to) {
  switch (layout.by) {
    case hdf5_layout::index::btree_1:
      return list_hdf5_btree_1(file, layout.address, to);
    case hdf5_layout::index::btree_2:
      return list_hdf5_btree_2(file, layout.address, to);
    case hdf5_layout::index::fixed_array:
      return list_hdf5_fixed_array(file, layout.address, to);
    case hdf5_layout::index::extensible_array:
      return list_hdf5_extensible_array(file, layout.address, to);
    case hdf5_layout::index::implicit:
      return list_implicit(file, layout.address, to);
    case hdf5_layout::index::single: {
      const std::vector<std::uint64_t> first(to.grid().rank(), 0);
      to.add(first, layout.address, layout.one_filtered ? layout.one_bytes : to.grid().chunk_bytes(), layout.one_mask);
      return {};
    }
  }
  return {};
}

}  // namespace

// All of them were written when the dataset was created. Only the length of the file can contradict this.
result<> check_implicit_chunks(const hdf5_file& file, std::uint64_t address, const hdf5_chunk_grid& grid) {
  std::uint64_t bytes = 0, end = 0;
  if (!checked_mul(grid.numbers(), grid.chunk_bytes(), bytes) || !checked_add(address, bytes, end) || end > file.size())
    return hdf5_damaged("its chunks exceed the file");
  return {};
}

void hdf5_chunk_columns::add(std::span<const std::uint64_t> place, std::uint64_t address, std::uint64_t length,
                             std::uint64_t mask) {
  std::uint64_t cell = 0, offset = 0;
  if (!grid_.find_cell(place, cell) || length == 0) return;
  if (!checked_add(file_->base(), address, offset)) outside_ = true;
  made_.cells.push_back(cell);
  made_.offsets.push_back(offset);
  made_.lengths.push_back(length);
  made_.masks.push_back(mask);
}

void hdf5_chunk_columns::add_number(std::uint64_t number, std::uint64_t address, std::uint64_t length,
                                    std::uint64_t mask) {
  hdf5_chunk_coordinates place{};
  if (grid_.find_number(number, place)) add(std::span(place).first(grid_.rank()), address, length, mask);
}

void hdf5_chunk_columns::reserve(std::size_t more) {
  const std::size_t used = made_.cells.size(), room = made_.cells.capacity();
  if (room - used >= more) return;
  for (std::vector<std::uint64_t>* column : {&made_.cells, &made_.offsets, &made_.lengths, &made_.masks})
    column->reserve(std::max(used + more, 2 * room));
}

result<hdf5_chunks> hdf5_chunk_columns::take() {
  if (outside_) return hdf5_damaged("the address of a chunk exceeds 64 bits");
  std::vector<std::uint64_t>& cells = made_.cells;
  if (!std::is_sorted(cells.begin(), cells.end())) {
    std::vector<std::size_t> order(cells.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return cells[a] < cells[b]; });
    for (std::vector<std::uint64_t>* column : {&made_.offsets, &made_.lengths, &made_.masks, &cells}) {
      std::vector<std::uint64_t> sorted;
      sorted.reserve(order.size());
      for (const std::size_t i : order) sorted.push_back((*column)[i]);
      *column = std::move(sorted);
    }
  }
  if (const auto twice = std::adjacent_find(cells.begin(), cells.end()); twice != cells.end())
    return hdf5_damaged(fmt::format("the chunk index names chunk {} twice", *twice));
  return std::move(made_);
}

result<hdf5_array_element> hdf5_array_element::make(std::size_t offset_bytes, std::uint64_t client,
                                                    std::uint64_t bytes) {
  constexpr std::size_t kMaskBytes = 4;
  hdf5_array_element out;
  out.bytes = static_cast<std::size_t>(bytes);
  out.offset_bytes = offset_bytes;
  if (client == 0 && bytes == offset_bytes) return out;
  if (client == 1 && bytes > offset_bytes + kMaskBytes && bytes <= offset_bytes + kMaskBytes + 8) {
    out.length_bytes = out.bytes - offset_bytes - kMaskBytes;
    return out;
  }
  return hdf5_damaged(fmt::format("an array of chunks whose elements are of kind {} and {} bytes", client, bytes));
}

hdf5_chunk_place hdf5_array_element::take(hdf5_cursor& from, std::uint64_t plain_bytes) const noexcept {
  hdf5_chunk_place out;
  out.address = from.number(offset_bytes);
  out.length = length_bytes == 0 ? plain_bytes : from.number(length_bytes);
  out.mask = length_bytes == 0 ? 0 : from.number(4);
  return out;
}

void hdf5_array_element::add_all(const hdf5_file& file, std::span<const std::byte> stored, std::uint64_t first,
                                 hdf5_chunk_columns& to) const {
  hdf5_cursor cursor(stored);
  for (std::uint64_t number = first; cursor.left() >= bytes; ++number) {
    const hdf5_chunk_place found = take(cursor, to.grid().chunk_bytes());
    if (!file.undefined(found.address)) to.add_number(number, found.address, found.length, found.mask);
  }
}

result<hdf5_chunks> list_hdf5_chunks(hdf5_file& file, const hdf5_shape& shape, const hdf5_layout& layout) {
  const bool written = !file.undefined(layout.address);
  auto grid = hdf5_chunk_grid::make(shape, layout, written);
  if (!grid.ok()) return std::move(grid).error();
  hdf5_chunk_columns columns(file, std::move(*grid));
  if (written) {
    auto listed = list_by(file, layout, columns);
    if (!listed.ok())
      return std::move(listed).error().note(fmt::format("in the chunk index at address {}", layout.address));
  }
  return columns.take();
}

}  // namespace penstock::inline v0
