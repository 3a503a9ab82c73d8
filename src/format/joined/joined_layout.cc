#include "format/joined/joined_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/checked.h"
#include "base/counted.h"

namespace penstock::inline v0 {
namespace {

/// Edges are listed: 16 bytes each.
constexpr std::uint64_t kMaxEdges = std::uint64_t{1} << 22;
/// Chains have 16-bit numbers.
constexpr std::size_t kMaxChains = 60000;

/// Looks up the indexes of one part by the part's own object numbers.
class part_lookup final : public index_lookup {
 public:
  part_lookup(const index_lookup& all, object_id first) noexcept : all_(all), first_(first) {}
  const index_entry* find(const index_key& key) const override { return all_.find({key.object + first_, key.node}); }

 private:
  const index_lookup& all_;
  object_id first_;
};

// Returns equal text for chains that decode the same bytes to the same elements.
std::string identity_of(const codec_chain& chain) {
  std::string out =
      fmt::format("{} {} {} {}", chain.type().name(), to_string(chain.cell()), chain.swap_bytes(), chain.describe());
  for (const std::int64_t step : chain.stored_strides()) out += fmt::format(" {}", step);
  for (std::size_t i = 0; i < chain.stages(); ++i) {
    const codec_config& stage = chain.stage_config(i);
    out += fmt::format("\n{} {} {}", stage.name, stage.configuration.dump(), chain.stage_limit(i));
  }
  return out;
}

// Concatenates the axes of all parts. The result is uniform if all cells have one length and every part but the last
// ends at the end of a cell.
result<grid_axis> join_axes(const std::vector<const grid_axis*>& axes) {
  std::uint64_t extent = 0, cells = 0;
  bool uniform = true;
  const std::uint64_t length = axes.front()->codec_length(0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const grid_axis& axis = *axes[i];
    uniform = uniform && axis.is_uniform() && axis.codec_length(0) == length &&
              (i + 1 == axes.size() || axis.extent() % length == 0);
    if (!checked_add(extent, axis.extent(), extent) || !checked_add(cells, axis.cells(), cells))
      return error(errc::unsupported, "the joined arrays have more than 2^64 elements along their axis");
  }
  if (uniform) return grid_axis::uniform(extent, length);
  if (cells > kMaxEdges) {
    return error(errc::unsupported, fmt::format("the joined arrays have {} chunks of unequal lengths along their axis, "
                                                "at most {} are supported",
                                                cells, kMaxEdges));
  }
  std::vector<std::uint64_t> edges{0}, decoded;
  edges.reserve(static_cast<std::size_t>(cells) + 1);
  decoded.reserve(static_cast<std::size_t>(cells));
  std::uint64_t before = 0;
  for (const grid_axis* const axis : axes) {
    for (std::uint64_t i = 0; i < axis->cells(); ++i) {
      edges.push_back(before + axis->origin(i) + axis->valid_length(i));
      decoded.push_back(axis->codec_length(i));
    }
    before += axis->extent();
  }
  return grid_axis::edges(extent, std::move(edges), std::move(decoded));
}

// Joins grids that agree outside `axis`.
result<chunk_grid> join(const std::vector<const chunk_grid*>& grids, std::size_t axis) {
  std::vector<grid_axis> out;
  for (std::size_t d = 0; d < grids.front()->rank(); ++d) {
    std::vector<const grid_axis*> along;
    for (const chunk_grid* const each : grids) along.push_back(&each->axis(d));
    if (d == axis) {
      PENSTOCK_ASSIGN(grid_axis joined, join_axes(along));
      out.push_back(std::move(joined));
      continue;
    }
    for (std::size_t i = 0; i < along.size(); ++i) {
      if (*along[i] == *along[0]) continue;
      return error(errc::unsupported,
                   fmt::format("array {} is cut into other chunks than array 0 along dimension {}", i, d));
    }
    out.push_back(*along[0]);
  }
  return chunk_grid::make(std::move(out));
}

}  // namespace

result<std::shared_ptr<const joined_layout>> joined_layout::make(std::vector<joined_part> parts, std::size_t axis) {
  if (parts.empty()) return error(errc::invalid_argument, "there are no arrays to join");
  const chunk_grid& first = parts.front().layout->grid();
  if (axis >= first.rank())
    return error(errc::invalid_argument,
                 fmt::format("arrays of {} have no axis {} to join along", counted(first.rank(), "dimension"), axis));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const chunk_grid& each = parts[i].layout->grid();
    bool alike = each.rank() == first.rank() && each.cells() != 0 && !parts[i].layout->chains().empty();
    for (std::size_t d = 0; alike && d < first.rank(); ++d)
      alike = d == axis || each.axis(d).extent() == first.axis(d).extent();
    if (!alike) return error(errc::invalid_argument, fmt::format("array {} has another shape than array 0", i));
  }
  std::shared_ptr<joined_layout> out(new joined_layout);
  out->parts_ = std::move(parts);
  out->axis_ = axis;
  PENSTOCK_TRY(out->join_grids(axis));
  PENSTOCK_TRY(out->join_chains());
  PENSTOCK_TRY(out->number_objects());
  return std::shared_ptr<const joined_layout>(std::move(out));
}

result<> joined_layout::join_grids(std::size_t axis) {
  std::vector<const chunk_grid*> cells, objects;
  for (const joined_part& each : parts_) {
    cells.push_back(&each.layout->grid());
    objects.push_back(&each.layout->write_grid());
  }
  PENSTOCK_ASSIGN(grid_, join(cells, axis));
  auto made = join(objects, axis);
  write_grid_ = made.ok() ? std::move(*made) : grid_;
  std::uint64_t first = 0;
  for (const chunk_grid* const each : cells) {
    first_cell_.push_back(first);
    first += each->axis(axis).cells();
  }
  first_cell_.push_back(first);
  return {};
}

result<> joined_layout::join_chains() {
  std::map<std::string, std::uint16_t> known;
  chain_of_.reserve(parts_.size());
  for (const joined_part& which : parts_) {
    std::vector<std::uint16_t>& own = chain_of_.emplace_back();
    for (const codec_chain& chain : which.layout->chains()) {
      if (!(chain.type() == parts_.front().layout->chains()[0].type()))
        return error(errc::invalid_argument,
                     fmt::format("array {} holds {}, array 0 {}", chain_of_.size() - 1, chain.type().name(),
                                 parts_.front().layout->chains()[0].type().name()));
      const auto [at, added] = known.try_emplace(identity_of(chain), static_cast<std::uint16_t>(chains_.size()));
      if (added) chains_.push_back(chain);
      if (chains_.size() > kMaxChains)
        return error(errc::unsupported,
                     fmt::format("the joined arrays have more than {} different codec chains", kMaxChains));
      own.push_back(at->second);
    }
  }
  return {};
}

result<> joined_layout::number_objects() {
  object_id first = 0;
  for (const joined_part& which : parts_) {
    first_object_.push_back(first);
    const auto* const nested = dynamic_cast<const joined_layout*>(which.layout.get());
    const std::uint64_t count =
        nested != nullptr ? nested->objects() : std::max<std::uint64_t>(1, which.layout->write_grid().cells());
    if (!checked_add(first, count, first))
      return error(errc::unsupported, "the joined arrays have more than 2^64 objects");
  }
  first_object_.push_back(first);
  return {};
}

std::size_t joined_layout::part_of_cell(std::uint64_t along) const noexcept {
  return static_cast<std::size_t>(std::upper_bound(first_cell_.begin(), first_cell_.end(), along) -
                                  first_cell_.begin() - 1);
}

std::size_t joined_layout::part_of_object(object_id object) const noexcept {
  const auto at = std::upper_bound(first_object_.begin(), first_object_.end(), object) - first_object_.begin() - 1;
  return std::min(static_cast<std::size_t>(at), parts_.size() - 1);
}

cell_id joined_layout::own_cell(cell_id cell, std::size_t& which) const noexcept {
  dim_vector<std::uint64_t> at;
  grid_.coordinates(cell, at);
  which = part_of_cell(at[axis_]);
  at[axis_] -= first_cell_[which];
  return parts_[which].layout->grid().id(at);
}

result<> joined_layout::locate(std::span<const cell_id> cells, const index_lookup& known, std::span<chunk_extent> out,
                               std::vector<index_request>& missing) const {
  const std::size_t requested = missing.size();
  if (cells.size() == 1) {
    std::size_t which = 0;
    const cell_id own = own_cell(cells[0], which);
    return locate_own(which, {&own, 1}, known, out, requested, missing);
  }
  // Each part is called once, so it requests each of its indexes once.
  struct wanted {
    std::size_t which = 0;
    cell_id own = 0;
    std::size_t index = 0;
  };
  std::vector<wanted> order(cells.size());
  bool sorted = true;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    order[i].own = own_cell(cells[i], order[i].which);
    order[i].index = i;
    sorted = sorted && (i == 0 || order[i - 1].which <= order[i].which);
  }
  if (!sorted)
    std::stable_sort(order.begin(), order.end(), [](const wanted& a, const wanted& b) { return a.which < b.which; });
  std::vector<cell_id> own;
  std::vector<chunk_extent> found;
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    const std::size_t which = order[begin].which;
    own.clear();
    found.clear();
    for (end = begin; end < order.size() && order[end].which == which; ++end) {
      own.push_back(order[end].own);
      found.push_back(out[order[end].index]);
    }
    PENSTOCK_TRY(locate_own(which, own, known, found, requested, missing));
    for (std::size_t i = begin; i < end; ++i) out[order[i].index] = found[i - begin];
  }
  return {};
}

result<> joined_layout::locate_own(std::size_t which, std::span<const cell_id> cells, const index_lookup& known,
                                   std::span<chunk_extent> out, std::size_t requested,
                                   std::vector<index_request>& missing) const {
  const object_id first = first_object_[which], count = first_object_[which + 1] - first;
  const std::vector<chunk_extent> before(out.begin(), out.end());
  // A list by the part's own numbers: a layout checks it for indexes that it already requested.
  std::vector<index_request> wanted;
  for (std::size_t i = 0; i < requested; ++i) {
    if (missing[i].key.object < first || missing[i].key.object - first >= count) continue;
    wanted.push_back(missing[i]);
    wanted.back().key.object -= first;
  }
  const std::size_t had = wanted.size();
  PENSTOCK_TRY(parts_[which].layout->locate(cells, part_lookup(known, first), out, wanted));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const bool is_set = out[i].state != before[i].state || out[i].chain != before[i].chain ||
                        out[i].object != before[i].object || !(out[i].range == before[i].range);
    if (!is_set && !wanted.empty()) continue;  // its index is missing
    if (out[i].object >= count || out[i].chain >= chain_of_[which].size())
      return error(errc::internal,
                   fmt::format("array {} of a join names object {}, chain {}", which, out[i].object, out[i].chain));
    out[i].object += first;
    out[i].chain = chain_of_[which][out[i].chain];
  }
  for (std::size_t i = had; i < wanted.size(); ++i) {
    wanted[i].key.object += first;
    // An object that is read as a whole decodes by the first chain, which may be another part's.
    wanted[i].object_cells = wanted[i].max_object_bytes = 0;
    missing.push_back(wanted[i]);
  }
  return {};
}

result<index_ptr> joined_layout::parse(const index_request& request, std::span<const std::byte> bytes,
                                       std::uint64_t object_size) const {
  const std::size_t which = part_of_object(request.key.object);
  index_request own = request;
  own.key.object -= first_object_[which];
  return parts_[which].layout->parse(own, bytes, object_size);
}

void joined_layout::key(object_id object, std::string& out) const {
  const std::size_t which = part_of_object(object);
  parts_[which].layout->key(object - first_object_[which], out);
  out.insert(0, parts_[which].prefix);
}

std::string joined_layout::describe(cell_id cell) const {
  std::size_t which = 0;
  const cell_id own = own_cell(cell, which);
  return fmt::format("{} of array {}", parts_[which].layout->describe(own), which);
}

version joined_layout::expected(object_id object) const {
  const std::size_t which = part_of_object(object);
  return parts_[which].layout->expected(object - first_object_[which]);
}

}  // namespace penstock::inline v0
