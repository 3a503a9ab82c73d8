#include "api/read_source.h"

#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

#include "api/divided_selection.h"
#include "array/selection_checks.h"
#include "base/checked.h"
#include "codec/codec_chain.h"
#include "engine/closed_parts.h"
#include "plan/indexed_selection.h"

namespace penstock::inline v0 {
namespace {

/// A selection is sparse if it needs less than this fraction of the cells that it touches.
constexpr std::uint64_t kLittle = 32;
/// The bytes that a local file returns in the time that one more request takes.
constexpr std::uint64_t kRequestBytes = std::uint64_t{16} << 10;

// The layout whose cells a selection names; null if it belongs to another array.
const chunk_layout* layout_of(const array_state& state, const resolved_selection& which) {
  if (!which.indexed || which.indexed->grid() == state.layout->grid()) return state.layout.get();
  const chunk_layout* const finer = state.layout->finer();
  return finer != nullptr && which.indexed->grid() == finer->grid() ? finer : nullptr;
}

strides axis_strides(const resolved_basic& which, const strides& result_strides) {
  strides out(which.axis.size());
  for (std::size_t d = 0; d < which.axis.size(); ++d)
    out[d] = which.axis[d] < 0 ? 0 : result_strides[static_cast<std::size_t>(which.axis[d])];
  return out;
}

source plain_source(const array_state& state, std::byte* to) {
  source out;
  out.layout = state.layout.get();
  out.store = state.store.get();
  out.prefix = state.prefix;
  out.to = to;
  out.fill = state.fill_value.data();
  out.uid = state.caches_indexes ? state.uid : 0;
  return out;
}

// Appends a source of a part that has no parts itself.
result<> add_source(source&& one, const array_state& part, const dtype* type, part_sources& out) {
  one.fill = part.fill_value.data();
  one.convert = nullptr;
  if (type != nullptr && !(*type == part.type)) {
    PENSTOCK_ASSIGN(element_conversion becomes, conversion_to(*type, part));
    out.becomes.push_back(std::move(becomes));
    one.convert = &out.becomes.back();
  }
  out.all.push_back(std::move(one));
  return {};
}

// `from` for a part.
source source_of_part(const source& from, const array_parts& of, std::size_t which) {
  source out = from;
  out.layout = of.arrays[which].state().layout.get();
  out.store = of.store.get();
  out.prefix = of.prefixes[which];
  out.uid = of.uids[which];
  return out;
}

// Appends the sources of the parts that `from`, a box of the array with these parts, touches.
result<> divide(const array_parts& of, const source& from, const dtype* type, part_sources& out) {
  const axis_range along = from.from[of.axis];
  for (std::uint64_t first = 0; first < along.count;) {
    const array_parts::piece piece = of.piece_at(along, first);
    const array_state& part = of.arrays[piece.part].state();
    source one = source_of_part(from, of, piece.part);
    one.from[of.axis] = piece.inside;
    if (from.to != nullptr) one.to = from.to + static_cast<std::int64_t>(first) * from.to_strides[of.axis];
    first += piece.inside.count;
    if (part.parts != nullptr) {
      PENSTOCK_TRY(divide(*part.parts, one, type, out));
    } else {
      PENSTOCK_TRY(add_source(std::move(one), part, type, out));
    }
  }
  return {};
}

// The same for lists, points and masks.
result<> divide(const divided_selection& which, const source& from, const dtype* type, part_sources& out) {
  for (const divided_selection::share& each : which.shares()) {
    const array_state& part = each.in->arrays[each.which].state();
    source one = source_of_part(from, *each.in, each.which);
    if (each.layout != one.layout) one.uid = 0;  // caches identify cells by their numbers
    one.layout = each.layout;
    one.indexed = each.indexed.get();
    one.from = each.from;
    for (std::size_t d = 0; from.to != nullptr && d < each.first.size(); ++d)
      one.to += static_cast<std::int64_t>(each.first[d]) * from.to_strides[d];
    PENSTOCK_TRY(add_source(std::move(one), part, type, out));
  }
  return {};
}

template <class Which>
std::shared_ptr<const indexed_selection> with_shares(const array_state& state, resolved_selection& made,
                                                     const Which& which) {
  if constexpr (std::is_same_v<Which, mask_selection>) {
    return std::make_shared<divided_selection>(std::move(made.indexed), state.parts, which);
  } else if constexpr (std::is_same_v<Which, coordinate_selection>) {
    return with_shares(state, made, coordinate_view{{which.points.begin(), which.points.end()}, which.shape});
  } else {
    return std::make_shared<divided_selection>(std::move(made.indexed), state.parts, which, state.shape);
  }
}

// Lists, points or a mask; those of an array with parts for each of them.
template <class Which>
result<resolved_selection> select_of(const array_state& state, const Which& which) {
  PENSTOCK_ASSIGN(resolved_selection made, select_among(*state.layout, which));
  if (state.parts && made.indexed && !is_empty(made.shape)) made.indexed = with_shares(state, made, which);
  return made;
}

struct resolver {
  const array_state& state;

  template <class Which>
  result<resolved_selection> operator()(const Which& which) const {
    return select_of(state, which);
  }
  result<resolved_selection> operator()(const basic_selection& which) const { return box(resolve(which, state.shape)); }
  result<resolved_selection> operator()(const block_selection& which) const {
    return box(resolve(which, state.layout->write_grid()));
  }

 private:
  static result<resolved_selection> box(result<resolved_basic> from) {
    if (!from.ok()) return std::move(from).error();
    resolved_selection out;
    static_cast<resolved_basic&>(out) = std::move(*from);
    return out;
  }
};

}  // namespace

result<opened_selection> open_needed(const array_state& state, const resolved_selection& which) {
  if (which.indexed || is_empty(which.shape)) {
    PENSTOCK_ASSIGN(array all, state.closed->all());
    return opened_selection{std::move(all), which};
  }
  const std::size_t axis = state.closed->axis();
  const axis_range& along = which.from[axis];
  const std::int64_t last = along.at(along.count - 1);
  const std::int64_t low = std::min(along.start, last), high = std::max(along.start, last);
  PENSTOCK_ASSIGN(closed_parts::joined made,
                  state.closed->needed(static_cast<std::uint64_t>(low), static_cast<std::uint64_t>(high)));
  opened_selection out{std::move(made.of), which};
  out.which.from[axis].start -= static_cast<std::int64_t>(made.begin);
  return out;
}

result<opened_lists> open_needed(const array_state& state, const orthogonal_selection& which) {
  const std::size_t axis = state.closed->axis();
  const auto size = static_cast<std::int64_t>(state.shape[axis]);
  const auto* const list = axis < which.items.size() ? std::get_if<index_list>(&which.items[axis]) : nullptr;
  const auto* const range = axis < which.items.size() ? std::get_if<slice>(&which.items[axis]) : nullptr;
  std::int64_t low = 0, high = size - 1;
  std::optional<axis_range> along;
  if (list != nullptr && !list->empty()) {
    const auto [first, last] = std::minmax_element(list->begin(), list->end());
    low = *first;
    high = *last;
  } else if (range != nullptr) {
    PENSTOCK_ASSIGN(const resolved_basic resolved, resolve(basic_selection{{*range}}, extents{state.shape[axis]}));
    along = resolved.from[0];
    if (along->count != 0 && along->step > 0) {
      low = along->start;
      high = along->at(along->count - 1);
    }
  }
  // Negative and invalid numbers count from the end of the whole array, or are its errors.
  const bool is_part =
      (list != nullptr || range != nullptr) && low >= 0 && low <= high && high < size && (low != 0 || high != size - 1);
  if (!is_part) {
    PENSTOCK_ASSIGN(array all, state.closed->all());
    return opened_lists{std::move(all), which};
  }
  PENSTOCK_ASSIGN(closed_parts::joined made,
                  state.closed->needed(static_cast<std::uint64_t>(low), static_cast<std::uint64_t>(high)));
  const auto begin = static_cast<std::int64_t>(made.begin);
  orthogonal_selection moved = which;
  if (list != nullptr) {
    for (std::int64_t& each : std::get<index_list>(moved.items[axis])) each -= begin;
  } else {
    moved.items[axis] = slice{low - begin, high + 1 - begin, along->step};
  }
  return opened_lists{std::move(made.of), std::move(moved)};
}

result<element_conversion> conversion_to(const dtype& type, const array_state& state) {
  element_conversion out;
  PENSTOCK_ASSIGN(out.how, conversion_of(state.type, type));
  convert_item(out.how, state.fill_value.data(), out.fill);
  return out;
}

result<part_sources> divide_by_parts(const array_state& state, const source& from, const dtype* type) {
  part_sources out;
  if (from.indexed == nullptr) {
    PENSTOCK_TRY(divide(*state.parts, from, type, out));
  } else if (const auto* const shares = divided_selection::of(from.indexed, state.parts.get()); shares != nullptr) {
    PENSTOCK_TRY(divide(*shares, from, type, out));
  } else {
    PENSTOCK_TRY(add_source(source(from), state, type, out));
  }
  return out;
}

bool is_sparse(const chunk_layout& layout, const resolved_selection& which) {
  if (!which.indexed || layout.chains().empty()) return false;
  const codec_chain& chain = layout.chains()[0];
  std::uint64_t wanted = std::max<std::uint64_t>(1, chain.type().item_bytes());
  for (const std::uint64_t each : which.shape) wanted = saturating_mul(wanted, each);
  return wanted < saturating_mul(which.indexed->cells(), chain.decoded_bytes()) / kLittle;
}

bool costs_less(const resolved_selection& finer, const chunk_layout& layout, const resolved_selection& which) {
  if (!finer.indexed || !which.indexed) return false;
  return saturating_mul(finer.indexed->cells(), kRequestBytes) <
         saturating_mul(which.indexed->cells(), layout.chains()[0].decoded_bytes());
}

result<resolved_selection> resolve_any(const array_state& state, const selection& which) {
  return std::visit(resolver{state}, which);
}

result<resolved_selection> resolve_points(const array_state& state, const coordinate_view& which) {
  if (!state.closed) return select_of(state, which);
  PENSTOCK_ASSIGN(const array all, state.closed->all());
  return select_of(all.state(), which);
}

result<> check_selection(const array_state& state, const resolved_selection& which) {
  if (layout_of(state, which) != nullptr) return {};
  return error(errc::invalid_argument, "the selection was made for an array of another shape or other chunks");
}

source source_of(const array_state& state, const resolved_basic& which, const strides& result_strides, std::byte* to) {
  source out = plain_source(state, to);
  out.from = which.from;
  out.to_strides = axis_strides(which, result_strides);
  return out;
}

source source_of(const array_state& state, const resolved_selection& which, const strides& result_strides,
                 std::byte* to) {
  if (!which.indexed) return source_of(state, static_cast<const resolved_basic&>(which), result_strides, to);
  source out = plain_source(state, to);
  out.layout = layout_of(state, which);
  if (out.layout != state.layout.get()) out.uid = 0;  // caches identify cells by their numbers
  out.indexed = which.indexed.get();
  out.to_strides = which.indexed->places_axes() ? axis_strides(which, result_strides) : result_strides;
  return out;
}

}  // namespace penstock::inline v0
