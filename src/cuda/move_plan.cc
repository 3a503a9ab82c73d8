#include "cuda/move_plan.h"

#include <algorithm>

#include "codec/codec_chain.h"

namespace penstock::inline v0::cuda {
namespace {

constexpr std::uint32_t kWidest = 16;
constexpr std::uint64_t kTileBytes = std::uint64_t{32} << 10;

using axis_list = dim_vector<move_axis>;

// Adds an inner axis, or makes it one with its outer neighbour.
void append(axis_list& axes, const move_axis& inner) {
  if (inner.count == 1) return;
  if (!axes.empty()) {
    move_axis& outer = axes[axes.size() - 1];
    const auto count = static_cast<std::int64_t>(inner.count);
    if (outer.from_step == inner.from_step * count && outer.to_step == inner.to_step * count) {
      outer = {outer.count * inner.count, inner.from_step, inner.to_step};
      return;
    }
  }
  axes.push_back(inner);
}

bool divides(std::uint32_t unit, std::uint64_t from, std::uint64_t to, const axis_list& axes) {
  if (from % unit != 0 || to % unit != 0 || axes[axes.size() - 1].count % unit != 0) return false;
  for (std::size_t d = 0; d + 1 < axes.size(); ++d)
    if (axes[d].from_step % unit != 0 || axes[d].to_step % unit != 0) return false;
  return true;
}

move_item finish(std::uint64_t from, std::uint64_t to, std::uint32_t unit, bool swap, const axis_list& axes,
                 std::vector<move_axis>& out) {
  move_item item;
  item.from = from;
  item.to = to;
  item.unit_bytes = unit;
  item.swap = swap ? 1 : 0;
  item.first_axis = static_cast<std::uint32_t>(out.size());
  item.units = 1;
  for (const move_axis& each : axes) {
    if (each.count == 1) continue;
    item.units *= each.count;
    out.push_back(each);
  }
  item.axes = static_cast<std::uint32_t>(out.size()) - item.first_axis;
  return item;
}

// The innermost axis counts bytes: makes it count the widest units that fit.
move_item widen(std::uint64_t from, std::uint64_t to, axis_list& axes, std::vector<move_axis>& out) {
  if (axes.empty()) axes.push_back({1, 0, 0});  // one byte
  std::uint32_t unit = kWidest;
  while (unit > 1 && !divides(unit, from, to, axes)) unit /= 2;
  move_axis& bytes = axes[axes.size() - 1];
  bytes.count /= unit;
  bytes.from_step *= unit;
  bytes.to_step *= unit;
  return finish(from, to, unit, false, axes, out);
}

// The axes of what is wanted of a cell, merged; `from` moves to its first item.
axis_list axes_of(const placement& where, const codec_chain& chain, std::uint64_t& from) {
  axis_list merged;
  for (std::size_t d = 0; d < where.counts.size(); ++d) {
    const axis_range& wanted = where.region.in_cell[d];
    const std::int64_t step = chain.stored_strides()[d];
    from += static_cast<std::uint64_t>(wanted.start * step);
    append(merged, {where.counts[d], wanted.step * step, where.target.strides[d]});
  }
  return merged;
}

}  // namespace

std::uint64_t tile_units(const move_item& item) noexcept { return kTileBytes / item.unit_bytes; }

move_item plan_scatter(const placement& where, const codec_chain& chain, std::uint64_t cell,
                       std::vector<move_axis>& axes) {
  std::uint64_t from = cell;
  axis_list merged = axes_of(where, chain, from);
  const auto to = reinterpret_cast<std::uint64_t>(where.target.data);
  const std::uint32_t item_bytes = chain.type().item_bytes();
  if (const std::uint32_t swap = chain.swap_bytes(); swap > 1) {
    append(merged, {item_bytes / swap, swap, swap});
    return finish(from, to, swap, true, merged, axes);
  }
  append(merged, {item_bytes, 1, 1});
  // Steps of one byte are what `widen` starts from.
  if (merged.empty() || merged[merged.size() - 1].from_step != 1 || merged[merged.size() - 1].to_step != 1)
    merged.push_back({1, 1, 1});
  return widen(from, to, merged, axes);
}

namespace {

// One number a unit; complex numbers have two.
move_item finish_converting(std::uint64_t from, std::uint64_t to, bool swap, const conversion& how, axis_list& axes,
                            std::vector<move_axis>& out) {
  if (how.parts > 1) append(axes, {how.parts, how.from_bytes / how.parts, how.to_bytes / how.parts});
  move_item item = finish(from, to, how.to_bytes / how.parts, swap, axes, out);
  item.convert_from = how.from;
  item.convert_to = how.to;
  return item;
}

}  // namespace

move_item plan_convert(const placement& where, const codec_chain& chain, const conversion& how, std::uint64_t cell,
                       std::vector<move_axis>& axes) {
  std::uint64_t from = cell;
  axis_list merged = axes_of(where, chain, from);
  const auto to = reinterpret_cast<std::uint64_t>(where.target.data);
  return finish_converting(from, to, chain.swap_bytes() > 1, how, merged, axes);
}

move_item plan_gather(const placement& where, const conversion& how, std::uint64_t to, std::vector<move_axis>& axes) {
  axis_list merged;
  const strides packed = c_order_strides(where.counts, how.to_bytes);
  for (std::size_t d = 0; d < where.counts.size(); ++d)
    append(merged, {where.counts[d], where.target.strides[d], packed[d]});
  const auto from = reinterpret_cast<std::uint64_t>(where.target.data);
  if (how.converts()) return finish_converting(from, to, false, how, merged, axes);
  append(merged, {how.to_bytes, 1, 1});
  if (merged.empty() || merged[merged.size() - 1].from_step != 1 || merged[merged.size() - 1].to_step != 1)
    merged.push_back({1, 1, 1});
  return widen(from, to, merged, axes);
}

move_item plan_fill(const placement& where, std::uint32_t item_bytes, const fill_pattern& pattern,
                    std::vector<move_axis>& axes) {
  axis_list merged;
  for (std::size_t d = 0; d < where.counts.size(); ++d) append(merged, {where.counts[d], 0, where.target.strides[d]});
  const auto to = reinterpret_cast<std::uint64_t>(where.target.data);
  const std::int64_t step = pattern.repeats ? 0 : 1;
  append(merged, {item_bytes, step, 1});
  if (merged.empty() || merged[merged.size() - 1].from_step != step || merged[merged.size() - 1].to_step != 1)
    merged.push_back({1, step, 1});
  return widen(pattern.address, to, merged, axes);
}

}  // namespace penstock::inline v0::cuda
