// The part of the engine that transfers a batch to the device: allocation in waves, copies, and the headers of its
// cells.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/nvtx.h"
#include "cuda/chain_split.h"
#include "cuda/device_engine.h"
#include "cuda/device_tables.h"

namespace penstock::inline v0::cuda {
namespace {

/// An idle device receives a wave that is not full, if it has at least this many cells, or the bytes below.
constexpr std::size_t kFewestCells = 256;
constexpr std::uint64_t kFewestBytes = std::uint64_t{32} << 20;
constexpr std::uint64_t kAlignment = 256;
constexpr unsigned kEndNumber = 31;  // the bit of the end stream in a read's set, after those of the decode streams

std::uint64_t decoded_room(const parcel_cell& cell) {
  return cell.chain->decodes_on_device() && !cell.direct ? round_up(cell.decoded_bytes, kAlignment) : 0;
}

}  // namespace

result<bool> device_engine::submit(read_slot& read, parcel& what, bool ends) {
  const current_context current(driver_, context_);
  const mutex_lock lock(mutex_);
  PENSTOCK_TRY(healthy());
  {
    const nvtx_scope range(nvtx_name::transfer);
    PENSTOCK_ASSIGN(const bool staged, stage_cells(read, what));
    if (!staged) return false;
    PENSTOCK_TRY(copy_plain(read, what));
    if (what.refused.empty()) PENSTOCK_TRY(release_block(read, what));
  }
  if (open_ != nullptr) {
    const std::uint64_t bytes = open_->used_bottom + open_->used_top + open_->block_bytes;
    const bool is_worth_it = open_->cells() >= kFewestCells || bytes >= kFewestBytes;
    const bool is_its_turn = is_worth_it && !open_->is_empty() && !waves_.any_queued();
    // Each wave has a share of the ring, and one more share remains for reading in the meantime.
    const bool has_its_share = open_->block_bytes != 0 && open_->block_bytes >= ring_.limit_bytes() / (kWaves + 1);
    if (is_its_turn || has_its_share) PENSTOCK_TRY(close_wave());
  }
  if (!ends) PENSTOCK_TRY(release_copied());
  return true;
}

result<bool> device_engine::submit_fill(read_slot& read, const placement& where, std::span<const std::byte> item) {
  const current_context current(driver_, context_);
  const mutex_lock lock(mutex_);
  PENSTOCK_TRY(healthy());
  for (;;) {
    PENSTOCK_ASSIGN(device_wave* const wave, open_wave(0, 0, 0));
    if (wave == nullptr) return false;
    const std::uint64_t moved = wave->moved_bytes;
    if (add_fill(*wave, where, item)) {
      share_of(*wave, read).moved_bytes += wave->moved_bytes - moved;
      if (wave->cells() + wave->coming >= kMostCells) PENSTOCK_TRY(close_wave());
      return true;
    }
    PENSTOCK_ASSIGN(const bool has_room, make_room_for_tables(*wave, 0));
    if (!has_room)
      return error(errc::resource_exhausted,
                   fmt::format("a wave has {} bytes (device_memory_limit), too few for the tables of a fill",
                               waves_.limit_bytes()));
  }
}

// ---- order ----

result<> device_engine::wait_for_starts(const read_slot& read, stream_ref stream) {
  const read_state& state = slots_.of(read);
  for (const event_ref each : state.starts)
    PENSTOCK_TRY(check(driver_.stream_wait_event(stream, each, 0), "cuStreamWaitEvent"));
  if (state.memory_ready == nullptr) return {};
  return check(driver_.stream_wait_event(stream, state.memory_ready, 0), "cuStreamWaitEvent");
}

// `which`: the stream's number in the read's set.
result<> device_engine::wait_for_start(read_slot& read, stream_ref stream, unsigned which) {
  unsigned& waited = slots_.of(read).waited;
  if ((waited >> which & 1) != 0) return {};
  waited |= 1U << which;
  return wait_for_starts(read, stream);
}

wave_share& device_engine::share_of(device_wave& wave, read_slot& read) {
  for (wave_share& each : wave.shares)
    if (each.read == &read) return each;
  return wave.shares.emplace_back(wave_share{&read, read.recorded_as, 0, 0, 0});
}

bool device_engine::has_share(const device_wave& wave, const read_slot& read) noexcept {
  return std::any_of(wave.shares.begin(), wave.shares.end(),
                     [&](const wave_share& each) { return each.read == &read; });
}

// A broken engine does not wait.
bool device_engine::is_closing_for(const read_slot& read) const {
  return !broken_ &&
         std::any_of(closing_.begin(), closing_.end(), [&](const device_wave* each) { return has_share(*each, read); });
}

// The result stream that the read ends on: an idle one if possible.
unsigned device_engine::end_of(read_slot& read) {
  std::optional<unsigned>& stream = slots_.of(read).end_stream;
  if (stream) return *stream;
  unsigned which = take_result_stream();
  for (unsigned tried = 1; tried < kResultStreams && !completions_.idle(kFirstResultNumber + which); ++tried)
    which = take_result_stream();
  stream = which;
  return which;
}

// ---- waves ----

// The size of a cell's bytes in a wave; they have the same layout there as in the batch.
std::uint64_t device_engine::encoded_room(const parcel& what, const parcel_cell& cell) const noexcept {
  return reads_in_place(what) ? 0 : round_up(cell.offset % kAlignment + cell.length, kAlignment);
}

// Used for a wave whose tables have no space for the next fill. Returns false if a wave has no more.
result<bool> device_engine::make_room_for_tables(device_wave& wave, std::uint64_t needed) {
  if (wave.is_empty()) return waves_.shrink(wave, needed);
  PENSTOCK_TRY(close_wave());
  return true;
}

// Null: no wave is free.
result<device_wave*> device_engine::open_wave(std::uint64_t encoded_bytes, std::uint64_t scratch_bytes,
                                              std::uint64_t likely_cells) {
  if (open_ != nullptr) {
    if (open_->fits(encoded_bytes, scratch_bytes)) return open_;
    if (!open_->is_empty()) {
      waves_.note_full(*open_);
      PENSTOCK_TRY(close_wave());
    } else {
      open_->now = device_wave::phase::free;
      open_ = nullptr;
    }
  }
  PENSTOCK_ASSIGN(open_, waves_.open(encoded_bytes + scratch_bytes, likely_cells));
  return open_;
}

// Returns false if no wave is free for the cells from `what.next` on. Only after the headers of a run are read is it
// known whether the wave has space for its tables. If it does not, the run is moved to the next wave; a run that does
// not fit into a whole wave is halved.
result<bool> device_engine::stage_cells(read_slot& read, parcel& what) {
  std::size_t most_cells = kMostCells;
  for (;;) {
    while (what.next < what.cells.size() && what.cells[what.next].plain) ++what.next;
    if (what.next == what.cells.size()) return true;
    const parcel_cell& first = what.cells[what.next];
    const std::uint64_t encoded = encoded_room(what, first), decoded = decoded_room(first);
    if (encoded + decoded > waves_.limit_bytes()) {
      PENSTOCK_TRY(leave_to_host(what, encoded + decoded));
      continue;
    }
    PENSTOCK_ASSIGN(device_wave* const wave, open_wave(encoded, decoded, read.likely_cells));
    if (wave == nullptr) return false;
    const cell_run run = run_that_fits(what, *wave, most_cells);
    PENSTOCK_ASSIGN(const bool added, stage_run(read, what, *wave, run));
    if (added) continue;
    if (!wave->is_empty()) {
      if (open_ == wave) PENSTOCK_TRY(close_wave());
    } else if (run.cells > 1) {
      most_cells = run.cells / 2;
    } else if (open_ == wave) {
      PENSTOCK_ASSIGN(const bool shrunk, waves_.shrink(*wave, encoded + decoded));
      if (!shrunk) PENSTOCK_TRY(leave_to_host(what, encoded + decoded));
    }
  }
}

// The cells from `what.next` on for whose bytes and decoded elements the wave has space; their tables are not
// considered.
device_engine::cell_run device_engine::run_that_fits(const parcel& what, const device_wave& wave,
                                                     std::size_t most_cells) const {
  const bool in_place = reads_in_place(what);
  cell_run out{what.cells[what.next].offset / kAlignment * kAlignment, 0, what.next, 0, 0, 0};
  out.end = out.begin;
  most_cells = std::min(most_cells, kMostCells - wave.cells() - wave.coming);
  for (; out.last < what.cells.size() && out.cells < most_cells; ++out.last) {
    const parcel_cell& each = what.cells[out.last];
    if (each.plain) continue;
    const std::uint64_t end_with = std::max(out.end, each.offset + each.length);
    const std::uint64_t scratch = out.scratch_bytes + decoded_room(each);
    const std::uint64_t encoded = in_place ? 0 : round_up(end_with - out.begin, kAlignment);
    if (each.offset < out.begin || !wave.fits(encoded, scratch)) break;
    out.end = end_with;
    out.scratch_bytes = scratch;
    if (each.chain->is_raw()) out.raw_bytes += each.length;
    ++out.cells;
  }
  return out;
}

// One for each thread that reads headers at the same time.
std::unique_ptr<cell_scan> device_engine::take_scan() {
  if (idle_scans_.empty()) return std::make_unique<cell_scan>();
  std::unique_ptr<cell_scan> out = std::move(idle_scans_.back());
  idle_scans_.pop_back();
  return out;
}

// Allocates a run of cells in the wave, queues the copy of its bytes (unless the device reads them in the ring), reads
// the headers without the lock, and adds the cells. The copy is queued first: it runs while the host reads headers.
// Returns false if the wave has no space for the tables; the wave is unchanged then, but may be closed.
result<bool> device_engine::stage_run(read_slot& read, parcel& what, device_wave& wave, const cell_run& run) {
  const bool in_place = reads_in_place(what);
  const device_address base = in_place ? reinterpret_cast<device_address>(what.block)
                                       : wave.memory.address + wave.used_bottom - run.begin;  // of the first byte
  device_address top = wave.memory.address + wave.memory.bytes / kAlignment * kAlignment - wave.used_top;
  if (run.end != run.begin && !in_place) {
    what.copied = true;
    timed_span* const span = spans_.begin(read.recorded_as, stage::transfer, kCopyWorker, copy_);
    PENSTOCK_TRY(check(driver_.copy_to_device(base + run.begin, what.data() + run.begin, run.end - run.begin, copy_),
                       "cuMemcpyHtoDAsync"));
    spans_.end(span, run.end - run.begin, run.raw_bytes, copy_);
    wave.used_bottom += round_up(run.end - run.begin, kAlignment);
  }
  wave.used_top += run.scratch_bytes;
  wave.coming += run.cells;
  if (wave.cells() + wave.coming >= kMostCells) PENSTOCK_TRY(close_wave());
  std::unique_ptr<cell_scan> scan = take_scan();
  const std::size_t refused_before = what.refused.size();
  {
    const mutex_unlock unlocked(mutex_);
    for (std::size_t i = what.next; i < run.last; ++i) {
      const parcel_cell& each = what.cells[i];
      if (each.plain) continue;
      const std::uint64_t scratch = decoded_room(each);
      top -= scratch;
      device_address decoded = base + each.offset;
      if (scratch != 0) {
        decoded = top;
      } else if (each.chain->decodes_on_device()) {
        decoded = each.item.to;
      }
      auto added = scan->add(what, i, base + each.offset, decoded, by_library_);
      // The host decides: it decodes the cell, or reports its error.
      if (!added.ok()) what.refused.push_back({i, added.error().message()});
    }
  }
  if (run.end != run.begin && !in_place) (void)wait_for_ordinary(what, copy_);  // `take_run` returns its error
  auto added = take_run(read, what, wave, run, *scan);
  scan->clear();
  idle_scans_.push_back(std::move(scan));
  if (added.ok() && *added) {
    what.next = run.last;
  } else {
    what.refused.resize(refused_before);
  }
  return added;
}

// Ends `stage_run`.
result<bool> device_engine::take_run(read_slot& read, const parcel& what, device_wave& wave, const cell_run& run,
                                     const cell_scan& scan) {
  wave.coming -= run.cells;
  PENSTOCK_TRY(healthy());
  const std::uint64_t decoded_before = wave.decoded_bytes, moved_before = wave.moved_bytes;
  auto added = scan.cells.empty() ? result<bool>(true) : add_cells(wave, what, scan, read.device);
  if (added.ok() && *added && !scan.cells.empty()) {
    wave_share& share = share_of(wave, read);
    share.encoded_bytes += run.end - run.begin;
    share.decoded_bytes += wave.decoded_bytes - decoded_before;
    share.moved_bytes += wave.moved_bytes - moved_before;
    if (reads_in_place(what)) hold_block(wave, what);
  }
  // Later copies reuse the memory, after the copies that are no longer needed.
  if (wave.is_empty()) wave.used_bottom = wave.used_top = 0;
  if (wave.now == device_wave::phase::closing && wave.coming == 0) {
    std::erase(closing_, &wave);
    auto queued = queue_wave(wave);
    closed_.notify_all();
    PENSTOCK_TRY(std::move(queued));
  }
  return added;
}

// Until the device is done with the wave, because its kernels read there.
void device_engine::hold_block(device_wave& wave, const parcel& what) {
  if (std::find(wave.blocks.begin(), wave.blocks.end(), what.block) != wave.blocks.end()) return;
  ring_.share(what.block);
  wave.blocks.push_back(what.block);
  wave.block_bytes += what.bytes;
  if (&wave == open_) open_has_blocks_.store(true, std::memory_order_relaxed);
}

// The next cell needs more than a wave has. If the host decodes it, it needs less, or no wave.
result<> device_engine::leave_to_host(parcel& what, std::uint64_t needed) {
  error why(errc::resource_exhausted, fmt::format("the chunk needs {} bytes on the device, plus tables; a wave has {} "
                                                  "(device_memory_limit)",
                                                  needed, waves_.limit_bytes()));
  if (!what.cells[what.next].chain->decodes_on_device()) {
    what.failed = what.next;
    return why;
  }
  what.refused.push_back({what.next, why.message()});
  ++what.next;
  return {};
}

// ---- copies ----

// Cells whose bytes are the elements are copied directly to their destination, on the stream of the read's end: waiting
// for this read's destination does not delay copies of other reads.
result<> device_engine::copy_plain(read_slot& read, parcel& what) {
  std::uint64_t bytes = 0, raw_bytes = 0;
  run_targets_.clear();
  run_sources_.clear();
  run_bytes_.clear();
  for (const parcel_cell& each : what.cells) {
    if (!each.plain) continue;
    const device_address from = reinterpret_cast<device_address>(what.data() + each.offset);
    // Cells that are adjacent on both sides are one copy.
    if (!run_bytes_.empty() && run_targets_.back() + run_bytes_.back() == each.item.to &&
        run_sources_.back() + run_bytes_.back() == from) {
      run_bytes_.back() += each.length;
    } else {
      run_targets_.push_back(each.item.to);
      run_sources_.push_back(from);
      run_bytes_.push_back(each.length);
    }
    bytes += each.length;
    if (each.chain->is_raw()) raw_bytes += each.length;
  }
  if (run_bytes_.empty()) return {};
  const stream_ref end = result_[end_of(read)];
  PENSTOCK_TRY(wait_for_start(read, end, kEndNumber));
  timed_span* const span = spans_.begin(read.recorded_as, stage::transfer, kCopyWorker, end);
  what.copied_at_end = true;
  PENSTOCK_TRY(copy_runs(what, end));
  spans_.end(span, bytes, raw_bytes, end);
  return wait_for_ordinary(what, end);
}

// After a copy from a batch in ordinary memory, which is used again. CUDA promises that the driver has read it only if
// it stages the bytes. The lock is released meanwhile.
result<> device_engine::wait_for_ordinary(const parcel& what, stream_ref stream) {
  if (what.block != nullptr || !reads_ordinary_later_) return {};
  driver_status status = kSuccess;
  {
    const mutex_unlock unlocked(mutex_);
    status = driver_.stream_synchronize(stream);
  }
  return check(status, "cuStreamSynchronize");
}

// A batched copy is for page-locked memory: it may read its sources after the call returns. If the driver refuses one,
// copies are queued one by one from then on; those that it has queued already copy the same bytes twice.
result<> device_engine::copy_runs(parcel& what, stream_ref stream) {
  if (driver_.copy_batch != nullptr && !batch_refused_ && run_bytes_.size() > 1 && what.block != nullptr) {
    copy_attributes attributes;
    std::size_t first = 0, failed = 0;  // the attributes apply to all copies from the first one on
    const driver_status status = driver_.copy_batch(run_targets_.data(), run_sources_.data(), run_bytes_.data(),
                                                    run_bytes_.size(), &attributes, &first, 1, &failed, stream);
    batch_refused_ = status == kNotSupported || status == kInvalidValue;
    if (!batch_refused_) return check(status, "cuMemcpyBatchAsync");
  }
  for (std::size_t i = 0; i < run_bytes_.size(); ++i)
    PENSTOCK_TRY(check(
        driver_.copy_to_device(run_targets_[i], reinterpret_cast<const void*>(run_sources_[i]), run_bytes_[i], stream),
        "cuMemcpyHtoDAsync"));
  return {};
}

result<> device_engine::fill(const std::byte* from, std::uint64_t bytes, const device_block& to, std::byte* block) {
  const current_context current(driver_, context_);
  PENSTOCK_TRY(queue_fill(from, bytes, to, block));
  if (block != nullptr || !reads_ordinary_later_) return {};
  return driver_.check(driver_.event_synchronize(to.ready), "cuEventSynchronize");
}

result<> device_engine::queue_fill(const std::byte* from, std::uint64_t bytes, const device_block& to,
                                   std::byte* block) {
  const mutex_lock lock(mutex_);
  PENSTOCK_TRY(healthy());  // the memory of the ring is not reused after a failure
  const unsigned which = take_result_stream();
  const stream_ref on = result_[which];
  PENSTOCK_ASSIGN(const event_ref copied, new_event());
  PENSTOCK_TRY(check(driver_.stream_wait_event(on, to.ready, 0), "cuStreamWaitEvent"));
  PENSTOCK_TRY(check(driver_.copy_to_device(to.address, from, bytes, on), "cuMemcpyHtoDAsync"));
  PENSTOCK_TRY(check(driver_.event_record(to.ready, on), "cuEventRecord"));
  PENSTOCK_TRY(check(driver_.event_record(copied, on), "cuEventRecord"));
  completions_.push(kFirstResultNumber + which, {copied, true, block, nullptr, nullptr});
  return {};
}

result<> device_engine::release_block(read_slot& read, parcel& what) {
  if (what.block == nullptr) return {};  // ordinary memory has been read
  if (!what.copied && !what.copied_at_end) {
    give_block(std::exchange(what.block, nullptr));  // waves own the block, or it has no owner
    return {};
  }
  if (!what.copied_at_end) {
    copied_.push_back(std::exchange(what.block, nullptr));
    return {};
  }
  const unsigned number = end_of(read);
  const stream_ref end = result_[number];
  if (what.copied) {
    PENSTOCK_TRY(check(driver_.event_record(order_, copy_), "cuEventRecord"));
    PENSTOCK_TRY(check(driver_.stream_wait_event(end, order_, 0), "cuStreamWaitEvent"));
  }
  PENSTOCK_ASSIGN(const event_ref copied, new_event());
  PENSTOCK_TRY(check(driver_.event_record(copied, end), "cuEventRecord"));
  completions_.push(kFirstResultNumber + number, {copied, true, std::exchange(what.block, nullptr), nullptr, nullptr});
  return {};
}

// One event for all blocks that were copied from since the last one.
result<> device_engine::release_copied() {
  if (copied_.empty()) return {};
  PENSTOCK_ASSIGN(const event_ref event, new_event());
  PENSTOCK_TRY(check(driver_.event_record(event, copy_), "cuEventRecord"));
  push_copied(event);
  return {};
}

void device_engine::push_copied(event_ref event) {
  for (std::byte* const each : copied_) completions_.push(kCopyNumber, {event, false, each, nullptr, nullptr});
  copied_.clear();
  completions_.push(kCopyNumber, {event, true, nullptr, nullptr, nullptr});
}

}  // namespace penstock::inline v0::cuda
