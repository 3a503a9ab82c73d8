#include "api/divided_selection.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <variant>

#include "api/read_source.h"
#include "array/selection_checks.h"
#include "codec/codec_chain.h"

namespace penstock::inline v0 {
namespace {

using part_share = divided_selection::share;

/// Positions along one dimension, and of a list their numbers in the result, of a range that of its first one.
struct selected_positions {
  axis_positions at;
  std::vector<std::uint64_t> places;
  std::uint64_t first = 0;

  std::uint64_t count() const noexcept {
    const auto* const list = std::get_if<index_list>(&at);
    return list != nullptr ? list->size() : std::get<axis_range>(at).count;
  }
};
/// One for each dimension; parts share those that they do not divide.
using all_positions = std::vector<std::shared_ptr<const selected_positions>>;

// Resolves a share against its part's layout, or the finer one if that requests less. `resolve` does it for a grid;
// `shape` has as many elements as the share.
template <class Resolve>
void resolve_share(part_share& out, const extents& shape, const Resolve& resolve) {
  const chunk_layout& layout = *out.in->arrays[out.which].state().layout;
  resolved_selection made;
  made.shape = shape;
  made.indexed = resolve(layout.grid());
  out.layout = &layout;
  if (const chunk_layout* const finer = is_sparse(layout, made) ? layout.finer() : nullptr; finer != nullptr) {
    resolved_selection again;
    again.shape = shape;
    again.indexed = resolve(finer->grid());
    if (costs_less(again, layout, made)) {
      out.layout = finer;
      made = std::move(again);
    }
  }
  out.indexed = std::move(made.indexed);
}

/// Divides ranges and lists, one for each dimension.
class axis_divider {
 public:
  axis_divider(std::vector<part_share>& out, std::size_t rank) : out_(out), known_(rank) {}

  void divide(const array_parts& of, const all_positions& which) {
    const selected_positions& along = *which[of.axis];
    if (const auto* const list = std::get_if<index_list>(&along.at); list != nullptr)
      return divide_list(of, which, *list, along.places);
    const axis_range& range = std::get<axis_range>(along.at);
    for (std::uint64_t first = 0; first < range.count;) {
      const array_parts::piece one = of.piece_at(range, first);
      take(of, one.part, which, {one.inside, {}, along.first + first});
      first += one.inside.count;
    }
  }

 private:
  void divide_list(const array_parts& of, const all_positions& which, const index_list& list,
                   const std::vector<std::uint64_t>& places) {
    struct piece {
      index_list at;
      std::vector<std::uint64_t> places;
    };
    std::vector<std::unique_ptr<piece>> pieces(of.arrays.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto at = static_cast<std::uint64_t>(list[i]);
      const std::size_t part = of.part_at(at);
      if (!pieces[part]) pieces[part] = std::make_unique<piece>();
      pieces[part]->at.push_back(static_cast<std::int64_t>(at - of.begin(part)));
      pieces[part]->places.push_back(places.empty() ? i : places[i]);
    }
    for (std::size_t part = 0; part < pieces.size(); ++part) {
      if (!pieces[part]) continue;
      piece& one = *pieces[part];
      axis_range range;
      // Neighbours in the result at equal distances.
      if (one.places.back() - one.places.front() == one.places.size() - 1 && as_range(one.at, range)) {
        take(of, part, which, {range, {}, one.places.front()});
      } else {
        take(of, part, which, {std::move(one.at), std::move(one.places), 0});
      }
    }
  }

  void take(const array_parts& of, std::size_t part, all_positions which, selected_positions along) {
    which[of.axis] = std::make_shared<const selected_positions>(std::move(along));
    const array_state& state = of.arrays[part].state();
    if (state.parts != nullptr) return divide(*state.parts, which);
    part_share one;
    one.in = &of;
    one.which = part;
    extents shape;
    bool is_box = true;
    for (const auto& each : which) {
      shape.push_back(each->count());
      one.first.push_back(each->first);
      is_box = is_box && std::holds_alternative<axis_range>(each->at);
    }
    if (is_box) {
      for (const auto& each : which) one.from.push_back(std::get<axis_range>(each->at));
      one.layout = state.layout.get();
    } else {
      resolve_share(one, shape, [&](const chunk_grid& grid) {
        std::vector<std::shared_ptr<const selected_axis>> axes;
        for (std::size_t d = 0; d < which.size(); ++d) axes.push_back(divided_by_cells(d, which[d], grid.axis(d)));
        return select_axes(grid, std::move(axes));
      });
    }
    out_.push_back(std::move(one));
  }

  // The same positions are divided once for all parts that are cut alike.
  std::shared_ptr<const selected_axis> divided_by_cells(std::size_t d,
                                                        const std::shared_ptr<const selected_positions>& which,
                                                        const grid_axis& axis) {
    for (const auto& each : known_[d])
      if (each.of == which && *each.axis == axis) return each.made;
    auto made = select_axis(which->at, which->places, axis);
    if (known_[d].size() == kMostKnown) known_[d].erase(known_[d].begin());
    known_[d].push_back({which, &axis, made});
    return made;
  }

  static constexpr std::size_t kMostKnown = 8;
  struct known_axis {
    std::shared_ptr<const selected_positions> of;
    const grid_axis* axis;  // of a layout that the parts keep
    std::shared_ptr<const selected_axis> made;
  };
  std::vector<part_share>& out_;
  std::vector<std::vector<known_axis>> known_;
};

/// All parts of an array that have no parts themselves, in order.
class lowest_parts {
 public:
  struct one {
    const array_parts* in;
    std::size_t which;
    extents origin;
    const array_state& state() const { return in->arrays[which].state(); }
  };

  lowest_parts(const array_parts& of, std::size_t rank) { add(of, extents(rank)); }

  const std::vector<one>& all() const noexcept { return all_; }

  std::size_t at(extents position) const noexcept {
    for (std::size_t l = 0;;) {
      const level& here = levels_[l];
      std::uint64_t& along = position[here.of->axis];
      const std::size_t which = here.of->part_at(along);
      along -= here.of->begin(which);
      const entry& found = here.parts[which];
      if (!found.is_level) return found.number;
      l = found.number;
    }
  }
  bool contains(std::size_t number, const extents& position) const noexcept {
    const one& part = all_[number];
    const extents& shape = part.state().shape;
    for (std::size_t d = 0; d < position.size(); ++d)
      if (position[d] < part.origin[d] || position[d] - part.origin[d] >= shape[d]) return false;
    return true;
  }

 private:
  struct entry {
    bool is_level;
    std::size_t number;  // of a level, or in `all_`
  };
  struct level {
    const array_parts* of;
    std::vector<entry> parts;
  };

  void add(const array_parts& of, const extents& origin) {
    const std::size_t l = levels_.size();
    levels_.push_back({&of, {}});
    for (std::size_t i = 0; i < of.arrays.size(); ++i) {
      extents begin = origin;
      begin[of.axis] += of.begin(i);
      const auto& inner = of.arrays[i].state().parts;
      levels_[l].parts.push_back({inner != nullptr, inner != nullptr ? levels_.size() : all_.size()});
      if (inner != nullptr) {
        add(*inner, begin);
      } else {
        all_.push_back({&of, i, begin});
      }
    }
  }

  std::vector<level> levels_;
  std::vector<one> all_;
};

void divide_points(const array_parts& of, const coordinate_view& which, const extents& shape,
                   std::vector<part_share>& out) {
  const std::size_t rank = shape.size(), count = which.points.empty() ? 0 : which.points[0].size();
  const lowest_parts parts(of, rank);
  const auto position_of = [&](std::size_t i, extents& at) {
    for (std::size_t d = 0; d < rank; ++d) {
      const std::int64_t each = which.points[d][i];
      at[d] = each < 0 ? static_cast<std::uint64_t>(each) + shape[d] : static_cast<std::uint64_t>(each);
    }
  };
  // The points of each part, in the order of the result.
  std::vector<std::size_t> part_of(count), begin(parts.all().size() + 1);
  extents at(rank);
  for (std::size_t i = 0; i < count; ++i) {
    position_of(i, at);
    part_of[i] = i != 0 && parts.contains(part_of[i - 1], at) ? part_of[i - 1] : parts.at(at);
    ++begin[part_of[i] + 1];
  }
  for (std::size_t p = 0; p + 1 < begin.size(); ++p) begin[p + 1] += begin[p];
  std::vector<std::size_t> next(begin.begin(), begin.end() - 1);
  std::vector<std::uint64_t> places(count);
  for (std::size_t i = 0; i < count; ++i) places[next[part_of[i]]++] = i;
  std::vector<index_list> lists(rank);
  for (std::size_t p = 0; p < parts.all().size(); ++p) {
    const std::span<const std::uint64_t> mine = std::span(places).subspan(begin[p], begin[p + 1] - begin[p]);
    if (mine.empty()) continue;
    const lowest_parts::one& part = parts.all()[p];
    for (std::size_t d = 0; d < rank; ++d) lists[d].resize(mine.size());
    for (std::size_t i = 0; i < mine.size(); ++i) {
      position_of(static_cast<std::size_t>(mine[i]), at);
      for (std::size_t d = 0; d < rank; ++d) lists[d][i] = static_cast<std::int64_t>(at[d] - part.origin[d]);
    }
    const coordinate_view view{{lists.begin(), lists.end()}, which.shape};
    part_share one{part.in, part.which, nullptr, nullptr, {}, {}};
    resolve_share(one, extents{mine.size()}, [&](const chunk_grid& grid) { return select_points(view, mine, grid); });
    out.push_back(std::move(one));
  }
}

void divide_mask(const array_parts& of, const mask_selection& which, std::vector<part_share>& out) {
  const lowest_parts parts(of, which.shape.size());
  std::vector<masked_part> boxes;
  for (const lowest_parts::one& each : parts.all())
    boxes.push_back({&each.state().layout->grid(), each.origin, each.state().shape});
  const auto part_at_position = [&](const extents& at) { return parts.at(at); };
  std::vector<masked_elements> found = select_masked(which, boxes, part_at_position);
  // Parts of which little is selected are tried with smaller cells, all of them in one more pass.
  std::vector<const chunk_layout*> finer(boxes.size());
  bool some_finer = false;
  const auto as_selection = [](const masked_elements& from) {
    resolved_selection one;
    one.shape = extents{from.count};
    one.indexed = from.indexed;
    return one;
  };
  for (std::size_t p = 0; p < boxes.size(); ++p) {
    const chunk_layout& layout = *parts.all()[p].state().layout;
    if (found[p].indexed && is_sparse(layout, as_selection(found[p]))) finer[p] = layout.finer();
    boxes[p].grid = finer[p] != nullptr ? &finer[p]->grid() : nullptr;
    some_finer = some_finer || finer[p] != nullptr;
  }
  std::vector<masked_elements> again(boxes.size());
  if (some_finer) again = select_masked(which, boxes, part_at_position);
  for (std::size_t p = 0; p < boxes.size(); ++p) {
    if (!found[p].indexed || found[p].count == 0) continue;
    const lowest_parts::one& part = parts.all()[p];
    const chunk_layout& layout = *part.state().layout;
    const bool by_finer = again[p].indexed && costs_less(as_selection(again[p]), layout, as_selection(found[p]));
    out.push_back({part.in,
                   part.which,
                   by_finer ? finer[p] : &layout,
                   by_finer ? std::move(again[p].indexed) : std::move(found[p].indexed),
                   {},
                   {}});
  }
}

}  // namespace

divided_selection::divided_selection(std::shared_ptr<const indexed_selection> boxes,
                                     std::shared_ptr<const array_parts> of, const orthogonal_selection& which,
                                     const extents& shape)
    : indexed_selection(boxes->grid()), boxes_(std::move(boxes)), parts_(std::move(of)) {
  resolved_orthogonal resolved = resolve(which, shape).value();  // `boxes` was made of it
  all_positions positions_of;
  for (axis_positions& each : resolved.from) {
    axis_range range;
    const auto* const list = std::get_if<index_list>(&each);
    if (list != nullptr && as_range(*list, range)) each = range;
    positions_of.push_back(std::make_shared<const selected_positions>(selected_positions{std::move(each), {}, 0}));
  }
  axis_divider(shares_, shape.size()).divide(*parts_, positions_of);
}

divided_selection::divided_selection(std::shared_ptr<const indexed_selection> boxes,
                                     std::shared_ptr<const array_parts> of, const coordinate_view& which,
                                     const extents& shape)
    : indexed_selection(boxes->grid()), boxes_(std::move(boxes)), parts_(std::move(of)) {
  divide_points(*parts_, which, shape, shares_);
}

divided_selection::divided_selection(std::shared_ptr<const indexed_selection> boxes,
                                     std::shared_ptr<const array_parts> of, const mask_selection& which)
    : indexed_selection(boxes->grid()), boxes_(std::move(boxes)), parts_(std::move(of)) {
  divide_mask(*parts_, which, shares_);
}

const divided_selection* divided_selection::of(const indexed_selection* which, const array_parts* parts) noexcept {
  const auto* const out = dynamic_cast<const divided_selection*>(which);
  return out != nullptr && out->parts_.get() == parts ? out : nullptr;
}

}  // namespace penstock::inline v0
