#include <penstock/device_tiles.h>

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <mutex>
#include <utility>

#include "api/loader/tile_walk.h"

namespace penstock::inline v0 {

class device_tiles_state {
  /// Memory for a whole tile, and the read that fills it.
  struct tile_buffer {
    device_stream stream;
    std::uint32_t lane;                     // its number
    std::shared_ptr<device_tensor> memory;  // null before the first tile
    std::optional<device_tensor> read;
    tile_walk::place place;
  };
  using buffer = std::shared_ptr<tile_buffer>;

 public:
  static result<std::unique_ptr<device_tiles_state>> make(array from, device_tiles_options options, tile_walk places) {
    if (options.device < 0) {
      PENSTOCK_ASSIGN(options.device, current_device());
    }
    std::unique_ptr<device_tiles_state> made(
        new device_tiles_state(std::move(from), std::move(options), std::move(places)));
    PENSTOCK_TRY(made->add_buffer());  // refuses a device that does not exist
    return made;
  }
  ~device_tiles_state() {
    held_.reset();  // the caller's work on it may not be queued yet
    cancel();
  }

  const tile_walk& places() const noexcept { return places_; }

  std::size_t complete() {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(
        std::count_if(begun_.begin(), begun_.end(), [](const auto& each) { return each->read->done(); }));
  }

  result<std::optional<device_tile>> next() {
    auto out = take();
    if (!out.ok()) cancel();
    return out;
  }

  void cancel() noexcept {
    std::deque<buffer> dropped;
    {
      const std::lock_guard lock(mutex_);
      places_.end();
      take_back();
      dropped.swap(begun_);
      unproven_.clear();
      for (const auto& each : dropped) each->read->cancel();
      if (waited_for_) waited_for_->read->cancel();
    }
    for (const auto& each : dropped)  // the memory is returned after the work that is already queued
      static_cast<void>(each->read->order(each->stream.handle()));
  }

 private:
  /// A tile that was returned and can still fail on the device.
  struct unproven_tile {
    extents index;
    device_tensor read;
  };

  device_tiles_state(array from, device_tiles_options options, tile_walk places)
      : from_(std::move(from)), options_(std::move(options)), whole_(places.tile()), places_(std::move(places)) {
    for (std::size_t d = 0; d < whole_.size(); ++d) whole_[d] = std::min(whole_[d], from_.shape()[d]);
  }

  result<std::optional<device_tile>> take() {
    buffer first;
    {
      const std::lock_guard lock(mutex_);
      take_back();
      PENSTOCK_TRY(prove(unproven_.size() > 2 * options_.depth + 1));
      PENSTOCK_TRY(read_ahead());
      if (begun_.empty()) {
        while (!unproven_.empty()) PENSTOCK_TRY(prove(true));
        return std::optional<device_tile>();
      }
      first = std::move(begun_.front());
      begun_.pop_front();
      waited_for_ = first;
    }
    auto queued = first->read->order(first->stream.handle());  // waits for the host, without the lock
    const std::lock_guard lock(mutex_);
    waited_for_.reset();
    if (!queued.ok()) return of_tile(std::move(queued).error(), first->place.index);
    unproven_.push_back({first->place.index, device_tensor(first->read->state())});
    PENSTOCK_TRY(prove(options_.check));
    begin_work(*first->read, first->stream.handle(), first->lane);
    held_ = first;
    return std::optional<device_tile>(device_tile{first->place.index, first->place.where,
                                                  device_tensor(first->read->state()), first->memory,
                                                  first->stream.handle()});
  }

  /// The caller's buffer is overwritten after the present work of its stream.
  void take_back() noexcept {
    if (!held_) return;
    end_work(*held_->read, held_->stream.handle());
    held_->read.reset();
    free_.push_back(std::move(held_));
    held_.reset();
  }

  result<> add_buffer() {
    PENSTOCK_ASSIGN(device_stream stream, device_stream::make(options_.device));
    const auto lane = static_cast<std::uint32_t>(buffers_++);
    free_.push_back(std::make_shared<tile_buffer>(tile_buffer{std::move(stream), lane, nullptr, std::nullopt, {}}));
    return {};
  }

  result<> read_ahead() {
    while (!places_.ended()) {
      if (free_.empty()) {
        if (buffers_ > options_.depth) break;
        PENSTOCK_TRY(add_buffer());
      }
      buffer made = std::move(free_.front());
      free_.pop_front();
      const stream_handle stream = made->stream.handle();
      if (made->memory == nullptr) {
        PENSTOCK_ASSIGN(device_tensor memory, device_memory(*from_.context(), options_.device, from_.type(), whole_));
        PENSTOCK_TRY(memory.order(stream));
        made->memory = std::make_shared<device_tensor>(std::move(memory));
      }
      made->place = places_.next();
      tensor_view to = tensor_view::contiguous(made->memory->view().data, from_.type(), made->place.where.size);
      to.space = memory_space::cuda;
      device_read_options how;
      how.device = options_.device;
      how.stream = stream;
      how.threads = options_.threads;
      auto begun = read_to_device(from_, made->place.which(), to, how);
      if (!begun.ok()) return of_tile(std::move(begun).error(), made->place.index);
      made->read.emplace(std::move(*begun));
      made->read->claim_outcome();
      begun_.push_back(std::move(made));
    }
    return {};
  }

  /// Returns known failures of the device. \param wait  For the oldest tile.
  result<> prove(bool wait) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < unproven_.size(); ++i) {
      if (!unproven_[i].read.done() && !(wait && kept == 0)) {
        if (kept != i) unproven_[kept] = std::move(unproven_[i]);
        ++kept;
        continue;
      }
      auto outcome = unproven_[i].read.outcome();
      if (!outcome.ok()) return of_tile(std::move(outcome).error(), unproven_[i].index);
    }
    unproven_.erase(unproven_.begin() + static_cast<std::ptrdiff_t>(kept), unproven_.end());
    return {};
  }

  static error of_tile(error why, const extents& index) {
    return std::move(why).note(fmt::format("tile {} of the stream", to_string(index)));
  }

  const array from_;
  const device_tiles_options options_;
  extents whole_;            // a whole tile, if the array is smaller than one
  std::mutex mutex_;         // protects the members below
  tile_walk places_;         // its grid does not change
  std::size_t buffers_ = 0;  // at most `depth` + 1, and no more than tiles
  std::deque<buffer> free_, begun_;
  buffer held_;        // the tile that the caller has
  buffer waited_for_;  // taken by `next`
  std::deque<unproven_tile> unproven_;
};

void device_tiles_state_deleter::operator()(device_tiles_state* state) const noexcept { delete state; }

device_tiles::device_tiles(std::unique_ptr<device_tiles_state, device_tiles_state_deleter> state) noexcept
    : state_(std::move(state)) {}

result<device_tiles> device_tiles::make(array from, device_tiles_options options) {
  options.depth = std::min(options.depth, std::numeric_limits<std::size_t>::max() / 2 - 1);  // two rounds of buffers
  PENSTOCK_ASSIGN(tile_walk places, tile_walk::make(from, options.tile, options.edges, options.axis));
  PENSTOCK_ASSIGN(auto state, device_tiles_state::make(std::move(from), std::move(options), std::move(places)));
  return device_tiles(std::unique_ptr<device_tiles_state, device_tiles_state_deleter>(state.release()));
}

const extents& device_tiles::grid() const noexcept { return state_->places().grid(); }
const extents& device_tiles::tile() const noexcept { return state_->places().tile(); }
std::uint64_t device_tiles::tiles() const noexcept { return state_->places().tiles(); }
std::size_t device_tiles::complete() const { return state_->complete(); }
result<std::optional<device_tile>> device_tiles::next() { return state_->next(); }
void device_tiles::cancel() noexcept { state_->cancel(); }

}  // namespace penstock::inline v0
