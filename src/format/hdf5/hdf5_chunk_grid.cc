#include "format/hdf5/hdf5_chunk_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/checked.h"
#include "base/counted.h"

namespace penstock::inline v0 {

result<hdf5_chunk_grid> hdf5_chunk_grid::make(const hdf5_shape& shape, const hdf5_layout& layout, bool numbered) {
  const std::size_t rank = layout.chunk.size();
  if (shape.extents.size() != rank)
    return hdf5_damaged(
        fmt::format("chunks of {}, the dataset has {}", counted(rank, "dimension"), shape.extents.size()));
  hdf5_chunk_grid made;
  made.shape_ = shape.extents;
  made.chunk_ = layout.chunk;
  made.chunk_bytes_ = layout.element_bytes;
  made.cells_ = 1;
  made.grid_.resize(rank);
  made.strides_.resize(rank);
  made.most_.resize(rank);
  for (std::size_t d = rank; d-- > 0;) {
    made.grid_[d] = ceil_div(shape.extents[d], layout.chunk[d]);
    made.most_[d] = shape.most[d] == byte_range::kAll ? byte_range::kAll : ceil_div(shape.most[d], layout.chunk[d]);
    made.strides_[d] = made.cells_;
    if (!checked_mul(made.cells_, made.grid_[d], made.cells_)) return hdf5_unknown("a dataset of 2^64 chunks or more");
    if (!checked_mul(made.chunk_bytes_, layout.chunk[d], made.chunk_bytes_) ||
        made.chunk_bytes_ > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return hdf5_damaged("chunks of 2^63 bytes or more");
    }
  }
  if (!numbered) return made;
  switch (layout.by) {
    case hdf5_layout::index::implicit:
      PENSTOCK_TRY(made.number_by(0));
      if (made.numbers_ == 0) return hdf5_damaged("implicit places of chunks of a dataset without limits");
      break;
    case hdf5_layout::index::fixed_array:
      PENSTOCK_TRY(made.number_by(0));
      if (made.numbers_ == 0) return hdf5_damaged("a fixed array of chunks of a dataset without limits");
      break;
    case hdf5_layout::index::extensible_array: {
      const auto free = std::find(shape.most.begin(), shape.most.end(), byte_range::kAll);
      if (free == shape.most.end()) return hdf5_damaged("an extensible array of chunks of a dataset with limits");
      PENSTOCK_TRY(made.number_by(static_cast<std::size_t>(free - shape.most.begin())));
      break;
    }
    default:
      break;
  }
  return made;
}

result<> hdf5_chunk_grid::number_by(std::size_t free) {
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

std::uint64_t hdf5_chunk_grid::number_of(const hdf5_chunk_coordinates& place) const noexcept {
  std::uint64_t number = place[order_[0]];
  for (std::size_t i = 1; i < order_.size(); ++i)
    number = saturating_add(saturating_mul(number, most_[order_[i]]), place[order_[i]]);
  return number;
}

bool hdf5_chunk_grid::find_number(std::uint64_t number, hdf5_chunk_coordinates& place) const noexcept {
  for (std::size_t i = order_.size(); i-- > 1;) {
    const std::uint64_t most = most_[order_[i]];
    if (most == 0) return false;
    place[order_[i]] = number % most;
    number /= most;
  }
  place[order_[0]] = number;
  return true;
}

bool hdf5_chunk_grid::find_cell(std::span<const std::uint64_t> place, std::uint64_t& cell) const noexcept {
  cell = 0;
  for (std::size_t d = 0; d < grid_.size(); ++d) {
    if (place[d] >= grid_[d]) return false;
    cell += place[d] * strides_[d];
  }
  return true;
}

void hdf5_chunk_grid::coordinates(std::uint64_t cell, hdf5_chunk_coordinates& place) const noexcept {
  for (std::size_t d = 0; d < grid_.size(); ++d) {
    place[d] = cell / strides_[d];
    cell %= strides_[d];
  }
}

bool hdf5_chunk_grid::is_cut(const hdf5_chunk_coordinates& place) const noexcept {
  for (std::size_t d = 0; d < rank(); ++d)
    if (saturating_mul(place[d] + 1, chunk_[d]) > shape_[d]) return true;
  return false;
}

}  // namespace penstock::inline v0
