#include "cuda/move_plan.h"

#include <algorithm>
#include <span>

#include "array/indexed_copy.h"
#include "codec/codec_chain.h"

namespace penstock::inline v0::cuda {
namespace {

constexpr std::uint32_t kWidest = 16;
constexpr std::uint64_t kTileBytes = std::uint64_t{32} << 10;

// The input of a plan for a move: the loops, and the runs of loops that list positions.
struct move_loops {
  dim_vector<move_axis> axes;
  std::vector<move_run>* runs = nullptr;
  std::size_t first_run = 0;
  std::uint64_t from = 0, to = 0;  // the first unit
  std::uint64_t offsets = 0;       // bitwise "or" of all runs' offsets: it limits the alignment

  bool ends_with(std::int64_t from_step, std::int64_t to_step) const noexcept {
    if (axes.empty()) return false;
    const move_axis& last = axes[axes.size() - 1];
    return last.runs == 0 && last.from_step == from_step && last.to_step == to_step;
  }

  // Adds an inner axis, or merges it with its outer neighbour.
  void append(const move_axis& inner) {
    if (inner.count == 1) return;
    const auto count = static_cast<std::int64_t>(inner.count);
    if (ends_with(inner.from_step * count, inner.to_step * count)) {
      move_axis& outer = axes[axes.size() - 1];
      outer = {outer.count * inner.count, inner.from_step, inner.to_step};
      return;
    }
    axes.push_back(inner);
  }

  // An axis of runs: `open`, then `add` for each of them.
  void open(std::int64_t from_step, std::int64_t to_step) {
    axes.push_back({0, from_step, to_step, static_cast<std::uint32_t>(runs->size() - first_run), 0});
  }
  void add(std::int64_t from_offset, std::int64_t to_offset, std::uint64_t count) {
    move_axis& axis = axes[axes.size() - 1];
    runs->push_back({axis.count, from_offset, to_offset});
    offsets |= static_cast<std::uint64_t>(from_offset) | static_cast<std::uint64_t>(to_offset);
    axis.count += count;
    ++axis.runs;
  }
};

bool divides(std::uint32_t unit, const move_loops& loops) {
  if (loops.from % unit != 0 || loops.to % unit != 0 || loops.offsets % unit != 0) return false;
  const auto& axes = loops.axes;
  if (axes[axes.size() - 1].count % unit != 0) return false;
  for (std::size_t d = 0; d + 1 < axes.size(); ++d)
    if (axes[d].from_step % unit != 0 || axes[d].to_step % unit != 0) return false;
  return true;
}

move_item finish(const move_loops& loops, std::uint32_t unit, bool swap, std::vector<move_axis>& out) {
  move_item item;
  item.from = loops.from;
  item.to = loops.to;
  item.unit_bytes = unit;
  item.swap = swap ? 1 : 0;
  item.first_axis = static_cast<std::uint32_t>(out.size());
  item.units = 1;
  for (const move_axis& each : loops.axes) {
    if (each.count == 1 && each.runs == 0) continue;
    item.units *= each.count;
    out.push_back(each);
  }
  item.axes = static_cast<std::uint32_t>(out.size()) - item.first_axis;
  if (loops.runs != nullptr) {
    item.first_run = static_cast<std::uint32_t>(loops.first_run);
    item.runs = static_cast<std::uint32_t>(loops.runs->size() - loops.first_run);
  }
  return item;
}

// Appends an item's bytes; counts in the widest units that fit.
move_item widen(move_loops& loops, std::uint32_t item_bytes, std::int64_t from_step, std::vector<move_axis>& out) {
  loops.append({item_bytes, from_step, 1});
  if (!loops.ends_with(from_step, 1)) loops.axes.push_back({1, from_step, 1});  // one byte
  std::uint32_t unit = kWidest;
  while (unit > 1 && !divides(unit, loops)) unit /= 2;
  move_axis& bytes = loops.axes[loops.axes.size() - 1];
  bytes.count /= unit;
  bytes.from_step *= unit;
  bytes.to_step *= unit;
  return finish(loops, unit, false, out);
}

// ---- selections that list positions ----

// Every combination of the dimensions' lists.
void add_lists(move_loops& loops, const indexed_region& region, const strides& from, const strides& to) {
  for (std::size_t d = 0; d < region.axes.size(); ++d) {
    const std::span<const index_run> runs(region.axes[d].runs, region.axes[d].size);
    const auto offset_in_result = [&](const index_run& run) { return static_cast<std::int64_t>(run.result) * to[d]; };
    if (runs.size() == 1) {
      loops.from += static_cast<std::uint64_t>(runs[0].start * from[d]);
      loops.to += static_cast<std::uint64_t>(offset_in_result(runs[0]));
      loops.append({runs[0].count, runs[0].step * from[d], to[d]});
      continue;
    }
    const auto longer = std::find_if(runs.begin(), runs.end(), [](const index_run& run) { return run.count > 1; });
    const std::int64_t step = longer == runs.end() ? 1 : longer->step;  // steps of single positions may differ
    loops.open(step * from[d], to[d]);
    for (const index_run& run : runs) {
      const std::uint64_t together = run.step == step ? run.count : 1;
      for (std::uint64_t i = 0; i < run.count; i += together) {
        loops.add((run.start + static_cast<std::int64_t>(i) * run.step) * from[d],
                  offset_in_result(run) + static_cast<std::int64_t>(i) * to[d], together);
      }
    }
  }
}

// The position of an element with a number in C order.
std::int64_t offset_of(std::uint64_t number, const extents& shape, const strides& by) {
  std::int64_t offset = 0;
  for (std::size_t d = shape.size(); d-- > 0;) {
    offset += static_cast<std::int64_t>(number % shape[d]) * by[d];
    number /= shape[d];
  }
  return offset;
}

// Single elements, of `cell` by its strides `from`.
void add_points(move_loops& loops, const indexed_region& region, const extents& cell, const strides& from,
                const strides& to) {
  std::int64_t from_step = 0, to_step = 0;
  const bool straight = linear_stride(cell, from, from_step) && linear_stride(*region.result_shape, to, to_step);
  loops.open(from_step, to_step);
  const auto add = [&](std::uint64_t in_cell, std::uint64_t in_result, std::uint64_t count) {
    const std::uint64_t together = straight ? count : 1;
    for (std::uint64_t i = 0; i < count; i += together)
      loops.add(offset_of(in_cell + i, cell, from), offset_of(in_result + i, *region.result_shape, to), together);
  };
  for (const cell_point& each : region.points) add(each.in_cell, each.in_result, 1);
  for (const point_run& each : region.runs) add(each.in_cell, each.in_result, each.count);
}

void add_mask(move_loops& loops, const indexed_region& region, const strides& from, const strides& to) {
  loops.open(from.empty() ? 0 : from[from.size() - 1], to[0]);
  for_each_masked(region, from, [&](std::int64_t offset, std::uint64_t in_result, std::uint64_t count) {
    loops.add(offset, static_cast<std::int64_t>(in_result) * to[0], count);
  });
}

// The loops over the wanted elements of a cell with these strides at `from`.
move_loops loops_of(const placement& where, const extents& cell, const strides& stored, std::uint64_t from,
                    const move_tables& tables) {
  move_loops loops;
  loops.from = from;
  loops.to = reinterpret_cast<std::uint64_t>(where.target.data);
  if (where.target.indexed == nullptr) {
    for (std::size_t d = 0; d < where.counts.size(); ++d) {
      const axis_range& wanted = where.region.in_cell[d];
      loops.from += static_cast<std::uint64_t>(wanted.start * stored[d]);
      loops.append({where.counts[d], wanted.step * stored[d], where.target.strides[d]});
    }
    return loops;
  }
  loops.runs = &tables.runs;
  loops.first_run = tables.runs.size();
  const indexed_region& region = *where.target.indexed;
  switch (region.what) {
    case indexed_region::kind::axes:
      add_lists(loops, region, stored, where.target.strides);
      break;
    case indexed_region::kind::points:
    case indexed_region::kind::runs:
      add_points(loops, region, cell, stored, where.target.strides);
      break;
    case indexed_region::kind::mask:
      add_mask(loops, region, stored, where.target.strides);
      break;
  }
  return loops;
}

// One number for each unit; complex numbers have two.
move_item finish_converting(move_loops& loops, bool swap, const conversion& how, std::vector<move_axis>& out) {
  if (how.parts > 1) loops.append({how.parts, how.from_bytes / how.parts, how.to_bytes / how.parts});
  move_item item = finish(loops, how.to_bytes / how.parts, swap, out);
  item.convert_from = how.from;
  item.convert_to = how.to;
  return item;
}

}  // namespace

std::uint64_t tile_units(const move_item& item) noexcept { return kTileBytes / item.unit_bytes; }

move_item plan_scatter(const placement& where, const codec_chain& chain, std::uint64_t cell,
                       const move_tables& tables) {
  move_loops loops = loops_of(where, chain.cell(), chain.stored_strides(), cell, tables);
  const std::uint32_t item_bytes = chain.type().item_bytes();
  if (const std::uint32_t swap = chain.swap_bytes(); swap > 1) {
    loops.append({item_bytes / swap, swap, swap});
    return finish(loops, swap, true, tables.axes);
  }
  return widen(loops, item_bytes, 1, tables.axes);
}

move_item plan_convert(const placement& where, const codec_chain& chain, const conversion& how, std::uint64_t cell,
                       const move_tables& tables) {
  move_loops loops = loops_of(where, chain.cell(), chain.stored_strides(), cell, tables);
  return finish_converting(loops, chain.swap_bytes() > 1, how, tables.axes);
}

move_item plan_gather(const placement& where, const conversion& how, std::uint64_t to, std::vector<move_axis>& axes) {
  move_loops loops;
  loops.from = reinterpret_cast<std::uint64_t>(where.target.data);
  loops.to = to;
  const strides packed = c_order_strides(where.counts, how.to_bytes);
  for (std::size_t d = 0; d < where.counts.size(); ++d)
    loops.append({where.counts[d], where.target.strides[d], packed[d]});
  if (how.converts()) return finish_converting(loops, false, how, axes);
  return widen(loops, how.to_bytes, 1, axes);
}

move_item plan_fill(const placement& where, std::uint32_t item_bytes, const fill_pattern& pattern,
                    const move_tables& tables) {
  // A cell whose elements all have the same address.
  const strides still(kMaxRank, 0);
  move_loops loops = loops_of(where, {}, still, pattern.address, tables);
  return widen(loops, item_bytes, pattern.repeats ? 0 : 1, tables.axes);
}

}  // namespace penstock::inline v0::cuda
