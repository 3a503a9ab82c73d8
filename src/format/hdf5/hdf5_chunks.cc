#include "format/hdf5/hdf5_chunks.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/checked.h"
#include "format/hdf5/hdf5_chunk_columns.h"

namespace penstock::inline v0 {
namespace {

result<> list_implicit(hdf5_file& file, std::uint64_t address, hdf5_chunk_columns& to) {
  PENSTOCK_TRY(to.number_by(0));
  if (to.numbers() == 0) return hdf5_damaged("implicit places of chunks of a dataset without limits");
  std::uint64_t bytes = 0;
  if (!checked_mul(to.numbers(), to.chunk_bytes(), bytes)) return hdf5_damaged("its chunks leave the file");
  // All of them were written when the dataset was made; nothing says so but the file's length.
  std::uint64_t end = 0;
  if (!checked_add(address, bytes, end) || end > file.size()) return hdf5_damaged("its chunks leave the file");
  for (std::uint64_t i = 0; i < to.numbers(); ++i)
    to.add_number(i, address + i * to.chunk_bytes(), to.chunk_bytes(), 0);
  return {};
}

result<> list_by(hdf5_file& file, const hdf5_shape& shape, const hdf5_layout& layout, hdf5_chunk_columns& to) {
  switch (layout.by) {
    case hdf5_layout::index::btree_1:
      return list_hdf5_btree_1(file, layout.address, to);
    case hdf5_layout::index::btree_2:
      return list_hdf5_btree_2(file, layout.address, to);
    case hdf5_layout::index::fixed_array:
      PENSTOCK_TRY(to.number_by(0));
      if (to.numbers() == 0) return hdf5_damaged("a fixed array of chunks of a dataset without limits");
      return list_hdf5_fixed_array(file, layout.address, to);
    case hdf5_layout::index::extensible_array: {
      const auto free = std::find(shape.most.begin(), shape.most.end(), byte_range::kAll);
      if (free == shape.most.end()) return hdf5_damaged("an extensible array of chunks of a dataset with limits");
      PENSTOCK_TRY(to.number_by(static_cast<std::size_t>(free - shape.most.begin())));
      return list_hdf5_extensible_array(file, layout.address, to);
    }
    case hdf5_layout::index::implicit:
      return list_implicit(file, layout.address, to);
    case hdf5_layout::index::single: {
      const std::vector<std::uint64_t> first(shape.extents.size(), 0);
      to.add(first, layout.address, layout.one_filtered ? layout.one_bytes : to.chunk_bytes(), layout.one_mask);
      return {};
    }
  }
  return {};
}

}  // namespace

result<hdf5_chunk_columns> hdf5_chunk_columns::make(const hdf5_file& file, const hdf5_shape& shape,
                                                    const hdf5_layout& layout) {
  const std::size_t rank = layout.chunk.size();
  if (shape.extents.size() != rank)
    return hdf5_damaged(fmt::format("chunks of {} dimensions, the dataset has {}", rank, shape.extents.size()));
  hdf5_chunk_columns made;
  made.file_ = &file;
  made.chunk_ = layout.chunk;
  made.chunk_bytes_ = layout.element_bytes;
  std::uint64_t cells = 1;
  made.grid_.resize(rank);
  made.strides_.resize(rank);
  made.most_.resize(rank);
  for (std::size_t d = rank; d-- > 0;) {
    made.grid_[d] = ceil_div(shape.extents[d], layout.chunk[d]);
    made.most_[d] = shape.most[d] == byte_range::kAll ? byte_range::kAll : ceil_div(shape.most[d], layout.chunk[d]);
    made.strides_[d] = cells;
    if (!checked_mul(cells, made.grid_[d], cells)) return hdf5_unknown("a dataset of more chunks than 64 bits count");
    if (!checked_mul(made.chunk_bytes_, layout.chunk[d], made.chunk_bytes_) ||
        made.chunk_bytes_ > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return hdf5_damaged("chunks of more bytes than 63 bits count");
    }
  }
  return made;
}

result<> hdf5_chunk_columns::number_by(std::size_t free) {
  order_.clear();
  order_.push_back(free);
  for (std::size_t d = 0; d < rank(); ++d)
    if (d != free) order_.push_back(d);
  numbers_ = most_[free] == byte_range::kAll ? 0 : most_[free];
  for (std::size_t i = 1; i < order_.size(); ++i) {
    const std::uint64_t most = most_[order_[i]];
    if (most == byte_range::kAll) return hdf5_damaged("an array of chunks of a dataset with several free dimensions");
    if (!checked_mul(numbers_, most, numbers_)) numbers_ = ~std::uint64_t{0};
  }
  return {};
}

void hdf5_chunk_columns::add(std::span<const std::uint64_t> place, std::uint64_t address, std::uint64_t length,
                             std::uint64_t mask) {
  std::uint64_t cell = 0, offset = 0;
  for (std::size_t d = 0; d < grid_.size(); ++d) {
    if (place[d] >= grid_[d]) return;
    cell += place[d] * strides_[d];
  }
  if (length == 0) return;
  if (!checked_add(file_->base(), address, offset)) outside_ = true;
  made_.cells.push_back(cell);
  made_.offsets.push_back(offset);
  made_.lengths.push_back(length);
  made_.masks.push_back(mask);
}

void hdf5_chunk_columns::add_number(std::uint64_t number, std::uint64_t address, std::uint64_t length,
                                    std::uint64_t mask) {
  std::array<std::uint64_t, kMaxRank> place{};
  for (std::size_t i = order_.size(); i-- > 1;) {
    const std::uint64_t most = most_[order_[i]];
    if (most == 0) return;
    place[order_[i]] = number % most;
    number /= most;
  }
  place[order_[0]] = number;
  add(std::span(place).first(rank()), address, length, mask);
}

result<hdf5_chunks> hdf5_chunk_columns::take() {
  if (outside_) return hdf5_damaged("a chunk lies at an address beyond 64 bits");
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

result<hdf5_array_element> hdf5_array_element::make(const hdf5_file& file, std::uint64_t client, std::uint64_t bytes) {
  constexpr std::size_t kMaskBytes = 4;
  hdf5_array_element out;
  out.bytes = static_cast<std::size_t>(bytes);
  if (client == 0 && bytes == file.offset_bytes()) return out;
  if (client == 1 && bytes > file.offset_bytes() + kMaskBytes && bytes <= file.offset_bytes() + kMaskBytes + 8) {
    out.length_bytes = out.bytes - file.offset_bytes() - kMaskBytes;
    return out;
  }
  return hdf5_damaged(fmt::format("an array of chunks whose elements are of kind {} and {} bytes", client, bytes));
}

void hdf5_array_element::add_all(const hdf5_file& file, std::span<const std::byte> stored, std::uint64_t first,
                                 hdf5_chunk_columns& to) const {
  hdf5_cursor cursor(stored);
  for (std::uint64_t number = first; cursor.left() >= bytes; ++number) {
    const std::uint64_t address = cursor.number(file.offset_bytes());
    const std::uint64_t length = length_bytes == 0 ? to.chunk_bytes() : cursor.number(length_bytes);
    const std::uint64_t mask = length_bytes == 0 ? 0 : cursor.number(4);
    if (!file.undefined(address)) to.add_number(number, address, length, mask);
  }
}

result<hdf5_chunks> list_hdf5_chunks(hdf5_file& file, const hdf5_shape& shape, const hdf5_layout& layout) {
  PENSTOCK_ASSIGN(hdf5_chunk_columns columns, hdf5_chunk_columns::make(file, shape, layout));
  if (!file.undefined(layout.address)) {
    auto listed = list_by(file, shape, layout, columns);
    if (!listed.ok())
      return std::move(listed).error().note(fmt::format("in the chunk index at address {}", layout.address));
  }
  return columns.take();
}

}  // namespace penstock::inline v0
