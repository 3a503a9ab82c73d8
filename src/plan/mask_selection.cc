// Mask selections: no lists are created, the workers read the bits of their cells.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "array/selection_checks.h"
#include "base/checked.h"
#include "plan/cell_lists.h"
#include "plan/indexed_selection.h"
#include "plan/placement.h"

namespace penstock::inline v0 {
namespace {

class set_bits final : public indexed_selection {
 public:
  set_bits(const chunk_grid& grid, const extents& shape, bit_mask mask)
      : indexed_selection(grid), mask_(std::move(mask)), shape_{mask_.ones()}, row_strides_(shape.size()) {
    std::uint64_t stride = 1;
    for (std::size_t d = shape.size(); d-- > 0; stride *= shape[d]) row_strides_[d] = stride;
    find_cells(grid, shape);
  }

  std::uint64_t cells() const noexcept override { return touched_.size(); }
  cell_id cell(std::uint64_t i) const noexcept override { return touched_[static_cast<std::size_t>(i)]; }

  bool place(const source& from, cell_id cell, placement& out) const noexcept override {
    if (!std::binary_search(touched_.begin(), touched_.end(), cell)) return false;
    const std::size_t rank = grid().rank();
    dim_vector<std::uint64_t> coordinates;
    grid().coordinates(cell, coordinates);
    indexed_region& region = out.indexed;
    region.what = indexed_region::kind::mask;
    region.axes.clear();
    region.points = {};
    region.runs = {};
    region.mask = &mask_;
    region.mask_strides = row_strides_;
    region.mask_counts.resize(rank);
    region.mask_origin = 0;
    region.result_shape = &shape_;
    std::uint64_t volume = 1, last = 0;
    bool is_cut = false;
    for (std::size_t d = 0; d < rank; ++d) {
      const grid_axis& axis = grid().axis(d);
      region.mask_counts[d] = axis.valid_length(coordinates[d]);
      region.mask_origin += axis.origin(coordinates[d]) * row_strides_[d];
      last += (region.mask_counts[d] - 1) * row_strides_[d];
      volume *= region.mask_counts[d];
      is_cut = is_cut || region.mask_counts[d] != axis.codec_length(coordinates[d]);
    }
    if (is_cut || !place_whole(from, volume, last, out)) {
      out.offset = 0;
      out.counts.clear();
      out.region.covers_cell = false;
      out.target.data = from.to;
      out.target.strides = from.to_strides;
      out.target.in_cell = nullptr;
      out.target.covers_cell = false;
      out.target.indexed = &region;
    }
    return true;
  }

  bool places_axes() const noexcept override { return false; }

  std::string describe() const override {
    return fmt::format("{} of {} elements, by a mask", mask_.ones(), mask_.size());
  }

 private:
  // A cell that is contiguous in the result, and completely selected, is a box.
  bool place_whole(const source& from, std::uint64_t volume, std::uint64_t last, placement& out) const noexcept {
    const std::uint64_t first = out.indexed.mask_origin;
    if (last + 1 != volume) return false;
    const std::uint64_t before = mask_.rank(first);
    if (mask_.rank(first + volume) - before != volume) return false;
    const std::size_t rank = row_strides_.size();
    out.region.in_cell.resize(rank);
    out.target.strides.resize(rank);
    out.counts = out.indexed.mask_counts;
    std::int64_t stride = from.to_strides[0];
    for (std::size_t d = rank; d-- > 0;) {
      out.region.in_cell[d] = {0, 1, out.counts[d]};
      out.target.strides[d] = stride;
      stride *= static_cast<std::int64_t>(out.counts[d]);
    }
    out.offset = static_cast<std::int64_t>(before) * from.to_strides[0];
    out.region.covers_cell = true;
    out.target.data = from.to == nullptr ? nullptr : from.to + out.offset;
    out.target.in_cell = &out.region.in_cell;
    out.target.covers_cell = true;
    out.target.indexed = nullptr;
    return true;
  }

  void find_cells(const chunk_grid& grid, const extents& shape) {
    const std::size_t rank = shape.size();
    // An array has no more cells than elements, so a bit for each needs no more memory than the mask.
    std::vector<std::uint64_t> seen(static_cast<std::size_t>(ceil_div(grid.cells(), 64)), 0);
    const std::uint64_t end = mask_.size();
    dim_vector<std::uint64_t> coordinates(rank);
    std::vector<axis_split> splits;
    for (std::size_t d = 0; d < rank; ++d) splits.emplace_back(grid.axis(d));
    for (std::uint64_t at = mask_.next_one(0, end); at < end;) {
      std::uint64_t rest = at, to_edge = 1;
      for (std::size_t d = rank; d-- > 0;) {
        const std::uint64_t above = rest / shape[d];
        const auto [cell, in_cell] = splits[d](rest - above * shape[d]);
        coordinates[d] = cell;
        if (d + 1 == rank) to_edge = grid.axis(d).valid_length(cell) - in_cell;
        rest = above;
      }
      const cell_id id = grid.id(coordinates);
      seen[id / 64] |= std::uint64_t{1} << id % 64;
      at = mask_.next_one(at + to_edge, end);
    }
    for (std::uint64_t word = 0; word < seen.size(); ++word) {
      for (std::uint64_t bits = seen[word]; bits != 0; bits &= bits - 1)
        touched_.push_back(word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits)));
    }
  }

  bit_mask mask_;
  extents shape_;  // of the result
  dim_vector<std::uint64_t> row_strides_;
  std::vector<cell_id> touched_;
};

}  // namespace

result<resolved_selection> select(const mask_selection& which, const chunk_grid& grid) {
  extents shape;
  for (std::size_t d = 0; d < grid.rank(); ++d) shape.push_back(grid.axis(d).extent());
  PENSTOCK_TRY(check_mask(which, shape));
  PENSTOCK_ASSIGN(const std::uint64_t count, element_count(shape));
  bit_mask mask(which.words, count);
  resolved_selection out;
  out.shape = extents{mask.ones()};
  out.indexed = std::make_shared<set_bits>(grid, shape, std::move(mask));
  return out;
}

}  // namespace penstock::inline v0
