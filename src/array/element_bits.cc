#include "array/element_bits.h"

#include <cstddef>

#include "array/strided_copy.h"

namespace penstock::inline v0 {
namespace {

class element_bits {
 public:
  element_bits(const extents& cell, std::vector<std::uint64_t>& bits) : steps_(c_order_strides(cell, 1)), bits_(bits) {
    std::uint64_t volume = 1;
    for (const std::uint64_t each : cell) volume *= each;
    bits.assign(static_cast<std::size_t>((volume + 63) / 64), 0);
  }

  void mark(std::uint64_t at) noexcept { bits_[static_cast<std::size_t>(at / 64)] |= std::uint64_t{1} << at % 64; }
  void mark(std::uint64_t first, std::uint64_t count) noexcept {
    for (std::uint64_t i = 0; i < count; ++i) mark(first + i);
  }

  void mark_box(const strided_box& in_cell, std::size_t d, std::int64_t at) noexcept {
    if (d == in_cell.size()) return mark(static_cast<std::uint64_t>(at));
    for (std::uint64_t i = 0; i < in_cell[d].count; ++i) {
      const auto position =
          static_cast<std::int64_t>(in_cell[d].start) + static_cast<std::int64_t>(i) * in_cell[d].step;
      mark_box(in_cell, d + 1, at + position * steps_[d]);
    }
  }

  void mark_axes(const indexed_region& of, std::size_t d, std::int64_t at) noexcept {
    if (d == of.axes.size()) return mark(static_cast<std::uint64_t>(at));
    for (std::size_t r = 0; r < of.axes[d].size; ++r) {
      const index_run& run = of.axes[d].runs[r];
      for (std::uint64_t i = 0; i < run.count; ++i)
        mark_axes(of, d + 1, at + (run.start + static_cast<std::int64_t>(i) * run.step) * steps_[d]);
    }
  }

  void mark_mask(const indexed_region& of) {
    for_each_masked(of, steps_, [&](std::int64_t first, std::uint64_t, std::uint64_t count) {
      mark(static_cast<std::uint64_t>(first), count);
    });
  }

 private:
  strides steps_;
  std::vector<std::uint64_t>& bits_;
};

}  // namespace

void mark_elements(const strided_box* box, const indexed_region* of, const extents& cell,
                   std::vector<std::uint64_t>& bits) {
  element_bits out(cell, bits);
  if (of == nullptr) return out.mark_box(*box, 0, 0);
  switch (of->what) {
    case indexed_region::kind::axes:
      return out.mark_axes(*of, 0, 0);
    case indexed_region::kind::points:
      for (const cell_point& each : of->points) out.mark(each.in_cell);
      return;
    case indexed_region::kind::runs:
      for (const point_run& each : of->runs) out.mark(each.in_cell, each.count);
      return;
    case indexed_region::kind::mask:
      return out.mark_mask(*of);
  }
}

}  // namespace penstock::inline v0
