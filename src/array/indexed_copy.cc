#include "array/indexed_copy.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "array/converted_copy.h"
#include "array/item_movers.h"
#include "array/strided_copy.h"

namespace penstock::inline v0 {
namespace {

constexpr std::int64_t times(std::uint64_t i, std::int64_t stride) noexcept {
  return static_cast<std::int64_t>(i) * stride;
}

/// Replaces a pointer into a cell that is never read.
struct nowhere {
  nowhere operator+(std::int64_t) const noexcept { return *this; }
  nowhere& operator+=(std::int64_t) noexcept { return *this; }
};

// --- directions: the operation on one element, on a line of them, on a box of them ---

template <class Mover>
struct to_result {
  using cell_pointer = const std::byte*;
  Mover move;
  std::uint32_t item, unit;

  void one(std::byte* result, const std::byte* cell) const noexcept { move(result, cell); }
  void dense(std::byte* result, const std::byte* cell, std::uint64_t count) const noexcept {
    if (unit <= 1) {
      std::memcpy(result, cell, count * item);
    } else {
      swap_contiguous(result, cell, count * item, unit);
    }
  }
};

template <class Mover>
struct from_result {
  using cell_pointer = std::byte*;
  Mover move;
  std::uint32_t item;

  void one(const std::byte* result, std::byte* cell) const noexcept { move(cell, result); }
  void dense(const std::byte* result, std::byte* cell, std::uint64_t count) const noexcept {
    std::memcpy(cell, result, count * item);
  }
};

// Converted elements are processed in whole lines.
struct converted_to_result {
  const conversion& how;
  std::uint32_t item, unit;

  void one(std::byte* result, const std::byte* cell) const noexcept { line(result, 0, cell, 0, 1); }
  void line(std::byte* result, std::int64_t result_step, const std::byte* cell, std::int64_t cell_step,
            std::uint64_t count) const noexcept {
    convert_line(result, result_step, cell, cell_step, count, how, unit);
  }
};

struct converted_from_result {
  const conversion& how;
  std::uint32_t item;

  void one(const std::byte* result, std::byte* cell) const noexcept { line(result, 0, cell, 0, 1); }
  void line(const std::byte* result, std::int64_t result_step, std::byte* cell, std::int64_t cell_step,
            std::uint64_t count) const noexcept {
    convert_line(cell, cell_step, result, result_step, count, how, 1);
  }
};

template <class Mover>
struct to_nowhere {
  using cell_pointer = nowhere;
  Mover move;
  std::uint32_t item;
  const std::byte* value;

  void one(std::byte* result, nowhere) const noexcept { move(result, value); }
  void dense(std::byte* result, nowhere, std::uint64_t count) const noexcept {
    for (std::uint64_t i = 0; i < count; ++i, result += item) move(result, value);
  }
};

// --- lines ---

template <class Direction, class Cell>
void move_line(const Direction& to, std::byte* result, std::int64_t result_step, Cell cell, std::int64_t cell_step,
               std::uint64_t count) noexcept {
  if constexpr (requires { to.line(result, result_step, cell, cell_step, count); }) {
    to.line(result, result_step, cell, cell_step, count);
  } else if (count == 1) {
    to.one(result, cell);
  } else if (result_step == to.item && cell_step == to.item) {
    to.dense(result, cell, count);
  } else {
    for (std::uint64_t i = 0; i < count; ++i, result += result_step, cell += cell_step) to.one(result, cell);
  }
}

template <class Direction, class Cell>
void move_runs(const Direction& to, const run_list& list, std::byte* result, std::int64_t result_stride, Cell cell,
               std::int64_t cell_stride) noexcept {
  for (const index_run* run = list.runs; run != list.runs + list.size; ++run) {
    move_line(to, result + times(run->result, result_stride), result_stride, cell + run->start * cell_stride,
              run->step * cell_stride, run->count);
  }
}

/// Every combination of lists; the dimensions after the last list are one block on both sides.
template <class Direction, class Cell>
void move_lists(const Direction& to, const indexed_blocks& blocks, const indexed_region& region, std::size_t d,
                std::size_t last, std::byte* result, Cell cell) noexcept {
  const std::int64_t result_stride = blocks.result_strides[d], cell_stride = blocks.cell_strides[d];
  const run_list& list = region.axes[d];
  if (d == last) return move_runs(to, list, result, result_stride, cell, cell_stride);
  for (const index_run* run = list.runs; run != list.runs + list.size; ++run) {
    std::byte* r = result + times(run->result, result_stride);
    Cell c = cell + run->start * cell_stride;
    for (std::uint64_t i = 0; i < run->count; ++i, r += result_stride, c += run->step * cell_stride)
      move_lists(to, blocks, region, d + 1, last, r, c);
  }
}

/// Every combination of runs, each a strided box.
template <class Box>
void for_each_box(const indexed_blocks& blocks, const indexed_region& region, std::size_t d, std::int64_t in_result,
                  std::int64_t in_cell, extents& counts, strides& cell_steps, const Box& box) noexcept {
  if (d == region.axes.size()) return box(in_result, in_cell);
  const run_list& list = region.axes[d];
  for (const index_run* run = list.runs; run != list.runs + list.size; ++run) {
    counts[d] = run->count;
    cell_steps[d] = run->step * blocks.cell_strides[d];
    for_each_box(blocks, region, d + 1, in_result + times(run->result, blocks.result_strides[d]),
                 in_cell + run->start * blocks.cell_strides[d], counts, cell_steps, box);
  }
}

/// The last dimension that is really a list, and the bytes of the block after it; 0 if that is not a block.
struct list_shape {
  std::size_t last;
  std::uint64_t block_bytes;
};

list_shape shape_of_lists(const indexed_blocks& blocks, const indexed_region& region) noexcept {
  list_shape out{region.axes.size(), blocks.item_bytes};
  while (out.last > 0) {
    const std::size_t d = out.last - 1;
    const run_list& list = region.axes[d];
    if (list.size > 1) {
      out.last = d;
      return out;
    }
    const index_run& run = list.runs[0];
    if (run.count > 1) {
      const auto block = static_cast<std::int64_t>(out.block_bytes);
      if (blocks.result_strides[d] != block || run.step * blocks.cell_strides[d] != block) {
        out.block_bytes = 0;
        return out;
      }
      out.block_bytes *= run.count;
    }
    out.last = d;
  }
  out.block_bytes = 0;  // no list at all: one box
  return out;
}

// --- points ---

struct linear {
  std::int64_t stride;
  std::int64_t operator()(std::uint64_t i) const noexcept { return times(i, stride); }
};

struct shaped {
  const extents& shape;
  const strides& by;
  std::int64_t operator()(std::uint64_t i) const noexcept {
    std::int64_t at = 0;
    for (std::size_t d = shape.size(); d-- > 0;) {
      const std::uint64_t rest = i / shape[d];
      at += times(i - rest * shape[d], by[d]);
      i = rest;
    }
    return at;
  }
};

template <class Direction, class Cell, class ResultAt, class CellAt>
void move_points(const Direction& to, const indexed_region& region, std::byte* result, const ResultAt& result_at,
                 Cell cell, const CellAt& cell_at) noexcept {
  for (const cell_point& each : region.points) to.one(result + result_at(each.in_result), cell + cell_at(each.in_cell));
}

template <class Direction, class Cell>
void move_point_runs(const Direction& to, const indexed_region& region, std::byte* result, const linear& result_at,
                     Cell cell, const linear& cell_at) noexcept {
  for (const point_run& each : region.runs) {
    move_line(to, result + result_at(each.in_result), result_at.stride, cell + cell_at(each.in_cell), cell_at.stride,
              each.count);
  }
}

/// Calls `each(bit, count, offset)` for the mask's rows within the cell; `offset` is the row's in the cell.
template <class Each>
void for_each_row(const indexed_region& region, const strides* cell_strides, const Each& each) noexcept {
  const std::size_t rank = region.mask_counts.size();
  const std::uint64_t length = rank == 0 ? 1 : region.mask_counts[rank - 1];
  dim_vector<std::uint64_t> at(rank, 0);
  std::uint64_t row = region.mask_origin;
  std::int64_t offset = 0;
  for (;;) {
    each(row, length, offset);
    std::size_t d = rank == 0 ? 0 : rank - 1;
    for (;;) {
      if (d-- == 0) return;
      const std::int64_t stride = cell_strides == nullptr ? 0 : (*cell_strides)[d];
      if (++at[d] < region.mask_counts[d]) {
        row += region.mask_strides[d];
        offset += stride;
        break;
      }
      row -= region.mask_strides[d] * (region.mask_counts[d] - 1);
      offset -= times(region.mask_counts[d] - 1, stride);
      at[d] = 0;
    }
  }
}

template <class Each>
void for_each_set(const indexed_region& region, const strides& cell_strides, const Each& each) {
  const bit_mask& mask = *region.mask;
  const std::int64_t step = cell_strides.empty() ? 0 : cell_strides[cell_strides.size() - 1];
  for_each_row(region, &cell_strides, [&](std::uint64_t row, std::uint64_t length, std::int64_t offset) {
    const std::uint64_t end = row + length;
    std::uint64_t one = mask.next_one(row, end);
    if (one == end) return;
    std::uint64_t in_result = mask.rank(one);
    do {
      const std::uint64_t zero = mask.next_zero(one, end);
      each(offset + times(one - row, step), in_result, zero - one);
      in_result += zero - one;
      one = mask.next_one(zero, end);
    } while (one != end);
  });
}

template <class Direction, class Cell>
void move_mask(const Direction& to, const indexed_blocks& blocks, const indexed_region& region, std::byte* result,
               std::int64_t result_stride, Cell cell) noexcept {
  const std::int64_t step = blocks.cell_strides.empty() ? to.item : blocks.cell_strides[blocks.cell_strides.size() - 1];
  for_each_set(region, blocks.cell_strides, [&](std::int64_t offset, std::uint64_t in_result, std::uint64_t count) {
    move_line(to, result + times(in_result, result_stride), result_stride, cell + offset, step, count);
  });
}

// --- selection of the mover ---

/// Calls `then` with a mover for items of `item` bytes, made of units of `unit` bytes.
template <class Then>
void with_mover(std::uint64_t item, std::uint32_t unit, const Then& then) noexcept {
  if (unit <= 1) {
    switch (item) {
      case 1:
        return then(fixed_mover<1, 1>());
      case 2:
        return then(fixed_mover<2, 1>());
      case 4:
        return then(fixed_mover<4, 1>());
      case 8:
        return then(fixed_mover<8, 1>());
      case 16:
        return then(fixed_mover<16, 1>());
      default:
        break;
    }
  } else if (item == unit) {
    if (unit == 2) return then(fixed_mover<2, 2>());
    if (unit == 4) return then(fixed_mover<4, 4>());
    if (unit == 8) return then(fixed_mover<8, 8>());
  }
  then(general_mover{static_cast<std::uint32_t>(item), unit});
}

/// Moves all kinds except `axes`. `make(mover, item)` creates the direction.
template <class Cell, class Make>
void move_numbered(const indexed_blocks& blocks, const indexed_region& region, std::uint32_t unit, Cell cell,
                   const Make& make) noexcept {
  std::int64_t result_stride = 0, cell_stride = 0;
  bool straight = linear_stride(*region.result_shape, blocks.result_strides, result_stride);
  if (region.what == indexed_region::kind::mask) {
    return with_mover(blocks.item_bytes, unit, [&](const auto& mover) {
      move_mask(make(mover, blocks.item_bytes), blocks, region, blocks.result, result_stride, cell);
    });
  }
  straight = straight && linear_stride(blocks.cell_shape, blocks.cell_strides, cell_stride);
  if (!straight) {
    const auto to = make(general_mover{blocks.item_bytes, unit}, blocks.item_bytes);
    const shaped result_at{*region.result_shape, blocks.result_strides};
    const shaped cell_at{blocks.cell_shape, blocks.cell_strides};
    move_points(to, region, blocks.result, result_at, cell, cell_at);
    for (const point_run& each : region.runs) {
      for (std::uint64_t i = 0; i < each.count; ++i)
        to.one(blocks.result + result_at(each.in_result + i), cell + cell_at(each.in_cell + i));
    }
    return;
  }
  with_mover(blocks.item_bytes, unit, [&](const auto& mover) {
    const auto to = make(mover, blocks.item_bytes);
    move_points(to, region, blocks.result, linear{result_stride}, cell, linear{cell_stride});
    move_point_runs(to, region, blocks.result, linear{result_stride}, cell, linear{cell_stride});
  });
}

/// Moves `axes`; `box(in_result, in_cell, counts, cell_steps)` if the lists do not contain plain blocks.
template <class Cell, class Make, class Box>
void move_axes(const indexed_blocks& blocks, const indexed_region& region, std::uint32_t unit, Cell cell,
               const Make& make, const Box& box) noexcept {
  const list_shape lists = shape_of_lists(blocks, region);
  if (lists.block_bytes == 0 || lists.block_bytes > std::numeric_limits<std::uint32_t>::max()) {
    extents counts(region.axes.size());
    strides steps(region.axes.size());
    for_each_box(blocks, region, 0, 0, 0, counts, steps, [&](std::int64_t in_result, std::int64_t in_cell) {
      box(blocks.result + in_result, cell + in_cell, counts, steps);
    });
    return;
  }
  // Dimensions after the last list are one block; those with one position there still have an offset.
  std::byte* result = blocks.result;
  for (std::size_t d = lists.last + 1; d < region.axes.size(); ++d) {
    result += times(region.axes[d].runs[0].result, blocks.result_strides[d]);
    cell += region.axes[d].runs[0].start * blocks.cell_strides[d];
  }
  with_mover(lists.block_bytes, unit, [&](const auto& mover) {
    move_lists(make(mover, static_cast<std::uint32_t>(lists.block_bytes)), blocks, region, 0, lists.last, result, cell);
  });
}

}  // namespace

bool linear_stride(const extents& shape, const strides& by, std::int64_t& stride) noexcept {
  bool found = false;
  std::int64_t expected = 0;
  stride = 0;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1) continue;
    if (!found) {
      stride = by[d];
      found = true;
    } else if (by[d] != expected) {
      return false;
    }
    expected = by[d] * static_cast<std::int64_t>(shape[d]);
  }
  return true;
}

void indexed_scatter(const indexed_blocks& blocks, const indexed_region& region, std::uint32_t swap_bytes) noexcept {
  if (blocks.item_bytes == 0) return;
  const std::byte* const cell = blocks.cell;
  const auto make = [&](const auto& mover, std::uint32_t item) {
    return to_result<std::decay_t<decltype(mover)>>{mover, item, swap_bytes};
  };
  if (region.what != indexed_region::kind::axes) return move_numbered(blocks, region, swap_bytes, cell, make);
  move_axes(blocks, region, swap_bytes, cell, make,
            [&](std::byte* result, const std::byte* from, const extents& counts, const strides& steps) {
              strided_copy(result, blocks.result_strides, from, steps, counts, blocks.item_bytes, swap_bytes);
            });
}

namespace {

// For a region of lists or of numbered elements, if it is processed in lines.
template <class Direction, class Cell>
void convert_region(const Direction& to, const indexed_blocks& blocks, const indexed_region& region, std::uint32_t unit,
                    Cell cell) noexcept {
  if (region.what != indexed_region::kind::axes)
    return move_numbered(blocks, region, unit, cell, [&](const auto&, std::uint32_t) { return to; });
  if (region.axes.empty()) return to.one(blocks.result, cell);
  move_lists(to, blocks, region, 0, region.axes.size() - 1, blocks.result, cell);
}

}  // namespace

void indexed_scatter(const indexed_blocks& blocks, const indexed_region& region, std::uint32_t swap_bytes,
                     const conversion& how) noexcept {
  const std::byte* const cell = blocks.cell;
  convert_region(converted_to_result{how, how.from_bytes, swap_bytes}, blocks, region, swap_bytes, cell);
}

void indexed_gather(const indexed_blocks& blocks, const indexed_region& region, const conversion& how) noexcept {
  convert_region(converted_from_result{how, how.to_bytes}, blocks, region, 1, blocks.cell);
}

void indexed_gather(const indexed_blocks& blocks, const indexed_region& region) noexcept {
  if (blocks.item_bytes == 0) return;
  const auto make = [&](const auto& mover, std::uint32_t item) {
    return from_result<std::decay_t<decltype(mover)>>{mover, item};
  };
  if (region.what != indexed_region::kind::axes) return move_numbered(blocks, region, 1, blocks.cell, make);
  move_axes(blocks, region, 1, blocks.cell, make,
            [&](const std::byte* result, std::byte* to, const extents& counts, const strides& steps) {
              strided_copy(to, steps, result, blocks.result_strides, counts, blocks.item_bytes, 1);
            });
}

void indexed_fill(const indexed_blocks& blocks, const indexed_region& region, const std::byte* item) noexcept {
  if (blocks.item_bytes == 0) return;
  const auto make = [&](const auto& mover, std::uint32_t bytes) {
    return to_nowhere<std::decay_t<decltype(mover)>>{mover, bytes, item};
  };
  if (region.what != indexed_region::kind::axes) return move_numbered(blocks, region, 1, nowhere(), make);
  if (shape_of_lists(blocks, region).block_bytes == blocks.item_bytes) {
    return move_axes(blocks, region, 1, nowhere(), make, [](std::byte*, nowhere, const extents&, const strides&) {});
  }
  extents counts(region.axes.size());
  strides steps(region.axes.size());
  for_each_box(blocks, region, 0, 0, 0, counts, steps, [&](std::int64_t in_result, std::int64_t) {
    strided_fill(blocks.result + in_result, blocks.result_strides, counts, item, blocks.item_bytes);
  });
}

void for_each_masked(const indexed_region& region, const strides& cell_strides,
                     const std::function<void(std::int64_t, std::uint64_t, std::uint64_t)>& each) {
  for_each_set(region, cell_strides, each);
}

std::uint64_t wanted_elements(const indexed_region& region) noexcept {
  std::uint64_t count = region.points.size();
  for (const point_run& each : region.runs) count += each.count;
  if (region.what == indexed_region::kind::axes) {
    count = 1;
    for (const run_list& list : region.axes) {
      std::uint64_t positions = 0;
      for (std::size_t i = 0; i < list.size; ++i) positions += list.runs[i].count;
      count *= positions;
    }
  } else if (region.what == indexed_region::kind::mask) {
    for_each_row(region, nullptr, [&](std::uint64_t row, std::uint64_t length, std::int64_t) {
      count += region.mask->rank(row + length) - region.mask->rank(row);
    });
  }
  return count;
}

std::uint64_t distinct_elements(const indexed_region& region, const extents& cell_shape) {
  std::vector<bool> seen;
  std::uint64_t distinct = 0;
  const auto mark = [&](std::uint64_t at) {
    if (seen[static_cast<std::size_t>(at)]) return;
    seen[static_cast<std::size_t>(at)] = true;
    ++distinct;
  };
  switch (region.what) {
    case indexed_region::kind::mask:
      return wanted_elements(region);
    case indexed_region::kind::axes: {
      std::uint64_t product = 1;
      for (std::size_t d = 0; d < region.axes.size(); ++d) {
        seen.assign(static_cast<std::size_t>(cell_shape[d]), false);
        distinct = 0;
        for (std::size_t i = 0; i < region.axes[d].size; ++i) {
          const index_run& run = region.axes[d].runs[i];
          for (std::uint64_t k = 0; k < run.count; ++k)
            mark(static_cast<std::uint64_t>(run.start + static_cast<std::int64_t>(k) * run.step));
        }
        product *= distinct;
      }
      return product;
    }
    case indexed_region::kind::points:
    case indexed_region::kind::runs:
      break;
  }
  std::uint64_t volume = 1;
  for (const std::uint64_t size : cell_shape) volume *= size;
  seen.assign(static_cast<std::size_t>(volume), false);
  for (const cell_point& each : region.points) mark(each.in_cell);
  for (const point_run& each : region.runs)
    for (std::uint64_t k = 0; k < each.count; ++k) mark(each.in_cell + k);
  return distinct;
}

}  // namespace penstock::inline v0
