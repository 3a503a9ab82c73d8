#include "driver/hdf5_shown_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>

#include "base/checked.h"
#include "driver/chunk_codecs.h"
#include "driver/for_each_file.h"
#include "driver/hdf5_heap_store.h"
#include "driver/open_reference.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kLeastElements = 256, kMostElements = std::uint64_t{1} << 20;
constexpr std::uint64_t kMostShown = 16 * kMostElements;      // the most elements that all parts show in one cell
constexpr std::uint64_t kMostNoted = std::uint64_t{1} << 26;  // bits for the items of one cell of a source
constexpr std::size_t kMostSourceCells = 256;                 // the most cells whose values are in memory together

// Items of lists are bytes here, so they have to be stored in the same form.
result<> check_type(const referenced_array& source, const json& item) {
  const dtype& type = source.metadata.type;
  const bool is_text = type.kind() == dtype_kind::variable_utf8 || type.kind() == dtype_kind::variable_bytes;
  if (item.is_null() && is_text && source.cells) return {};
  if (item.is_null())
    return error(errc::unsupported, fmt::format("text of variable length cannot show a source of {}", type.name()));
  PENSTOCK_ASSIGN(const chunk_codecs codecs, usual_codecs(source));
  const json* const theirs = codecs.filters.empty() ? nullptr : codecs.filters.front().find("dtype");
  if (type.kind() == dtype_kind::variable_list && theirs != nullptr && *theirs == item && source.cells) return {};
  return error(errc::unsupported, fmt::format("lists of {} show a source of {}", item.dump(),
                                              theirs != nullptr ? "lists of " + theirs->dump() : type.name()));
}

}  // namespace

result<std::vector<std::uint64_t>> all_hdf5_cells(std::uint64_t count) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 22;
  if (count > kMost)
    return error(errc::unsupported, fmt::format("{} chunks of variable length are too many to be listed", count));
  std::vector<std::uint64_t> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = i;
  return out;
}

std::uint64_t hdf5_cell_elements(const chunk_grid& grid) {
  std::uint64_t out = 1;
  for (std::size_t d = 0; d < grid.rank(); ++d)
    out = saturating_mul(out, grid.axis(d).cells() == 0 ? 0 : grid.axis(d).codec_length(0));
  return out;
}

std::size_t hdf5_cells_together(const chunk_grid& grid, std::uint64_t most) {
  constexpr std::uint64_t kMostTogether = std::uint64_t{1} << 22;
  const std::uint64_t elements = std::max<std::uint64_t>(hdf5_cell_elements(grid), 1);
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(kMostTogether / elements, 1, most));
}

/// One position of a part along one dimension.
struct hdf5_shown_values::position {
  std::uint64_t to = 0;    // offset in the cell of the dataset, in items
  std::uint64_t cell = 0;  // is added to the number of the source's cell
  std::uint64_t item = 0;  // is added to the number of the item in that cell
};

/// What one part shows in one cell.
struct hdf5_shown_values::shown_box {
  std::size_t part = 0;
  std::vector<std::vector<position>> along;  // for each dimension of the dataset
};

/// Cells of sources, with their items.
struct hdf5_shown_values::read_cells {
  struct items {
    std::vector<std::uint64_t> needed;  // a bit for each item; empty: all
    std::optional<error> failed;
    cell_bytes bytes;
    std::vector<std::span<const std::byte>> each;  // empty: the source does not have the cell
  };
  std::map<std::pair<const hdf5_variable_cells*, std::uint64_t>, items> known;
};

class hdf5_shown_values::operation {
 public:
  explicit operation(const hdf5_shown_values& of) : of_(of) {}

  /// Adds a cell, and the items of cells of sources that it needs.
  void add(const hdf5_cell_request& request) {
    dim_vector<std::uint64_t> at;
    of_.grid_.coordinates(request.cell, at);
    wanted made;
    made.request = request;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> box;
    for (std::size_t d = 0; d < of_.grid_.rank(); ++d) {
      const grid_axis& axis = of_.grid_.axis(d);
      made.valid.push_back(axis.valid_length(at[d]));
      box.emplace_back(axis.origin(at[d]), axis.origin(at[d]) + made.valid.back());
    }
    std::uint64_t shown_elements = 0;
    for (const std::size_t which : of_.parts_in(box)) {
      shown_box shown{which, {}};
      std::uint64_t step = 1;
      for (std::size_t d = box.size(); d-- > 0; step *= of_.cell_shape_[d])
        shown.along.push_back(positions(which, d, box[d], step));
      std::reverse(shown.along.begin(), shown.along.end());
      std::uint64_t elements = 1;
      for (const auto& each : shown.along) elements = saturating_mul(elements, each.size());
      if ((shown_elements += elements) > kMostShown) {
        made.failed = error(errc::unsupported, "virtual HDF5 datasets whose parts overlap many times are not readable");
        made.boxes.clear();
        break;
      }
      note_needed(request, shown);
      made.boxes.push_back(std::move(shown));
    }
    wanted_.push_back(std::move(made));
  }

  /// Whether more cells can be added without much memory for those of sources.
  bool is_small() const noexcept {
    std::uint64_t elements = 0;
    for (const auto& [key, items] : needed_.known)
      elements = saturating_add(elements, hdf5_cell_elements(key.first->grid()));
    return needed_.known.size() < kMostSourceCells && elements < kMostElements;
  }

  /// Returns false if the cells of sources have more bytes than one cell may have. The cells that need the last ones
  /// of them then fail.
  bool read_sources() {
    read_needed();
    return source_bytes_ <= kMostHdf5CellBytes;
  }

  /// Stops after a cell with which all have kHdf5BytesTogether. `bytes`: of those before and after.
  void finish(std::vector<result<cell_bytes>>& out, std::uint64_t& bytes) {
    for (std::size_t i = 0; i < wanted_.size() && bytes < kHdf5BytesTogether; ++i) {
      wanted& each = wanted_[i];
      out.push_back(each.failed ? std::move(*each.failed) : put_together(each));
      if (out.back().ok()) bytes += out.back()->size();
    }
  }

 private:
  struct wanted {
    hdf5_cell_request request;
    std::vector<shown_box> boxes;
    std::optional<error> failed;
    std::vector<std::uint64_t> valid;  // the number of the cell's elements that are in the array, along each dimension
  };

  // The positions of a part along a dimension that are in a range. `step`: items of the cell between neighbours.
  std::vector<position> positions(std::size_t which, std::size_t d,
                                  const std::pair<std::uint64_t, std::uint64_t>& range, std::uint64_t step) const {
    const hdf5_part& where = of_.parts_[which].where;
    const known_part& known = of_.known_[which];
    const auto& runs = where.runs[d];
    std::vector<position> out;
    auto run = std::partition_point(runs.begin(), runs.end(),
                                    [&](const hdf5_run& each) { return each.to + each.count <= range.first; });
    for (; run != runs.end() && run->to < range.second; ++run) {
      const std::uint64_t first = std::max(run->to, range.first);
      const std::uint64_t last = std::min(run->to + run->count, range.second);
      for (std::uint64_t to = first; to < last; ++to) {
        position& made = out.emplace_back();
        made.to = (to - range.first) * step;
        if (!where.axes[d]) continue;
        const std::size_t s = *where.axes[d];
        const grid_axis& axis = known.from->grid().axis(s);
        const std::uint64_t from = run->from + (to - run->to), cell = axis.cell_of(from);
        made.cell = cell * known.cell_steps[s];
        made.item = (from - axis.origin(cell)) * known.item_steps[s];
      }
    }
    return out;
  }

  /// Calls `visit` with each combination of the positions from dimension `d` on, until it returns false: the item of
  /// the dataset's cell, the cell of the source, and the item in that.
  template <class Visit>
  static bool for_each_item(const shown_box& in, std::size_t d, std::uint64_t to, std::uint64_t cell,
                            std::uint64_t item, const Visit& visit) {
    if (d == in.along.size()) return visit(to, cell, item);
    for (const position& each : in.along[d])
      if (!for_each_item(in, d + 1, to + each.to, cell + each.cell, item + each.item, visit)) return false;
    return true;
  }

  void note_needed(const hdf5_cell_request& request, const shown_box& shown) {
    const known_part& known = of_.known_[shown.part];
    // Sources refuse larger cells.
    const std::uint64_t elements = hdf5_cell_elements(known.from->grid());
    const bool counts = elements <= kMostNoted;
    std::vector<std::uint64_t>* bits = nullptr;
    std::uint64_t last = 0;
    for_each_item(shown, 0, 0, known.cell, known.item, [&](std::uint64_t to, std::uint64_t cell, std::uint64_t item) {
      if (!request.needs(to)) return true;
      if (bits == nullptr || last != cell) {
        bits = &needed_.known[{known.from, cell}].needed;
        last = cell;
        if (counts) bits->resize(static_cast<std::size_t>(ceil_div(elements, 64)));
      }
      if (counts) (*bits)[static_cast<std::size_t>(item / 64)] |= std::uint64_t{1} << item % 64;
      return true;
    });
  }

  void read_needed() {
    std::map<const hdf5_variable_cells*, std::vector<hdf5_cell_request>> by_source;
    for (const auto& [key, items] : needed_.known)
      if (key.first->has(key.second)) by_source[key.first].push_back({key.second, items.needed});
    const std::vector<std::pair<const hdf5_variable_cells*, std::vector<hdf5_cell_request>>> all(by_source.begin(),
                                                                                                 by_source.end());
    const auto read = [&](std::size_t i) {
      const std::size_t together = hdf5_cells_together(all[i].first->grid(), kMostElements);
      for (std::span<const hdf5_cell_request> left(all[i].second); !left.empty();) {
        const auto some = left.first(std::min(left.size(), together));
        const bool is_too_much = source_bytes_ > kMostHdf5CellBytes;
        auto cells = is_too_much ? refused(some.size()) : all[i].first->read(some);
        left = left.subspan(cells.size());
        for (std::size_t k = 0; k < cells.size(); ++k)
          take(std::move(cells[k]), needed_.known.at({all[i].first, some[k].cell}));
      }
    };
    // Requests to remote files run together.
    const auto waits = [](const auto& each) { return !each.first->traits().inline_completion; };
    if (all.size() > 1 && std::any_of(all.begin(), all.end(), waits))
      return for_each_file(all.size(), *of_.store_, *of_.with_, read);
    for (std::size_t i = 0; i < all.size(); ++i) read(i);
  }

  static std::vector<result<cell_bytes>> refused(std::size_t count) {
    std::vector<result<cell_bytes>> out;
    for (std::size_t i = 0; i < count; ++i)
      out.emplace_back(error(
          errc::unsupported,
          fmt::format("cells that show more than {} bytes of variable length are not readable", kMostHdf5CellBytes)));
    return out;
  }

  void take(result<cell_bytes> cell, read_cells::items& to) {
    if (!cell.ok()) {
      to.failed = std::move(cell).error();
      return;
    }
    to.bytes = std::move(*cell);
    std::span<const std::byte> left(to.bytes);
    to.each.resize(static_cast<std::size_t>(take_cell_number(left)));
    source_bytes_ += to.bytes.size() + to.each.size() * sizeof(to.each[0]);
    for (auto& item : to.each) {
      const auto length = static_cast<std::size_t>(take_cell_number(left));
      item = left.first(length);
      left = left.subspan(length);
    }
  }

  result<cell_bytes> put_together(const wanted& cell) {
    std::uint64_t count = 1;
    for (const std::uint64_t each : of_.cell_shape_) count *= each;
    std::vector<std::span<const std::byte>> items(static_cast<std::size_t>(count));
    if (!of_.fill_.empty()) fill(cell, 0, 0, items);
    for (const shown_box& each : cell.boxes) {
      const known_part& known = of_.known_[each.part];
      last_ = nullptr;
      std::optional<error> failed;
      for_each_item(each, 0, 0, known.cell, known.item,
                    [&](std::uint64_t to, std::uint64_t source, std::uint64_t item) {
                      if (!cell.request.needs(to)) return true;
                      auto placed = place(known, to, source, item, items);
                      if (!placed.ok()) failed = std::move(placed).error();
                      return !failed;
                    });
      if (failed) return std::move(*failed).note(fmt::format("mapping of {}", of_.parts_[each.part].name));
    }
    std::uint64_t bytes = 4;
    for (const auto& each : items) bytes += 4 + each.size();
    if (bytes > kMostHdf5CellBytes)
      return error(errc::unsupported,
                   fmt::format("cells of more than {} bytes of variable length are not readable", kMostHdf5CellBytes));
    cell_bytes out;
    out.reserve(static_cast<std::size_t>(bytes));
    append_cell_number(out, count);
    for (const auto& each : items) {
      append_cell_number(out, each.size());
      out.insert(out.end(), each.begin(), each.end());
    }
    return out;
  }

  void fill(const wanted& cell, std::size_t d, std::uint64_t at, std::vector<std::span<const std::byte>>& items) const {
    if (d == cell.valid.size()) {
      if (cell.request.needs(at)) items[static_cast<std::size_t>(at)] = std::as_bytes(std::span(of_.fill_));
      return;
    }
    for (std::uint64_t i = 0; i < cell.valid[d]; ++i) fill(cell, d + 1, at * of_.cell_shape_[d] + i, items);
  }

  result<> place(const known_part& from, std::uint64_t to, std::uint64_t cell, std::uint64_t item,
                 std::vector<std::span<const std::byte>>& items) {
    if (last_ == nullptr || last_cell_ != cell) {
      last_ = &needed_.known.at({from.from, cell});
      last_cell_ = cell;
      if (last_->failed) return last_->failed->clone();
    }
    items[static_cast<std::size_t>(to)] =
        last_->each.empty() ? std::span<const std::byte>() : last_->each[static_cast<std::size_t>(item)];
    return {};
  }

  const hdf5_shown_values& of_;
  std::vector<wanted> wanted_;
  read_cells needed_;
  std::atomic<std::uint64_t> source_bytes_ = 0;
  const read_cells::items* last_ = nullptr;
  std::uint64_t last_cell_ = 0;
};

result<std::shared_ptr<const hdf5_shown_values>> hdf5_shown_values::make(const extents& shape,
                                                                         std::vector<shown_part> parts,
                                                                         std::string fill, const json& item,
                                                                         std::shared_ptr<context> with,
                                                                         std::string uri) {
  std::shared_ptr<hdf5_shown_values> out(new hdf5_shown_values);
  out->fill_ = std::move(fill);
  out->with_ = std::move(with);
  out->uri_ = std::move(uri);
  for (shown_part& each : parts) {
    auto checked = check_type(*each.source, item);
    if (!checked.ok()) return std::move(checked).error().note(fmt::format("mapping of {}", each.name));
    const auto shows = [](const std::vector<hdf5_run>& runs) { return !runs.empty(); };
    if (!std::all_of(each.where.runs.begin(), each.where.runs.end(), shows)) continue;
    known_part known;
    known.from = &each.source->cells->values();
    if (!known.from->traits().inline_completion) out->store_ = each.source->cells;
    const chunk_grid& grid = known.from->grid();
    known.cell_steps.resize(grid.rank());
    known.item_steps.resize(grid.rank());
    std::uint64_t cells = 1, items = 1;
    for (std::size_t s = grid.rank(); s-- > 0;) {
      known.cell_steps[s] = cells;
      known.item_steps[s] = items;
      cells *= grid.axis(s).cells();
      items *= grid.axis(s).cells() == 0 ? 1 : grid.axis(s).codec_length(0);
    }
    const auto& axes = each.where.axes;
    for (std::size_t s = 0; s < grid.rank(); ++s) {
      if (std::find(axes.begin(), axes.end(), s) != axes.end()) continue;
      const std::uint64_t at = each.where.origin[s], cell = grid.axis(s).cell_of(at);
      known.cell += cell * known.cell_steps[s];
      known.item += (at - grid.axis(s).origin(cell)) * known.item_steps[s];
    }
    for (const auto& runs : each.where.runs)
      known.bounds.emplace_back(runs.front().to, runs.back().to + runs.back().count);
    out->known_.push_back(std::move(known));
    out->parts_.push_back(std::move(each));
  }
  out->choose_cells(shape);
  PENSTOCK_ASSIGN(out->grid_, chunk_grid::regular(shape, out->cell_shape_));
  out->sort_parts();
  return std::shared_ptr<const hdf5_shown_values>(std::move(out));
}

void hdf5_shown_values::choose_cells(const extents& shape) {
  cell_shape_ = extents();
  const auto product = [&] {
    std::uint64_t all = 1;
    for (const std::uint64_t each : cell_shape_) all = saturating_mul(all, each);
    return all;
  };
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::uint64_t length = 1;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const auto& s = parts_[i].where.axes[d];
      if (!s || known_[i].from->grid().cells() == 0) continue;
      const auto& [begin, end] = known_[i].bounds[d];
      std::uint64_t shown = 0;  // number of positions: less than between the bounds if other parts are in between
      for (const hdf5_run& each : parts_[i].where.runs[d]) shown += each.count;
      length = std::max(length,
                        saturating_mul(known_[i].from->grid().axis(*s).codec_length(0), ceil_div(end - begin, shown)));
    }
    cell_shape_.push_back(std::min(length, std::max<std::uint64_t>(shape[d], 1)));
  }
  for (std::size_t d = shape.size(); d-- > 0;) {
    const std::uint64_t all = product();
    if (all >= kLeastElements) break;
    const std::uint64_t wanted = saturating_mul(cell_shape_[d], ceil_div(kLeastElements, all));
    cell_shape_[d] = std::min(wanted, std::max<std::uint64_t>(shape[d], 1));
  }
  while (product() > kMostElements) {
    std::uint64_t& longest = *std::max_element(cell_shape_.begin(), cell_shape_.end());
    longest = ceil_div(longest, 2);
  }
}

// Parts are looked up along the dimension in which their beginnings differ most.
void hdf5_shown_values::sort_parts() {
  std::size_t most = 0;
  for (std::size_t d = 0; d < grid_.rank(); ++d) {
    std::set<std::uint64_t> begins;
    for (const known_part& each : known_) begins.insert(each.bounds[d].first);
    if (begins.size() <= most) continue;
    most = begins.size();
    sorted_axis_ = d;
  }
  for (std::size_t i = 0; i < known_.size(); ++i) sorted_.push_back(i);
  if (grid_.rank() == 0) return;
  std::stable_sort(sorted_.begin(), sorted_.end(), [&](std::size_t a, std::size_t b) {
    return known_[a].bounds[sorted_axis_].first < known_[b].bounds[sorted_axis_].first;
  });
  for (const std::size_t each : sorted_)
    behind_.push_back(std::max(behind_.empty() ? 0 : behind_.back(), known_[each].bounds[sorted_axis_].second));
}

// The parts that may show something in a box, in their order.
std::vector<std::size_t> hdf5_shown_values::parts_in(
    std::span<const std::pair<std::uint64_t, std::uint64_t>> box) const {
  if (box.empty()) return sorted_;
  std::vector<std::size_t> out;
  const std::size_t axis = sorted_axis_;
  const auto end = std::partition_point(sorted_.begin(), sorted_.end(), [&](std::size_t each) {
    return known_[each].bounds[axis].first < box[axis].second;
  });
  for (auto i = static_cast<std::size_t>(end - sorted_.begin()); i-- > 0 && behind_[i] > box[axis].first;) {
    const auto& bounds = known_[sorted_[i]].bounds;
    bool meets = true;
    for (std::size_t d = 0; meets && d < box.size(); ++d)
      meets = bounds[d].first < box[d].second && bounds[d].second > box[d].first;
    if (meets) out.push_back(sorted_[i]);
  }
  std::sort(out.begin(), out.end());
  return out;
}

store_traits hdf5_shown_values::traits() const {
  store_traits out;
  out.blocking = false;
  for (const known_part& each : known_) {
    const store_traits theirs = each.from->traits();
    out.blocking = out.blocking || theirs.blocking;
    out.inline_completion = out.inline_completion && theirs.inline_completion;
  }
  return out;
}

std::vector<result<hdf5_variable_cells::cell_bytes>> hdf5_shown_values::read(
    std::span<const hdf5_cell_request> cells) const {
  std::vector<result<cell_bytes>> out;
  std::uint64_t bytes = 0;
  while (!cells.empty() && bytes < kHdf5BytesTogether) {
    operation together(*this);
    std::size_t count = 0;
    do together.add(cells[count++]);
    while (count < cells.size() && together.is_small());
    if (together.read_sources() || count == 1) {
      together.finish(out, bytes);
    } else {
      operation alone(*this);
      alone.add(cells[0]);
      alone.read_sources();
      alone.finish(out, bytes);
      count = 1;
    }
    cells = cells.subspan(count);
  }
  return out;
}

}  // namespace penstock::inline v0
