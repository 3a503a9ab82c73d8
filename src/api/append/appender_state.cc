#include "api/append/appender_state.h"

#include <penstock/device.h>
#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "api/device_copy.h"
#include "api/device_tensor_state.h"
#include "array/strided_copy.h"
#include "base/checked.h"
#include "base/thrown.h"
#include "base/waiting.h"
#include "cuda/device_values.h"
#include "driver/node_mode.h"
#include "engine/array_state.h"
#include "engine/context_state.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kDefaultQueueBytes = std::uint64_t{256} << 20;
/// One write writes a slab, with its objects in flight at the same time; the queue has several slabs.
constexpr std::uint64_t kMostSlabBytes = std::uint64_t{32} << 20;
constexpr std::uint64_t kSlabsInQueue = 8;
/// Rows that can be written wait for further ones, so that small appends do not wake the thread one by one.
constexpr std::chrono::milliseconds kGathering{20};
/// Held with any queue size: one is written while the next one is filled.
constexpr std::size_t kLeastSlabs = 2;

error closed_error() { return {errc::invalid_argument, "this appender is closed"}; }

}  // namespace

appender_state::appender_state(const array& to, std::size_t axis, const appender_options& options, const sizes& of)
    : to_(to),
      axis_(axis),
      options_(options),
      queue_bytes_(of.queue_bytes),
      made_at_(fork_clock::now()),
      row_bytes_(of.row_bytes),
      unit_(of.unit),
      slab_rows_(of.slab_rows),
      end_(to.shape()[axis]) {}

result<std::shared_ptr<appender_state>> appender_state::make(const array& to, std::size_t axis,
                                                             const appender_options& options) {
  PENSTOCK_TRY(check_editable(to.state()));
  PENSTOCK_TRY(check_writable_now(to.state()));
  const extents& shape = to.shape();
  if (axis >= shape.size())
    return error(errc::out_of_range,
                 fmt::format("axis {} is out of bounds for array of dimension {}", axis, shape.size()));
  if (options.publish_interval.count() < 0) return error(errc::invalid_argument, "publish_interval is negative");
  sizes of;
  of.queue_bytes = options.queue_bytes == 0 ? kDefaultQueueBytes : options.queue_bytes;
  of.unit = std::max<std::uint64_t>(1, (to.shards() != nullptr ? *to.shards() : to.chunks())[axis]);
  of.row_bytes = to.type().item_bytes();
  bool fits = true;
  for (std::size_t d = 0; d < shape.size(); ++d)
    fits = fits && (d == axis || checked_mul(of.row_bytes, shape[d], of.row_bytes));
  std::uint64_t unit_bytes = 0;
  fits = fits && checked_mul(std::max<std::uint64_t>(1, of.row_bytes), of.unit, unit_bytes);
  if (!fits) return error(errc::resource_exhausted, "a row of chunks has more than 2^64 bytes");
  const std::uint64_t most = std::min(of.queue_bytes / kSlabsInQueue, kMostSlabBytes);
  of.slab_rows = of.unit * std::max<std::uint64_t>(1, most / unit_bytes);
  fork_clock::start();
  return std::shared_ptr<appender_state>(new appender_state(to, axis, options, of));
}

result<> appender_state::check_usable() const {
  if (is_of_parent())
    return error(errc::unsupported, "this appender belongs to the parent process: create one in the child");
  return {};
}

result<> appender_state::check_value(const tensor_view& rows, const void* keeps, bool may_wait) const {
  PENSTOCK_TRY(check_usable());
  PENSTOCK_TRY(check_rows(to_.state(), to_.shape(), rows, axis_));
  if (rows.space != memory_space::host && !may_wait)
    return error(errc::unsupported, "`try_append` is for rows in host memory");
  if (rows.space != memory_space::host && rows.type.variable_length())
    return error(errc::unsupported, "elements of variable length are not in device memory");
  if (rows.type.kind() == dtype_kind::object && keeps == nullptr)
    return error(errc::unsupported, "Python objects cannot be copied: `keeps` must hold them");
  return {};
}

tensor_view appender_state::part_of(const tensor_view& of, std::uint64_t first, std::uint64_t count) const noexcept {
  tensor_view out = of;
  out.data += static_cast<std::int64_t>(first) * of.strides[axis_];
  out.extents[axis_] = count;
  return out;
}

result<std::shared_ptr<appender_state::slab>> appender_state::make_slab(std::uint64_t capacity) const {
  auto out = std::make_shared<slab>();
  out->capacity = capacity;
  out->bytes = std::max<std::uint64_t>(1, capacity * row_bytes_);
  PENSTOCK_ASSIGN(out->memory, to_.context()->state().outputs().take(out->bytes));
  extents shape = to_.shape();
  shape[axis_] = capacity;
  out->rows = tensor_view::contiguous(out->memory.data(), to_.type(), shape);
  return out;
}

// Rows after the filled ones: copies their elements' bytes unless another object owns them. Returns their number.
result<std::uint64_t> appender_state::copy_items(slab& to, std::uint64_t count, bool owned) const {
  std::uint64_t before = 1, run = count, bytes = 0;
  for (std::size_t d = 0; d < to.rows.extents.size(); ++d) {
    if (d < axis_) before *= to.rows.extents[d];
    if (d > axis_) run *= to.rows.extents[d];
  }
  const std::uint64_t step = count == 0 ? 0 : run / count * to.rows.extents[axis_] * sizeof(variable_item);
  std::byte* at = to.rows.data + static_cast<std::int64_t>(to.filled) * to.rows.strides[axis_];
  for (std::uint64_t i = 0; i < before; ++i, at += step) {
    for (std::uint64_t k = 0; k < run; ++k) {
      variable_item item;
      std::memcpy(&item, at + k * sizeof item, sizeof item);
      bytes += item.size;
      if (owned) continue;
      PENSTOCK_ASSIGN(item, to.items.copy(std::as_bytes(std::span(item.text()))));
      std::memcpy(at + k * sizeof item, &item, sizeof item);
    }
  }
  return bytes;
}

// Queues a copy of rows in device memory. Null: the device has no memory for it, and the rows were copied to `to`.
result<std::shared_ptr<device_copy>> appender_state::copy_device_rows(const tensor_view& rows, const tensor_view& to,
                                                                      std::optional<std::uintptr_t> stream) const {
  const auto address = reinterpret_cast<std::uintptr_t>(rows.data);
  PENSTOCK_ASSIGN(const std::optional<int> device, device_of(address));
  if (!device) return error(errc::invalid_argument, "the rows are marked as device memory, but are not in it");
  PENSTOCK_ASSIGN(const auto engine, device_tensor_state::engine_of(to_.context()->state(), *device));
  PENSTOCK_TRY(device_tensor_state::check_context(*engine, address));
  std::optional<cuda::stream_ref> on;
  if (stream) on = reinterpret_cast<cuda::stream_ref>(*stream);
  auto made = std::make_shared<device_copy>(engine);
  auto queued = made->queue(rows, rows.extents[axis_] * row_bytes_, on.value_or(engine->write_stream()));
  if (queued.ok()) {
    if (!on) PENSTOCK_TRY(made->wait([] { return true; }));
    return made;
  }
  if (queued.error().code() != errc::resource_exhausted) return std::move(queued).error();
  PENSTOCK_TRY(engine->begin_write(on));
  PENSTOCK_TRY(copy_to_slab(*engine, rows, to));
  return std::shared_ptr<device_copy>();
}

// Copies rows in device memory to rows of a slab, and waits.
result<> appender_state::copy_to_slab(cuda::device_engine& engine, const tensor_view& rows,
                                      const tensor_view& to) const {
  const std::uint32_t item_bytes = to.type.item_bytes();
  const strides c_order = c_order_strides(to.extents, item_bytes);
  if (to.strides == c_order) return cuda::copy_to_host(engine, rows, to.data);
  PENSTOCK_ASSIGN(const output_block room, to_.context()->state().outputs().take(to.extents[axis_] * row_bytes_));
  PENSTOCK_TRY(cuda::copy_to_host(engine, rows, room.data()));
  strided_copy(to.data, to.strides, room.data(), c_order, to.extents, item_bytes, 1);
  return {};
}

// Copies the rows before `end` that are in the memory of a device to their slab.
result<> appender_state::fetch_coming(guard& lock, slab& of, std::uint64_t end) const {
  while (!of.coming.empty() && of.coming.front().first < end) {
    coming_rows next = of.coming.front();
    const tensor_view to = part_of(of.rows, next.first, next.count);
    tensor_view from = tensor_view::contiguous(next.from->data(), to.type, to.extents);
    from.space = memory_space::cuda;
    lock.unlock();
    auto done = next.from->wait([] { return true; });
    if (done.ok()) done = copy_to_slab(next.from->engine(), from, to);
    lock.lock();
    PENSTOCK_TRY(std::move(done));
    of.coming.pop_front();
    lock.unlock();
    next = coming_rows();  // may wait for a lock of its owner
    lock.lock();
  }
  return {};
}

// A row that does not complete a row of objects waits for further rows, so it is accepted even if the queue is full.
bool appender_state::is_full(std::uint64_t more) const noexcept {
  const std::uint64_t left = queue_bytes_ - std::min(queue_bytes_, slab_bytes_ + item_bytes_);
  const bool over = more > left && slabs_.size() >= kLeastSlabs;
  if (!over && item_bytes_ <= queue_bytes_) return false;
  return busy_ || stalled_ || writable() > 0;
}

bool appender_state::fits_now(std::uint64_t rows) const noexcept {
  if (is_full(0)) return false;
  const std::uint64_t room = slabs_.empty() ? 0 : slabs_.back()->room();
  if (rows <= room) return true;
  const std::uint64_t slabs = (rows - room - 1) / slab_rows_ + 2;  // the first one may be shorter
  std::uint64_t bytes = 0;
  return checked_mul(slabs, std::max<std::uint64_t>(1, slab_rows_ * row_bytes_), bytes) &&
         bytes <= queue_bytes_ - std::min(queue_bytes_, slab_bytes_ + item_bytes_);
}

std::uint64_t appender_state::writable() const noexcept {
  if (slabs_.empty()) return 0;
  const slab& front = *slabs_.front();
  const std::uint64_t here = front.filled - front.written;
  if (wanted_ > written_) return here;
  const std::uint64_t last = (end_ + (taken_ - written_)) / unit_ * unit_;
  if (last <= end_) return 0;
  return std::min(here, last - end_);
}

// Slabs end at the ends of rows of objects.
std::uint64_t appender_state::next_capacity() const noexcept {
  return slab_rows_ - (end_ + (taken_ - written_)) % unit_;
}

std::optional<error> appender_state::take_errors() {
  std::optional<error> out;
  for (std::vector<error>* const from : {&errors_, &late_errors_}) {
    for (error& each : *from) {
      if (!out) {
        out.emplace(std::move(each));
      } else {
        out->note("another error: " + each.to_string());
      }
    }
    from->clear();
  }
  if (out) stalled_ = false;
  return out;
}

void appender_state::fail(error what) {
  errors_.push_back(std::move(what));
  stalled_ = true;
}

void appender_state::wake() {
  if (!running_) {
    try {
      std::thread([self = shared_from_this()] { serve(self); }).detach();
      running_ = true;
    } catch (const std::exception&) {  // of the system, or of the allocator: the rows are queued, so this returns
      fail(error(errc::resource_exhausted, "the system has no thread for an appender"));
    }
  }
  changed_.notify_all();
}

// Wakes the thread for the first rows that it can write, and when the queue is half full: it waits for more in between.
void appender_state::rows_came() {
  const bool is_first = !gathers_until_;
  if (is_first) gathers_until_ = clock::now() + kGathering;
  if (is_first || !running_ || is_half_full()) wake();
}

bool appender_state::is_half_full() const noexcept {
  return (taken_ - written_) * row_bytes_ + item_bytes_ >= queue_bytes_ / 2;
}

// Of the thread, if rows can be written.
bool appender_state::waits_for_more() const noexcept {
  if (is_awaited_ || wanted_ > written_ || is_half_full()) return false;
  return gathers_until_ && clock::now() < *gathers_until_;
}

result<> appender_state::add_slab(guard& lock) {
  const std::uint64_t capacity = next_capacity();
  lock.unlock();
  auto made = make_slab(capacity);
  lock.lock();
  PENSTOCK_ASSIGN(std::shared_ptr<slab> added, std::move(made));
  if (closed_) return closed_error();  // meanwhile
  slab_bytes_ += added->bytes;
  slabs_.push_back(std::move(added));
  return {};
}

// Copies rows to the last slab, which has space for them.
result<> appender_state::fill(guard& lock, const tensor_view& rows, std::uint64_t count,
                              const std::shared_ptr<const void>& keeps, std::optional<std::uintptr_t> stream) {
  const std::shared_ptr<slab> to = slabs_.back();
  copies_ = true;
  lock.unlock();
  coming_rows coming;
  // Without exceptions: `close` waits until nothing is copied.
  auto bytes = caught("copying rows", [&]() -> result<std::uint64_t> {
    const tensor_view here = part_of(to->rows, to->filled, count);
    if (rows.space == memory_space::host) {
      strided_copy(here.data, here.strides, rows.data, rows.strides, here.extents, rows.type.item_bytes(), 1);
    } else if (row_bytes_ != 0) {
      PENSTOCK_ASSIGN(std::shared_ptr<device_copy> made, copy_device_rows(rows, here, stream));
      if (made != nullptr) coming = {to->filled, count, keeps, std::move(made)};
    }
    if (!rows.type.variable_length()) return std::uint64_t{0};
    PENSTOCK_ASSIGN(const std::uint64_t copied, copy_items(*to, count, keeps != nullptr));
    if (keeps != nullptr) to->items.keep(keeps);
    return copied;
  });
  lock.lock();
  copies_ = false;
  if (closed_) changed_.notify_all();
  PENSTOCK_ASSIGN(const std::uint64_t item_bytes, std::move(bytes));
  to->item_bytes += item_bytes;
  item_bytes_ += item_bytes;
  if (coming.from != nullptr) to->coming.push_back(std::move(coming));
  to->filled += count;
  taken_ += count;
  // Items may have any size: their memory is released when a row of objects is written.
  const bool whole = (end_ + (taken_ - written_)) % unit_ == 0;
  if (whole && to->item_bytes > queue_bytes_ / kSlabsInQueue) to->capacity = to->filled;
  if (!stalled_ && writable() > 0) rows_came();
  return {};
}

result<bool> appender_state::append(const tensor_view& rows, const std::shared_ptr<const void>& keeps, bool may_wait,
                                    std::optional<std::uintptr_t> stream) {
  if (auto fine = check_value(rows, keeps.get(), may_wait); !fine.ok())
    return name_array(std::move(fine).error(), to_.state());
  const std::uint64_t count = rows.extents[axis_];
  std::uint64_t done = 0;
  guard lock(mutex_);
  const auto refused = [&](error why) -> error {
    if (done > 0) why.note(fmt::format("the first {} of {} rows were taken", done, count));
    return name_array(std::move(why), to_.state());
  };
  const auto interrupted = [] { return error(errc::cancelled, "the wait for earlier rows was interrupted"); };
  std::stop_source stop = stop_of_wait();
  if (appends_ && !may_wait) return false;
  wait_until(lock, append_ended_, stop, [&] { return !appends_ || stop.stop_requested(); });
  if (appends_) return refused(interrupted());
  const turn mine(lock, appends_, append_ended_);
  for (;;) {
    if (done > 0 && done == count) return true;  // also if a failure occurred while waiting: the rows are queued
    if (closed_) return refused(closed_error());
    if (stalled_ || broken_) {
      if (auto failed = take_errors()) return refused(std::move(*failed));
      return refused(error(errc::conflict, "this appender lost rows and accepts no more"));
    }
    if (done == count) return true;
    if (!may_wait && done == 0 && !fits_now(count)) return false;
    const bool no_room = slabs_.empty() || slabs_.back()->room() == 0;
    const std::uint64_t more = no_room ? std::max<std::uint64_t>(1, next_capacity() * row_bytes_) : 0;
    // Checked rows are accepted: the caller may hold a lock that the background thread needs.
    if (may_wait && is_full(more)) {
      is_awaited_ = true;
      wake();
      const auto goes_on = [&] { return !is_full(more) || stalled_ || broken_ || closed_; };
      wait_until(lock, changed_, stop, [&] { return goes_on() || stop.stop_requested(); });
      if (!goes_on()) return refused(interrupted());
      continue;
    }
    if (no_room) {
      if (auto added = add_slab(lock); !added.ok()) return refused(std::move(added).error());
    }
    std::uint64_t some = std::min(count - done, slabs_.back()->room());
    if (rows.type.variable_length()) some = std::min(some, unit_ - (end_ + (taken_ - written_)) % unit_);
    if (auto filled = fill(lock, part_of(rows, done, some), some, keeps, stream); !filled.ok())
      return refused(std::move(filled).error());
    done += some;
  }
}

result<array> appender_state::flush(bool close) {
  PENSTOCK_TRY(check_usable());
  const auto interrupted = [&] {
    return name_array(error(errc::cancelled, "the wait for earlier rows was interrupted"), to_.state());
  };
  guard lock(mutex_);
  std::stop_source stop = stop_of_wait();
  // Another thread's `close` stores all rows, unless it is interrupted.
  wait_until(lock, changed_, stop, [&] { return !closes_ || stop.stop_requested(); });
  if (closes_) return interrupted();
  if (!closed_) {
    std::optional<turn> mine;
    if (close) mine.emplace(lock, closes_, changed_);
    closed_ = close;
    // Rows that another thread is copying are taken, and stored. It copies no more after them.
    if (close) changed_.wait(lock, [&] { return !copies_; });
    const std::uint64_t wanted = taken_;
    const auto settled = [&] { return stored_ >= wanted || stalled_ || broken_; };
    if (!broken_) {
      stalled_ = false;  // failed rows are tried once more
      wanted_ = std::max(wanted_, wanted);
      if (!settled()) wake();
      wait_until(lock, changed_, stop, [&] { return settled() || stop.stop_requested(); });
    }
    if (!settled()) {
      closed_ = false;
      return interrupted();
    }
    if (stored_ >= wanted) errors_.clear();  // errors of attempts before the one that stored the rows
    std::optional<error> failed = take_errors();
    if (!failed && stored_ < wanted) failed.emplace(errc::conflict, "this appender lost rows");
    if (failed && stored_ < wanted)
      failed->note(fmt::format("{} of {} appended rows are not stored", wanted - stored_, wanted));
    if (close) {
      auto finished = finish(lock);
      if (!finished.ok() && !failed) failed.emplace(std::move(finished).error());
    }
    if (failed) return name_array(std::move(*failed), to_.state());
  }
  lock.unlock();
  return open_again(to_.state());
}

std::uint64_t appender_state::rows() const {
  const std::lock_guard lock(mutex_);
  return taken_;
}
std::uint64_t appender_state::stored_rows() const {
  const std::lock_guard lock(mutex_);
  return stored_;
}
std::uint64_t appender_state::queued_bytes() const {
  const std::lock_guard lock(mutex_);
  const std::uint64_t rows = taken_ - written_;
  return rows * row_bytes_ + item_bytes_;
}
bool appender_state::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace penstock::inline v0
