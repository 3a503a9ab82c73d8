#include "api/loader/loader_pass.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <new>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/counted.h"
#include "base/executor.h"
#include "base/waiting.h"
#include "engine/array_state.h"
#include "plan/epoch_order.h"

namespace penstock::inline v0 {
namespace {

// Smaller batches are assembled by one thread.
constexpr std::uint64_t kMinParallelBytes = std::uint64_t{1} << 19;

/// Independent tasks for any number of workers.
class pieces_job final : public job {
 public:
  pieces_job(std::size_t count, std::function<void(std::size_t)> piece)
      : count_(count), left_(count), piece_(std::move(piece)) {}
  progress step(unsigned) override {
    const std::size_t i = next_.fetch_add(1, std::memory_order_relaxed);
    if (i >= count_) return left_.load(std::memory_order_acquire) == 0 ? progress::done : progress::idle;
    piece_(i);
    if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return progress::worked;
    wake();
    return progress::done;
  }

 private:
  const std::size_t count_;
  std::atomic<std::size_t> next_{0}, left_;
  const std::function<void(std::size_t)> piece_;
};

}  // namespace

loader_state::loader_state(parts what) : what_(std::move(what)) {
  for (const loader_array& each : what_.arrays) arrays_.push_back(each.from);
  for (const sample_axis& each : what_.places) lengths_.push_back(each.extent);
}

std::uint64_t loader_state::end_of(const loader_position& from) const noexcept {
  const std::uint64_t size = what_.options.batch;
  if (!what_.options.drop_last) return ceil_div(what_.sample_count, size);
  // Counted from the first batch: a pass may continue one that had another number of ranks.
  const std::uint64_t whole = what_.sample_count / size, first = std::min(from.first_batch, whole);
  return first + (whole - first) / from.ranks * from.ranks;
}

std::uint64_t loader_state::batches_of(const loader_position& from) const noexcept {
  const std::uint64_t end = end_of(from);
  if (from.first_batch >= end || from.rank >= end - from.first_batch) return 0;
  return ceil_div(end - from.first_batch - from.rank, from.ranks);
}

extents loader_state::shape_of(std::size_t which, std::uint64_t samples) const {
  extents shape{samples};
  if (which < what_.arrays.size()) {
    for (const std::uint64_t length : what_.samples[which].shape()) shape.push_back(length);
    return shape;
  }
  for (const loader_axis& axis : what_.axes)
    if (axis.keeps) shape.push_back(axis.crop);
  return shape;
}

const dtype& loader_state::type_of(std::size_t which) const noexcept {
  static const dtype boolean(dtype_kind::boolean, 8);
  return which < what_.arrays.size() ? what_.samples[which].type() : boolean;
}

void loader_state::stop() {
  std::deque<loader_batch> dropped;  // after the lock
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);  // or the thread could start to wait at this moment
      stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  if (window_) window_->stop();
  const std::lock_guard lock(mutex_);
  dropped.swap(ready_);
  ended_ = true;
  ++stops_;
  changed_.notify_all();
}

// The plan of an epoch: at least this many bytes at a time.
std::uint64_t loader_state::plan_bytes(const loader_position& from) const noexcept {
  constexpr std::uint64_t kNumber = sizeof(std::uint64_t);
  const std::uint64_t all = what_.sample_count;
  const std::uint64_t mine = std::min(all, saturating_mul(batches_of(from), what_.options.batch));
  // The order; origins and blocks of samples that are drawn.
  const std::uint64_t of_all = 1 + (what_.options.random_samples ? what_.places.size() + 1 : 0);
  // A sample, the begins of its uses (twice), and two numbers for each use, of which an array has one or more.
  const std::uint64_t of_mine = 3 + 2 * what_.arrays.size();
  return saturating_add(saturating_mul(all, of_all * kNumber), saturating_mul(mine, of_mine * kNumber));
}

result<> loader_state::start(const loader_position& from) {
  if (from.ranks == 0 || from.rank >= from.ranks)
    return error(errc::invalid_argument, fmt::format("rank {} of {} does not exist", from.rank, from.ranks));
  const std::uint64_t planned = plan_bytes(from), limit_bytes = arrays_[0].context()->state().accounts().memory_limit();
  if (planned > limit_bytes)
    return error(errc::resource_exhausted,
                 fmt::format("the plan of an epoch of {} takes {} bytes or more, the context's memory limit is {}: use "
                             "a larger memory_limit, or fewer samples",
                             counted(what_.sample_count, "sample"), planned, limit_bytes));
  const std::lock_guard one_at_a_time(starting_);
  stop();
  const loader_options& options = what_.options;
  if (options.device) {
    PENSTOCK_ASSIGN(device_, device_tensor_state::engine_of(arrays_[0].context()->state(), *options.device));
  }
  if (options.random_samples) {
    PENSTOCK_ASSIGN(drawn_, sample_space::random(what_.places, *options.random_samples,
                                                 options.seed + 0x632be59bd9b4e019 * (from.epoch + 1)));
  }
  epoch_options mixing;
  mixing.shuffle = options.shuffle;
  mixing.seed = options.seed;
  mixing.epoch = from.epoch;
  mixing.batch = options.batch;
  mixing.lanes = what_.lanes;
  mixing.open_blocks = what_.open_blocks;
  const std::vector<std::uint64_t> order = epoch_order(space(), mixing);

  samples_.clear();
  numbers_.clear();
  const std::uint64_t count = batches_of(from);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t j = from.first_batch + from.rank + i * from.ranks;
    numbers_.push_back(j);
    const std::uint64_t begin = j * options.batch, end = std::min<std::uint64_t>(begin + options.batch, order.size());
    samples_.insert(samples_.end(), order.begin() + static_cast<std::ptrdiff_t>(begin),
                    order.begin() + static_cast<std::ptrdiff_t>(end));
  }
  // If the lanes are distributed to the ranks, so is the window.
  const std::uint64_t share = what_.lanes % from.ranks == 0 ? from.ranks : 1;
  const std::uint64_t limit = std::max(what_.window_bytes / share, what_.sample_chunk_bytes);
  if (!window_ || window_limit_ != limit) {
    const context_state& with = arrays_[0].context()->state();
    auto made = std::make_shared<loader_window>(arrays_, limit, what_.early_bytes / share,
                                                std::max(with.io_concurrency(), 2 * with.threads()));
    const std::lock_guard lock(mutex_);
    window_.swap(made);
    window_limit_ = limit;
  }
  std::vector<loader_window::chunk_number> uses;
  std::vector<chunk_id> found;
  std::vector<std::int64_t> origin(what_.axes.size());
  uses_.assign(1, 0);
  for (const std::uint64_t sample : samples_) {
    space().origin(sample, origin);
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      found.clear();
      what_.samples[i].chunks_of(origin, found);
      for (const chunk_id id : found) uses.push_back(window_->number_of(i, id));
    }
    uses_.push_back(uses.size());
  }
  window_->begin(std::move(uses), uses_);
  stopped_ = false;
  const std::lock_guard lock(mutex_);
  failure_.reset();
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    return error(errc::resource_exhausted, "the system has no thread for a loader");
  }
  ended_ = false;
  return {};
}

void loader_state::run() {
  for (std::size_t i = 0; i < numbers_.size() && !stopped_; ++i) {
    auto made = make_one(i);
    std::unique_lock lock(mutex_);
    if (!made.ok()) {
      failure_ = std::move(made).error();
      break;
    }
    ready_.push_back(std::move(*made));
    changed_.notify_all();
    // `depth` batches are ready, not counting those that the caller has taken.
    changed_.wait(lock, [&] { return ready_.size() < std::max<std::uint64_t>(what_.options.depth, 1) || stopped_; });
  }
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

// Exceptions would end the program: this is the thread's own function.
result<loader_batch> loader_state::make_one(std::size_t which) {
  try {
    return make_batch(which);
  } catch (const std::bad_alloc&) {
    return error(errc::resource_exhausted, "the system has no memory for a batch");
  }
}

result<loader_batch> loader_state::make_batch(std::size_t which) {
  loader_batch out;
  out.number = numbers_[which];
  const std::size_t begin = which * static_cast<std::size_t>(what_.options.batch);
  const std::size_t end = std::min(begin + static_cast<std::size_t>(what_.options.batch), samples_.size());
  out.samples = end - begin;
  std::vector<device_batch> staged;
  PENSTOCK_TRY(take_memory(out, staged));
  for (std::size_t first = begin; first < end;) {
    PENSTOCK_TRY(window_->read_ahead());
    // The next sample, and the samples directly after it whose chunks have all been read.
    std::size_t last = first + 1;
    while (last < end && window_->are_here(uses_[last], uses_[last + 1])) ++last;
    PENSTOCK_TRY(window_->wait(uses_[first], uses_[last], [&] { return !stopped_; }));
    PENSTOCK_TRY(put(first, last, begin, out));
    window_->release(uses_[last]);
    first = last;
  }
  for (device_batch& each : staged) {
    PENSTOCK_ASSIGN(device_tensor sent, each.send());
    out.device_values.push_back(std::move(sent));
  }
  if (!staged.empty()) out.values.clear();
  return out;
}

// `batch.values` becomes the host memory that its samples are written to: for a device, that of `staged`.
result<> loader_state::take_memory(loader_batch& batch, std::vector<device_batch>& staged) {
  context_state& with = arrays_[0].context()->state();
  for (std::size_t i = 0; i < values(); ++i) {
    const extents shape = shape_of(i, batch.samples);
    if (device_) {
      PENSTOCK_ASSIGN(device_batch made, device_batch::make(device_, with, type_of(i), shape));
      batch.values.push_back({tensor_view::contiguous(made.data(), type_of(i), shape), nullptr});
      staged.push_back(std::move(made));
      continue;
    }
    PENSTOCK_ASSIGN(std::uint64_t bytes, element_count(shape));
    bytes *= type_of(i).item_bytes();
    PENSTOCK_ASSIGN(output_block taken, with.outputs().take(bytes));
    auto owner = std::make_shared<output_block>(std::move(taken));
    batch.values.push_back({tensor_view::contiguous(owner->data(), type_of(i), shape), owner});
  }
  return {};
}

result<> loader_state::put(std::size_t first, std::size_t last, std::size_t batch_begin, loader_batch& into) {
  std::uint64_t bytes = 0;
  for (const loader_sample& each : what_.samples) bytes += each.bytes() * (last - first);
  const auto one = [&](std::size_t i) {
    dim_vector<std::int64_t> origin(what_.axes.size());
    const std::size_t sample = first + i, at = sample - batch_begin;
    space().origin(samples_[sample], origin);
    for (std::size_t a = 0; a < arrays_.size(); ++a) {
      const loader_sample& of = what_.samples[a];
      of.put(
          origin, [&](chunk_id id) { return window_->values(window_->number_of(a, id)); },
          into.values[a].view.data + at * of.bytes());
    }
    if (!what_.options.mask) return;
    std::uint64_t size = 1;
    for (const loader_axis& axis : what_.axes) size *= axis.crop;
    put_valid_places(origin, lengths_, what_.axes, into.values.back().view.data + at * size);
  };
  if (last - first == 1 || bytes < kMinParallelBytes) {
    for (std::size_t i = 0; i < last - first; ++i) one(i);
    return {};
  }
  context_state& with = arrays_[0].context()->state();
  const auto work = std::make_shared<pieces_job>(last - first, std::cref(one));
  with.executor().run(work, static_cast<unsigned>(std::min<std::size_t>(with.threads(), last - first)), {},
                      std::chrono::seconds(1));
  return {};
}

result<std::optional<loader_batch>> loader_state::next() {
  std::unique_lock lock(mutex_);
  const std::uint64_t mine = stops_;
  while (ready_.empty() && !ended_) {
    changed_.wait_for(lock, std::chrono::milliseconds(40));
    auto* const asked = interruptible_waits::current();
    if (asked != nullptr && ready_.empty() && !ended_) {
      lock.unlock();
      if (!asked->ask()) return error(errc::cancelled, "the wait for a batch was interrupted");
      lock.lock();
    }
    if (stops_ != mine) return error(errc::cancelled, "the loader was started again, which ended this pass");
  }
  if (!ready_.empty()) {
    std::optional<loader_batch> out(std::move(ready_.front()));
    ready_.pop_front();
    changed_.notify_all();
    return out;
  }
  if (failure_) return failure_->clone();
  return std::optional<loader_batch>();
}

loader_counts loader_state::counts() const {
  std::shared_ptr<const loader_window> of;
  {
    const std::lock_guard lock(mutex_);
    of = window_;
  }
  loader_counts out = of ? of->counts() : loader_counts();
  out.lanes = what_.lanes;
  out.blocks_open = what_.lanes * what_.open_blocks;
  return out;
}

}  // namespace penstock::inline v0
