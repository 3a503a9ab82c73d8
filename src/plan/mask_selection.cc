// Mask selections: no lists are created, the workers read the bits of their cells.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
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
  /// \param origin   The bit of the first element of the grid.
  /// \param touched  Its cells that have a set bit, ascending.
  set_bits(const chunk_grid& grid, std::shared_ptr<const bit_mask> mask, const dim_vector<std::uint64_t>& row_strides,
           std::uint64_t origin, std::vector<cell_id> touched)
      : indexed_selection(grid),
        mask_(std::move(mask)),
        shape_{mask_->ones()},
        row_strides_(row_strides),
        origin_(origin),
        touched_(std::move(touched)) {}

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
    region.mask = mask_.get();
    region.mask_strides = row_strides_;
    region.mask_counts.resize(rank);
    region.mask_origin = origin_;
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
    return fmt::format("{} of {} elements, by a mask", mask_->ones(), mask_->size());
  }

 private:
  // A cell that is contiguous in the result, and completely selected, is a box.
  bool place_whole(const source& from, std::uint64_t volume, std::uint64_t last, placement& out) const noexcept {
    const std::uint64_t first = out.indexed.mask_origin;
    if (last + 1 != volume) return false;
    const std::uint64_t before = mask_->rank(first);
    if (mask_->rank(first + volume) - before != volume) return false;
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

  std::shared_ptr<const bit_mask> mask_;
  extents shape_;  // of the result
  dim_vector<std::uint64_t> row_strides_;
  std::uint64_t origin_;
  std::vector<cell_id> touched_;
};

dim_vector<std::uint64_t> bits_between_neighbours(const extents& shape) {
  dim_vector<std::uint64_t> out(shape.size());
  std::uint64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0; stride *= shape[d]) out[d] = stride;
  return out;
}

bool is_in(const masked_part& part, const extents& at) noexcept {
  for (std::size_t d = 0; d < at.size(); ++d)
    if (at[d] < part.origin[d] || at[d] - part.origin[d] >= part.shape[d]) return false;
  return true;
}

// The cells of one part that have a set bit.
class touched_cells {
 public:
  explicit touched_cells(const masked_part& of) : of_(of) {
    for (std::size_t d = 0; d < of.grid->rank(); ++d) splits_.emplace_back(of.grid->axis(d));
    // An array has no more cells than elements, so a bit for each needs no more memory than the mask.
    seen_.resize(static_cast<std::size_t>(ceil_div(of.grid->cells(), 64)));
  }

  // Notes the cell at a position of the array, and returns how many elements of its row follow in it, with this one.
  std::uint64_t note(const extents& at) {
    const std::size_t rank = at.size();
    dim_vector<std::uint64_t> coordinates(rank);
    std::uint64_t to_edge = 1;
    for (std::size_t d = 0; d < rank; ++d) {
      const auto [cell, in_cell] = splits_[d](at[d] - of_.origin[d]);
      coordinates[d] = cell;
      if (d + 1 == rank) to_edge = of_.grid->axis(d).valid_length(cell) - in_cell;
    }
    const cell_id id = of_.grid->id(coordinates);
    seen_[id / 64] |= std::uint64_t{1} << id % 64;
    return to_edge;
  }

  std::vector<cell_id> all() const {
    std::vector<cell_id> out;
    for (std::uint64_t word = 0; word < seen_.size(); ++word) {
      for (std::uint64_t bits = seen_[word]; bits != 0; bits &= bits - 1)
        out.push_back(word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits)));
    }
    return out;
  }

 private:
  const masked_part& of_;
  std::vector<axis_split> splits_;
  std::vector<std::uint64_t> seen_;
};

}  // namespace

std::vector<masked_elements> select_masked(const mask_selection& which, std::span<const masked_part> parts,
                                           const std::function<std::size_t(const extents&)>& part_of) {
  const extents& shape = which.shape;
  const std::size_t rank = shape.size();
  std::uint64_t size = 1;
  for (const std::uint64_t each : shape) size *= each;  // the mask was checked: it has as many bits
  const auto mask = std::make_shared<const bit_mask>(which.words, size);
  const extents bits = bits_between_neighbours(shape);
  std::vector<masked_elements> out(parts.size());
  std::vector<std::unique_ptr<touched_cells>> touched(parts.size());
  extents position(rank);
  std::optional<std::size_t> last;
  for (std::uint64_t at = mask->next_one(0, size); at < size;) {
    std::uint64_t rest = at;
    for (std::size_t d = rank; d-- > 0; rest /= shape[d]) position[d] = rest % shape[d];
    if (!last || (parts.size() > 1 && !is_in(parts[*last], position))) last = parts.size() == 1 ? 0 : part_of(position);
    const masked_part& of = parts[*last];
    std::uint64_t length = 1;
    if (of.grid == nullptr) {
      if (rank != 0) length = of.origin[rank - 1] + of.shape[rank - 1] - position[rank - 1];
    } else {
      auto& cells = touched[*last];
      if (!cells) cells = std::make_unique<touched_cells>(of);
      length = cells->note(position);
      if (parts.size() > 1) out[*last].count += mask->rank(at + length) - mask->rank(at);
    }
    at = mask->next_one(at + length, size);
  }
  if (parts.size() == 1) out[0].count = mask->ones();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].grid == nullptr || (!touched[i] && parts.size() > 1)) continue;
    std::uint64_t origin = 0;
    for (std::size_t d = 0; d < rank; ++d) origin += parts[i].origin[d] * bits[d];
    out[i].indexed = std::make_shared<set_bits>(*parts[i].grid, mask, bits, origin,
                                                touched[i] ? touched[i]->all() : std::vector<cell_id>());
  }
  return out;
}

result<resolved_selection> select(const mask_selection& which, const chunk_grid& grid) {
  extents shape;
  for (std::size_t d = 0; d < grid.rank(); ++d) shape.push_back(grid.axis(d).extent());
  PENSTOCK_TRY(check_mask(which, shape));
  const masked_part whole{&grid, extents(shape.size()), shape};
  resolved_selection out;
  masked_elements all = std::move(select_masked(which, {&whole, 1}, {})[0]);
  out.shape = extents{all.count};
  out.indexed = std::move(all.indexed);
  return out;
}

}  // namespace penstock::inline v0
