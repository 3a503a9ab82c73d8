#include <penstock/stream.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

#include "base/checked.h"
#include "base/output_pool.h"
#include "engine/array_state.h"

namespace penstock::inline v0 {
namespace {

result<> check(const array& from, const stream_options& options) {
  const extents& shape = from.shape();
  if (options.tile.size() != shape.size() ||
      std::find(options.tile.begin(), options.tile.end(), 0U) != options.tile.end())
    return error(errc::invalid_argument, fmt::format("tiles of shape {} do not fit an array of shape {}",
                                                     to_string(options.tile), to_string(shape)));
  const std::vector<std::uint64_t>& edges = options.edges;
  if (edges.empty()) return {};
  if (options.axis >= shape.size())
    return error(errc::invalid_argument,
                 fmt::format("an array of {} dimensions has no axis {}", shape.size(), options.axis));
  const bool ascending = std::adjacent_find(edges.begin(), edges.end(), std::greater_equal<>()) == edges.end();
  if (!ascending || edges.front() != 0 || edges.back() != shape[options.axis]) {
    return error(errc::invalid_argument, fmt::format("edges of tiles ascend from 0 to {}, the length of axis {}",
                                                     shape[options.axis], options.axis));
  }
  return {};
}

/// Of one tile.
struct tile_memory {
  output_block block;
  std::shared_ptr<item_arena> bytes_of_items;  // of variable length
};

}  // namespace

class stream_state {
 public:
  stream_state(array from, stream_options options) : from_(std::move(from)), options_(std::move(options)) {
    for (std::size_t d = 0; d < from_.shape().size(); ++d) {
      const bool listed = d == options_.axis && !options_.edges.empty();
      grid_.push_back(listed ? options_.edges.size() - 1 : ceil_div(from_.shape()[d], options_.tile[d]));
      tiles_ = saturating_mul(tiles_, grid_[d]);
    }
    next_ = extents(grid_.size());
  }

  const extents& grid() const noexcept { return grid_; }
  const extents& tile() const noexcept { return options_.tile; }
  std::uint64_t tiles() const noexcept { return tiles_; }

  result<std::optional<stream_tile>> next() {
    auto out = take();
    if (!out.ok()) cancel();
    return out;
  }

  void cancel() noexcept {
    std::deque<std::shared_ptr<under_way>> dropped;  // waits for the reads, without the lock
    const std::lock_guard lock(mutex_);
    begun_ = tiles_;
    dropped.swap(ahead_);
    for (const auto& each : dropped) each->reading.cancel();
    for (const auto& each : waited_for_)
      if (const auto reading = each.lock()) reading->reading.cancel();
  }

 private:
  // Order of members: the read ends before its memory is released.
  struct under_way {
    stream_tile tile;
    ticket reading;
  };

  result<std::optional<stream_tile>> take() {
    std::shared_ptr<under_way> first;
    {
      const std::lock_guard lock(mutex_);
      PENSTOCK_TRY(read_ahead(options_.depth + 1));
      if (ahead_.empty()) return std::optional<stream_tile>();
      first = std::move(ahead_.front());
      ahead_.pop_front();
      std::erase_if(waited_for_, [](const auto& each) { return each.expired(); });
      waited_for_.push_back(first);
    }
    PENSTOCK_TRY(first->reading.wait());
    const std::lock_guard lock(mutex_);
    PENSTOCK_TRY(read_ahead(options_.depth));
    return std::optional<stream_tile>(std::move(first->tile));
  }

  result<> read_ahead(std::size_t upto) {
    while (ahead_.size() < upto && begun_ < tiles_) {
      PENSTOCK_ASSIGN(std::shared_ptr<under_way> made, begin());
      ahead_.push_back(std::move(made));
      ++begun_;
      for (std::size_t d = next_.size(); d-- > 0;) {
        if (++next_[d] < grid_[d]) break;
        next_[d] = 0;
      }
    }
    return {};
  }

  // Starts the read of the tile at `next_`.
  result<std::shared_ptr<under_way>> begin() {
    const auto out = std::make_shared<under_way>();
    out->tile.index = next_;
    resolved_selection which;
    for (std::size_t d = 0; d < next_.size(); ++d) {
      const bool listed = d == options_.axis && !options_.edges.empty();
      const std::uint64_t low = listed ? options_.edges[next_[d]] : next_[d] * options_.tile[d];
      const std::uint64_t end =
          listed ? options_.edges[next_[d] + 1] : low + std::min(options_.tile[d], from_.shape()[d] - low);
      out->tile.where.origin.push_back(low);
      out->tile.where.size.push_back(end - low);
      which.from.push_back({static_cast<std::int64_t>(low), 1, end - low});
      which.axis.push_back(static_cast<std::int8_t>(d));
    }
    which.shape = out->tile.where.size;
    const dtype& type = options_.type ? *options_.type : from_.type();
    PENSTOCK_ASSIGN(std::uint64_t bytes, element_count(out->tile.where.size));
    if (!checked_mul(bytes, type.item_bytes(), bytes))
      return error(errc::invalid_argument,
                   fmt::format("a tile of shape {} has more than 2^64 bytes", to_string(out->tile.where.size)));
    PENSTOCK_ASSIGN(output_block taken, from_.context()->state().outputs().take(bytes));
    const auto owner = std::make_shared<tile_memory>();
    owner->block = std::move(taken);
    read_options how;
    how.threads = options_.threads;
    how.type = options_.type;
    if (type.variable_length()) {
      owner->bytes_of_items = how.arena = std::make_shared<item_arena>();
      if (bytes != 0) std::memset(owner->block.data(), 0, bytes);  // empty items
    }
    out->tile.values = {tensor_view::contiguous(owner->block.data(), type, out->tile.where.size), owner};
    PENSTOCK_ASSIGN(out->reading, from_.read_async(which, out->tile.values.view, how));
    return out;
  }

  const array from_;
  const stream_options options_;
  extents grid_, next_;  // `next_` belongs to the mutex
  std::uint64_t tiles_ = 1;
  std::mutex mutex_;  // of what follows
  std::uint64_t begun_ = 0;
  std::deque<std::shared_ptr<under_way>> ahead_;
  std::vector<std::weak_ptr<under_way>> waited_for_;
};

void stream_state_deleter::operator()(stream_state* state) const noexcept { delete state; }

array_stream::array_stream(std::unique_ptr<stream_state, stream_state_deleter> state) noexcept
    : state_(std::move(state)) {}

result<array_stream> array_stream::make(array from, stream_options options) {
  if (options.tile.empty()) options.tile = from.shards() == nullptr ? from.chunks() : *from.shards();
  if (auto checked = check(from, options); !checked.ok())
    return std::move(checked).error().note("array '" + from.uri() + "'");
  return array_stream(
      std::unique_ptr<stream_state, stream_state_deleter>(new stream_state(std::move(from), std::move(options))));
}

const extents& array_stream::grid() const noexcept { return state_->grid(); }
const extents& array_stream::tile() const noexcept { return state_->tile(); }
std::uint64_t array_stream::tiles() const noexcept { return state_->tiles(); }
result<std::optional<stream_tile>> array_stream::next() { return state_->next(); }
void array_stream::cancel() noexcept { state_->cancel(); }

}  // namespace penstock::inline v0
