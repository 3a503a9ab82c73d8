#include <penstock/stream.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <limits>
#include <mutex>
#include <utility>

#include "api/loader/tile_walk.h"
#include "base/checked.h"
#include "base/output_pool.h"
#include "engine/array_state.h"

namespace penstock::inline v0 {
namespace {

/// The part of one tile.
struct tile_memory {
  output_block block;
  std::shared_ptr<item_arena> bytes_of_items;  // of variable length
};

}  // namespace

class stream_state {
 public:
  stream_state(array from, stream_options options, tile_walk places)
      : from_(std::move(from)), options_(std::move(options)), places_(std::move(places)) {}

  const extents& grid() const noexcept { return places_.grid(); }
  const extents& tile() const noexcept { return places_.tile(); }
  std::uint64_t tiles() const noexcept { return places_.tiles(); }

  result<std::optional<stream_tile>> next() {
    auto out = take();
    if (!out.ok()) cancel();
    return out;
  }

  void cancel() noexcept {
    std::deque<std::shared_ptr<under_way>> dropped;  // waits for the reads, without the lock
    const std::lock_guard lock(mutex_);
    places_.end();
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
    while (ahead_.size() < upto && !places_.ended()) {
      PENSTOCK_ASSIGN(std::shared_ptr<under_way> made, begin(places_.next()));
      ahead_.push_back(std::move(made));
    }
    return {};
  }

  result<std::shared_ptr<under_way>> begin(const tile_walk::place& place) {
    const auto out = std::make_shared<under_way>();
    out->tile.index = place.index;
    out->tile.where = place.where;
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
    PENSTOCK_ASSIGN(out->reading, from_.read_async(place.which(), out->tile.values.view, how));
    return out;
  }

  const array from_;
  const stream_options options_;
  std::mutex mutex_;  // protects the members below
  tile_walk places_;  // its grid does not change
  std::deque<std::shared_ptr<under_way>> ahead_;
  std::vector<std::weak_ptr<under_way>> waited_for_;
};

void stream_state_deleter::operator()(stream_state* state) const noexcept { delete state; }

array_stream::array_stream(std::unique_ptr<stream_state, stream_state_deleter> state) noexcept
    : state_(std::move(state)) {}

result<array_stream> array_stream::make(array from, stream_options options) {
  options.depth = std::min(options.depth, std::numeric_limits<std::size_t>::max() - 1);  // and the one that is returned
  PENSTOCK_ASSIGN(tile_walk places, tile_walk::make(from, options.tile, options.edges, options.axis));
  return array_stream(std::unique_ptr<stream_state, stream_state_deleter>(
      new stream_state(std::move(from), std::move(options), std::move(places))));
}

const extents& array_stream::grid() const noexcept { return state_->grid(); }
const extents& array_stream::tile() const noexcept { return state_->tile(); }
std::uint64_t array_stream::tiles() const noexcept { return state_->tiles(); }
result<std::optional<stream_tile>> array_stream::next() { return state_->next(); }
void array_stream::cancel() noexcept { state_->cancel(); }

}  // namespace penstock::inline v0
