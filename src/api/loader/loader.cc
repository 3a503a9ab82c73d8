#include <penstock/loader.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "api/loader/loader_pass.h"
#include "base/checked.h"
#include "base/counted.h"
#include "engine/array_state.h"

namespace penstock::inline v0 {
namespace {

// Ranges of a data set that are distributed to ranks as a whole: usually the number of ranks divides their number. A
// batch is drawn from the open blocks of one lane.
constexpr std::uint64_t kMostLanes = 8;
constexpr std::uint64_t kLeastOpenBlocks = 4;
// Blocks that are read ahead, so that requests to remote stores overlap: up to five eighths of a small window are for
// them, and a quarter of a large one.
constexpr std::uint64_t kBlocksAhead = 32;

// The shortest part of an axis in one of its cells, except the last one.
std::uint64_t shortest_cell(const grid_axis& of) {
  if (of.is_uniform() || of.cells() < 2) return longest_cell(of);
  std::uint64_t shortest = of.valid_length(0);
  for (std::uint64_t i = 1; i + 1 < of.cells(); ++i) shortest = std::min(shortest, of.valid_length(i));
  return shortest;
}

/// A dimension of an array for errors: by its name if it has one.
std::string dimension_text(const array& of, std::size_t d) {
  const auto& names = of.dimension_names();
  return d < names.size() && names[d] ? fmt::format("dimension '{}'", *names[d]) : fmt::format("axis {}", d);
}

result<std::vector<sample_axis>> places_of(const std::vector<loader_array>& arrays, std::span<const loader_axis> axes) {
  std::vector<sample_axis> out;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    sample_axis made;
    made.crop = axes[a].crop;
    made.stride = axes[a].stride == 0 ? axes[a].crop : axes[a].stride;
    made.before = axes[a].before;
    made.after = axes[a].after;
    const loader_array* first = nullptr;
    for (const loader_array& each : arrays) {
      if (a >= each.dims.size() || !each.dims[a] || *each.dims[a] >= each.from.shape().size()) continue;
      const grid_axis& axis = each.from.state().layout->grid().axis(*each.dims[a]);
      if (first != nullptr && axis.extent() != made.extent)
        return error(errc::invalid_argument, fmt::format("{} has {} in one array and {} in the other", made.name,
                                                         counted(made.extent, "element"), axis.extent()))
            .note("array '" + first->from.uri() + "'")
            .note("array '" + each.from.uri() + "'");
      if (first == nullptr) {
        first = &each;
        made.name = dimension_text(each.from, *each.dims[a]);
      }
      made.extent = axis.extent();
      made.block = std::max({made.block, longest_cell(axis), std::uint64_t{1}});
    }
    if (first == nullptr) return error(errc::invalid_argument, fmt::format("no array has axis {} of a sample", a));
    out.push_back(std::move(made));
  }
  return out;
}

struct chunk_sizes {
  std::uint64_t sample = 0, block = 0;  ///< bytes of the chunks of one sample at most, and of a block's
  bool crosses = false;                 ///< whether a sample may have chunks of several blocks
};

result<chunk_sizes> sizes_of(const std::vector<loader_array>& arrays, std::span<const sample_axis> places,
                             bool is_grid) {
  chunk_sizes out;
  for (const loader_array& each : arrays) {
    const chunk_grid& grid = each.from.state().layout->grid();
    std::uint64_t cell = each.from.type().item_bytes(), block = cell, count = 1;
    bool fits = true;
    for (std::size_t d = 0; d < grid.rank(); ++d) {
      const grid_axis& axis = grid.axis(d);
      const std::uint64_t longest = longest_cell(axis);
      fits = fits && checked_mul(cell, longest, cell);
      const auto at = std::find(each.dims.begin(), each.dims.end(), std::optional<std::size_t>(d));
      if (at == each.dims.end()) {
        fits = fits && checked_mul(count, axis.cells(), count) && checked_mul(block, axis.extent(), block);
        continue;
      }
      sample_axis of = places[static_cast<std::size_t>(at - each.dims.begin())];
      if (!is_grid) of.stride = 1;
      const std::uint64_t cells =
          axis.is_uniform() ? sample_space::most_blocks(of, std::max<std::uint64_t>(longest, 1))
                            : std::min(axis.cells(), of.crop / std::max<std::uint64_t>(shortest_cell(axis), 1) + 2);
      out.crosses = out.crosses || cells > 1;
      fits = fits && checked_mul(count, cells, count) && checked_mul(block, std::max(of.block, longest), block);
    }
    std::uint64_t sample = 0;
    fits = fits && checked_mul(cell, count, sample);
    if (!fits)
      return error(errc::resource_exhausted, "a sample's chunks have 2^64 bytes or more")
          .note("array '" + each.from.uri() + "'");
    out.sample += sample;
    out.block += block;
  }
  return out;
}

}  // namespace

result<loader> loader::make(std::vector<loader_array> arrays, std::vector<loader_axis> axes, loader_options options) {
  if (arrays.empty()) return error(errc::invalid_argument, "a loader needs an array");
  const auto kept = std::count_if(axes.begin(), axes.end(), [](const loader_axis& each) { return each.keeps; });
  if (axes.size() > kMaxRank || (options.mask && static_cast<std::size_t>(kept) == kMaxRank))
    return error(errc::invalid_argument, fmt::format("a crop has at most {} dimensions", kMaxRank - 1));
  if (options.batch == 0) return error(errc::invalid_argument, "a batch has at least one sample");
  if (options.random_samples && !options.origins.empty())
    return error(errc::invalid_argument, "samples are either random or listed, not both");
  loader_state::parts made;
  for (const loader_array& each : arrays) {
    auto sample = loader_sample::make(each, axes);
    if (!sample.ok()) return std::move(sample).error().note("array '" + each.from.uri() + "'");
    made.samples.push_back(std::move(*sample));
  }
  PENSTOCK_ASSIGN(made.places, places_of(arrays, axes));
  const bool is_grid = !options.random_samples && options.origins.empty();
  if (!options.origins.empty()) {
    PENSTOCK_ASSIGN(made.space, sample_space::listed(made.places, std::move(options.origins)));
    options.origins.clear();
  } else if (is_grid) {
    PENSTOCK_ASSIGN(made.space, sample_space::grid(made.places));
  } else {
    PENSTOCK_TRY(sample_space::random(made.places, 0, 0));  // whether crops fit
  }
  made.sample_count = made.space ? made.space->samples() : *options.random_samples;
  if (options.device) PENSTOCK_TRY(device_tensor_state::engine_of(arrays[0].from.context()->state(), *options.device));
  if (made.sample_count > sample_space::kMostSamples) return sample_space::too_many_samples(made.sample_count);

  PENSTOCK_ASSIGN(const chunk_sizes bytes, sizes_of(arrays, made.places, is_grid));
  made.window_bytes = options.window_bytes;
  if (made.window_bytes == 0) {
    const ledger& accounts = arrays[0].from.context()->state().accounts();
    made.window_bytes = std::max(accounts.memory_limit() / 4, bytes.sample);
  }
  if (made.window_bytes < bytes.sample)
    return error(errc::invalid_argument,
                 fmt::format("a window of {} bytes does not hold the chunks of one sample, which take {}",
                             made.window_bytes, bytes.sample));
  made.sample_chunk_bytes = bytes.sample;
  // Samples are drawn from the blocks in one part of the window; the other part is read ahead.
  const std::uint64_t held = made.window_bytes / std::max<std::uint64_t>(bytes.block, 1);
  const std::uint64_t ahead = std::max(held / 4, std::min(saturating_mul(held, 5) / 8, kBlocksAhead));
  const std::uint64_t blocks = std::max<std::uint64_t>(1, held - ahead);
  if (!bytes.crosses) made.early_bytes = std::min(ahead, kBlocksAhead) / 2 * bytes.block;
  const std::uint64_t all_blocks = made.space ? made.space->blocks() : ~std::uint64_t{0};
  made.lanes = kMostLanes;
  while (made.lanes > 1 && made.lanes * kLeastOpenBlocks > std::min(blocks, all_blocks)) made.lanes /= 2;
  made.open_blocks = std::max<std::uint64_t>(1, std::min(blocks, all_blocks) / made.lanes);
  made.arrays = std::move(arrays);
  made.axes = std::move(axes);
  made.options = std::move(options);
  return loader(std::unique_ptr<loader_state, loader_state_deleter>(new loader_state(std::move(made))));
}

void loader_state_deleter::operator()(loader_state* state) const noexcept {
  if (!state->is_of_parent()) delete state;
}

loader::loader(std::unique_ptr<loader_state, loader_state_deleter> state) noexcept : state_(std::move(state)) {}

std::uint64_t loader::samples() const noexcept { return state_->what().sample_count; }
std::uint64_t loader::batches() const noexcept { return state_->end_of({}); }
std::uint64_t loader::batches_of(const loader_position& from) const noexcept {
  return from.ranks == 0 ? 0 : state_->batches_of(from);
}
extents loader::batch_shape(std::size_t which) const { return state_->shape_of(which, state_->what().options.batch); }
const dtype& loader::batch_type(std::size_t which) const noexcept { return state_->type_of(which); }
result<> loader::start(const loader_position& from) {
  try {
    return state_->start(from);
  } catch (const std::bad_alloc&) {
    return error(errc::resource_exhausted,
                 fmt::format("the system has no memory for the order of {}", counted(samples(), "sample")));
  } catch (const std::length_error&) {
    return error(errc::resource_exhausted, fmt::format("{} are too many for one epoch", counted(samples(), "sample")));
  }
}
result<std::optional<loader_batch>> loader::next() { return state_->next(); }
loader_counts loader::counts() const { return state_->counts(); }

}  // namespace penstock::inline v0
