#include "cuda/device_engine.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/nvtx.h"
#include "cuda/device_read.h"
#include "cuda/device_tables.h"
#include "cuda/move_plan.h"
#include "engine/read_job.h"

namespace penstock::inline v0::cuda {
namespace {

constexpr std::uint64_t kMostDefaultWaves = std::uint64_t{6} << 30;
/// A device that has nothing to do is given a wave that is not full: of so many cells, or so many bytes.
constexpr std::size_t kFewestCells = 256;
constexpr std::uint64_t kFewestBytes = std::uint64_t{32} << 20;
/// Device memory that each stream of writes gathers into.
constexpr std::uint64_t kStagingBytes = std::uint64_t{8} << 20;
constexpr std::uint64_t kAlignment = 256;
/// As many parcels as are usually on their way.
constexpr std::size_t kEventsAtOnce = 256;
constexpr unsigned kEndNumber = 31;  // the stream of its end, beside the decode streams, in a read's set

std::uint64_t memory_limit_of(const driver& with, context_ref context, std::uint64_t asked) {
  if (asked != 0) return asked;
  const current_context current(with, context);
  std::size_t free = 0, total = 0;
  if (with.mem_get_info(&free, &total) != kSuccess) total = std::size_t{8} << 30;
  return std::min<std::uint64_t>(total / 8, kMostDefaultWaves);
}

// Of each stream of writes.
std::uint64_t staging_bytes_of(std::uint64_t limit) {
  return std::max(kAlignment, std::min(kStagingBytes, limit / 16) / kAlignment * kAlignment);
}

// What nvCOMP may leave to the device's own decompression engine: what both know, up to the engine's longest stream.
std::array<std::uint64_t, device::kNvcompCodecs> decompression_engine_of(const driver& with, int ordinal,
                                                                         const device::nvcomp* library) {
  std::array<std::uint64_t, device::kNvcompCodecs> out{};
  device_number device = 0;
  int formats = 0, most = 0;
  if (library == nullptr || with.device_get(&device, ordinal) != kSuccess ||
      with.device_get_attribute(&formats, kAttributeDecompressFormats, device) != kSuccess ||
      with.device_get_attribute(&most, kAttributeDecompressMostBytes, device) != kSuccess || most <= 0)
    return out;
  using device::nvcomp_codec;
  for (const auto& [codec, format] :
       {std::pair{nvcomp_codec::lz4, kDecompressLz4}, std::pair{nvcomp_codec::snappy, kDecompressSnappy},
        std::pair{nvcomp_codec::deflate, kDecompressDeflate}, std::pair{nvcomp_codec::gzip, kDecompressDeflate}})
    if ((formats & format) != 0 && library->uses_engine(codec))
      out[static_cast<std::size_t>(codec)] = static_cast<std::uint64_t>(most);
  return out;
}

// What a cell's bytes take of a wave; they lie there as they lie in the parcel.
std::uint64_t encoded_room(const parcel_cell& cell) {
  return round_up(cell.offset % kAlignment + cell.length, kAlignment);
}
std::uint64_t decoded_room(const parcel_cell& cell) {
  return cell.chain->decodes_on_device() && !cell.direct ? round_up(cell.decoded_bytes, kAlignment) : 0;
}

}  // namespace

result<std::shared_ptr<device_engine>> device_engine::make(int ordinal, const device_options& options) {
  PENSTOCK_ASSIGN(const driver* const with, load_driver());
  if (ordinal < 0 || ordinal >= with->devices)
    return error(errc::invalid_argument,
                 fmt::format("there is no device cuda:{}: the driver finds {}", ordinal, with->devices));
  if (options.nvcomp != nullptr && options.nvcomp->cuda_major() > static_cast<unsigned>(with->version) / 1000)
    return error(errc::unsupported,
                 fmt::format("nvCOMP {} is of CUDA {}, the driver of {}.{}: install the one for an earlier CUDA",
                             options.nvcomp->version(), options.nvcomp->cuda_major(), with->version / 1000,
                             with->version % 1000 / 10));
  device_number device = 0;
  PENSTOCK_TRY(with->check(with->device_get(&device, ordinal), "cuDeviceGet"));
  context_ref context = nullptr;
  PENSTOCK_TRY(with->check(with->primary_context_retain(&context, device), "cuDevicePrimaryCtxRetain"));
  fork_clock::start();
  // A forked process leaks its parent's engine.
  std::shared_ptr<device_engine> made(new device_engine(*with, ordinal, device, context, options),
                                      [](device_engine* engine) {
                                        if (!engine->is_of_parent()) delete engine;
                                      });
  PENSTOCK_TRY(made->start());
  if (options.allocator) {
    const current_context current(*with, context);
    PENSTOCK_TRY(with->check(with->stream_create(&made->peer_, kStreamNonBlocking), "cuStreamCreate"));
    made->pool_.use(options.allocator, ordinal, made->peer_);
  }
  return made;
}

device_engine::device_engine(const driver& with, int ordinal, device_number device, context_ref context,
                             const device_options& options)
    : driver_(with),
      ordinal_(ordinal),
      device_(device),
      context_(context),
      memory_limit_(memory_limit_of(with, context, options.device_memory_bytes)),
      staging_bytes_(staging_bytes_of(memory_limit_)),
      nvcomp_(options.nvcomp),
      ring_(with, context, options.page_locked_bytes == 0 ? kDefaultPageLockedBytes : options.page_locked_bytes),
      pool_(with, context, memory_limit_of(with, context, 0) * 2),
      waves_(with, (memory_limit_ - std::min(memory_limit_, kWriteStreams * staging_bytes_)) / kWaves) {}

result<> device_engine::start() {
  const current_context current(driver_, context_);
  PENSTOCK_TRY(kernels_.load());
  const auto make_stream = [&](stream_ref& out) {
    return driver_.check(driver_.stream_create(&out, kStreamNonBlocking), "cuStreamCreate");
  };
  PENSTOCK_TRY(make_stream(copy_));
  for (stream_ref& each : decode_) PENSTOCK_TRY(make_stream(each));
  PENSTOCK_TRY(make_stream(beside_));
  for (stream_ref& each : result_) PENSTOCK_TRY(make_stream(each));
  for (stream_ref& each : write_) PENSTOCK_TRY(make_stream(each));
  const auto make_event = [&](event_ref& out, unsigned flags) {
    return driver_.check(driver_.event_create(&out, flags), "cuEventCreate");
  };
  const auto engine_bytes = decompression_engine_of(driver_, ordinal_, nvcomp_);
  PENSTOCK_TRY(make_event(order_, kEventDisableTiming));
  PENSTOCK_TRY(make_events());
  PENSTOCK_TRY(
      waves_.start(kWaves, {nvcomp_, std::min(device::kMostLibraryBytes, waves_.limit_bytes() / 4), engine_bytes}));
  PENSTOCK_TRY(spans_.start(copy_));
  completions_.start(context_, [this] { collect(); });
  return {};
}

device_engine::~device_engine() {
  {
    completions_.stop();
    const current_context current(driver_, context_);
    for (const stream_ref each : streams()) driver_.stream_synchronize(each);
    for (wave_memory& each : staging_) (void)waves_.resize(each, 0);
    waves_.clear();
    reports_.clear();
    for (const event_ref each : free_events_) driver_.event_destroy(each);
    spans_.clear();
    if (order_ != nullptr) driver_.event_destroy(order_);
    for (const stream_ref each : streams()) driver_.stream_destroy(each);
    kernels_.unload();
    pool_.clear();
    ring_.clear();
  }
  driver_.primary_context_release(device_);
}

// Those that were made.
std::vector<stream_ref> device_engine::streams() const {
  std::vector<stream_ref> out;
  const auto add = [&](std::span<const stream_ref> some) {
    for (const stream_ref each : some)
      if (each != nullptr) out.push_back(each);
  };
  add({&copy_, 1});
  add(decode_);
  add({&beside_, 1});
  add(result_);
  add({&peer_, 1});
  add(write_);
  return out;
}

result<> device_engine::check(driver_status status, std::string_view call) {
  if (status == kSuccess) [[likely]]
    return {};
  error what = driver_.failure(status, call).note(fmt::format("on device cuda:{}", ordinal_));
  break_with(what);
  return what;
}

// Blocks that the device has may never come back: whoever waits for room does not any more, and is told why.
void device_engine::break_with(const error& what) {
  if (broken_) return;
  broken_.emplace(what.clone());
  completions_.abandon();
  ring_.close();
  tell_freed();
}

result<> device_engine::healthy() const {
  if (!broken_) [[likely]]
    return {};
  return broken_->clone().note(
      "an earlier call of the driver failed; clear() of the context, or a new one, starts afresh");
}

device_usage device_engine::usage() const {
  return {ring_.held_bytes() + waves_.tables_bytes(), waves_.held_bytes(), pool_.held_bytes()};
}

bool device_engine::clear() {
  const current_context current(driver_, context_);
  collect();
  pool_.clear();
  const std::lock_guard lock(mutex_);
  if (broken_) return false;
  waves_.trim();
  return true;
}

// ---- reads ----

result<report_slot*> device_engine::take_report() {
  PENSTOCK_TRY(outcome_of_handed(false));
  const std::lock_guard lock(mutex_);
  PENSTOCK_TRY(healthy());
  if (report_slot* const zero = reports_.take_zero()) return zero;
  const current_context current(driver_, context_);
  note_reached();
  return reports_.take(copy_);
}

void device_engine::give_report(report_slot* slot) noexcept {
  const std::lock_guard lock(mutex_);
  reports_.give(slot);
}

void device_engine::watch(report_slot* slot, std::function<error(const failure_report&)> describe) {
  const std::lock_guard lock(mutex_);
  reports_.watch(slot, std::move(describe));
}

void device_engine::unwatch(report_slot* slot) noexcept {
  const std::lock_guard lock(mutex_);
  reports_.unwatch(slot);
}

result<> device_engine::outcome_of_handed(bool wait) {
  std::vector<event_ref> ends;
  if (wait) {
    const std::lock_guard lock(mutex_);
    ends = reports_.watched_ends();
  }
  if (!ends.empty()) {
    const current_context current(driver_, context_);
    for (const event_ref each : ends)
      PENSTOCK_TRY(driver_.check(driver_.event_synchronize(each), "cuEventSynchronize"));
  }
  const std::lock_guard lock(mutex_);
  if (wait || reports_.watches_queued()) {
    const current_context current(driver_, context_);
    note_reached();
  }
  return reports_.outcome();
}

result<> device_engine::make_events() {
  for (std::size_t i = 0; i < kEventsAtOnce; ++i) {
    event_ref event = nullptr;
    PENSTOCK_TRY(driver_.check(driver_.event_create(&event, kEventDisableTiming), "cuEventCreate"));
    free_events_.push_back(event);
  }
  return {};
}

// Needs the lock.
result<event_ref> device_engine::new_event() {
  if (free_events_.empty()) note_reached();
  if (free_events_.empty()) PENSTOCK_TRY(make_events());
  const event_ref event = free_events_.back();
  free_events_.pop_back();
  return event;
}

result<event_ref> device_engine::take_event_at(stream_ref stream) {
  const current_context current(driver_, context_);
  const std::lock_guard lock(mutex_);
  PENSTOCK_ASSIGN(const event_ref event, new_event());
  if (const driver_status status = driver_.event_record(event, stream); status != kSuccess) {
    free_events_.push_back(event);
    return driver_.failure(status, "cuEventRecord").note("on the stream that was given");
  }
  return event;
}

void device_engine::give_event(event_ref event) noexcept {
  const std::lock_guard lock(mutex_);
  free_events_.push_back(event);
}

result<> device_engine::wait_for_start(device_read& read, stream_ref stream, unsigned which) {
  if (!read.first_on(which)) return {};
  return read.for_each_start(
      [&](event_ref each) { return check(driver_.stream_wait_event(stream, each, 0), "cuStreamWaitEvent"); });
}

wave_share& device_engine::share_of(device_wave& wave, device_read& read) {
  for (wave_share& each : wave.shares)
    if (each.read == &read) return each;
  return wave.shares.emplace_back(wave_share{&read, read.recorded_as(), 0, 0, 0});
}

result<bool> device_engine::submit(device_read& read, parcel& what, bool ends) {
  const current_context current(driver_, context_);
  const std::lock_guard lock(mutex_);
  PENSTOCK_TRY(healthy());
  {
    const nvtx_scope range(nvtx_name::transfer);
    PENSTOCK_ASSIGN(const bool staged, stage_cells(read, what));
    if (!staged) return false;
    PENSTOCK_TRY(copy_plain(read, what));
    if (what.refused.empty()) PENSTOCK_TRY(release_block(read, what));
  }
  if (open_ != nullptr) {
    const bool is_worth_it = open_->cells() >= kFewestCells || open_->used_bottom + open_->used_top >= kFewestBytes;
    if (open_->cells() >= kMostCells || (is_worth_it && !waves_.any_queued())) PENSTOCK_TRY(close_wave());
  }
  if (!ends) PENSTOCK_TRY(release_copied());
  return true;
}

result<bool> device_engine::submit_fill(device_read& read, const placement& where, std::span<const std::byte> item) {
  const current_context current(driver_, context_);
  const std::lock_guard lock(mutex_);
  PENSTOCK_TRY(healthy());
  for (;;) {
    PENSTOCK_ASSIGN(device_wave* const wave, open_wave(0, 0, 0));
    if (wave == nullptr) return false;
    const std::uint64_t moved = wave->moved_bytes;
    if (add_fill(*wave, where, item)) {
      share_of(*wave, read).moved_bytes += wave->moved_bytes - moved;
      if (open_->cells() >= kMostCells) PENSTOCK_TRY(close_wave());
      return true;
    }
    PENSTOCK_ASSIGN(const bool has_room, make_room_for_tables(*wave, 0));
    if (!has_room)
      return error(errc::resource_exhausted,
                   fmt::format("a wave has {} bytes (device_memory_limit), which is too little for a fill's tables",
                               waves_.limit_bytes()));
  }
}

// The engine may still be copying from the block; where it is broken nobody can say until when.
void device_engine::drop(device_read& read, parcel& what) noexcept {
  if (what.block == nullptr) return;
  const current_context current(driver_, context_);
  const std::lock_guard lock(mutex_);
  const bool copied = what.copied || what.copied_at_end;
  if (copied && broken_) {
    what.block = nullptr;
  } else if (copied) {
    if (release_block(read, what).ok()) (void)release_copied();
  } else {
    give_block(std::exchange(what.block, nullptr));
  }
}

void device_engine::give_block(std::byte* block) noexcept {
  ring_.give(block);
  tell_freed();
}

result<> device_engine::finish(device_read& read) {
  const current_context current(driver_, context_);
  const std::lock_guard lock(mutex_);
  PENSTOCK_TRY(healthy());
  if (open_ != nullptr && std::any_of(open_->shares.begin(), open_->shares.end(),
                                      [&](const wave_share& each) { return each.read == &read; }))
    PENSTOCK_TRY(close_wave());
  PENSTOCK_TRY(release_copied());
  const unsigned which = end_of(read);
  const stream_ref end = result_[which];
  // The last wave of a decode stream ends after all others there, and each wave after the copies that it needs. If the
  // host knows that the last one has ended (the wave is free, or used again), then there is nothing to wait for.
  bool decodes = false;
  for (unsigned i = 0; i < kDecodeStreams; ++i) {
    if ((read.used_streams() >> i & 1) == 0) continue;
    decodes = true;
    if (const device_wave& last = *last_[i]; last.now == device_wave::phase::queued && last.stream == i)
      PENSTOCK_TRY(check(driver_.stream_wait_event(end, last.done, 0), "cuStreamWaitEvent"));
  }
  // Where nothing was written, what came before the read still comes before its end.
  if (read.used_streams() == 0) {
    PENSTOCK_TRY(read.for_each_start(
        [&](event_ref each) { return check(driver_.stream_wait_event(end, each, 0), "cuStreamWaitEvent"); }));
  }
  report_slot& report = read.report();
  // Without a kernel nothing can have failed.
  if (decodes)
    PENSTOCK_TRY(
        check(driver_.copy_to_host(report.host, report.device, sizeof(failure_report), end), "cuMemcpyDtoHAsync"));
  PENSTOCK_TRY(check(driver_.event_record(report.done, end), "cuEventRecord"));
  report.used = report.queued = true;
  completions_.push(kFirstResultNumber + which, {report.done, false, nullptr, nullptr, &report});
  return {};
}

bool device_engine::record_end(event_ref event, const device_read* read, bool handed) {
  const std::lock_guard lock(mutex_);
  if (broken_) return false;
  // All that the context was given so far.
  if (driver_.context_record_event != nullptr && driver_.context_record_event(context_, event) == kSuccess) return true;
  // The streams of others may be gone by now.
  if (handed) return false;
  const stream_ref end = result_[take_result_stream()];
  if (read != nullptr && read->report().used && driver_.stream_wait_event(end, read->report().done, 0) != kSuccess)
    return false;
  return driver_.event_record(event, end) == kSuccess;
}

void device_engine::wait_for_all() noexcept {
  const current_context current(driver_, context_);
  driver_.context_synchronize();
}

// ---- waves ----

// For a wave that had none for the next cell, or fill, whose bytes need `needed`. False: a wave has no more.
result<bool> device_engine::make_room_for_tables(device_wave& wave, std::uint64_t needed) {
  if (wave.cells() != 0) {
    PENSTOCK_TRY(close_wave());
    return true;
  }
  return waves_.shrink(wave, needed);
}

// Null: none is free.
result<device_wave*> device_engine::open_wave(std::uint64_t encoded_bytes, std::uint64_t scratch_bytes,
                                              std::uint64_t likely_cells) {
  if (open_ != nullptr) {
    if (open_->fits(encoded_bytes, scratch_bytes)) return open_;
    if (open_->cells() != 0) {
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

// False: no wave is free for the cells from `what.next` on.
result<bool> device_engine::stage_cells(device_read& read, parcel& what) {
  for (;;) {
    while (what.next < what.cells.size() && what.cells[what.next].plain) ++what.next;
    if (what.next == what.cells.size()) return true;
    const parcel_cell& first = what.cells[what.next];
    const std::uint64_t encoded = encoded_room(first), decoded = decoded_room(first);
    if (encoded + decoded > waves_.limit_bytes()) {
      PENSTOCK_TRY(leave_to_host(read, what, encoded + decoded));
      continue;
    }
    PENSTOCK_ASSIGN(device_wave* const wave, open_wave(encoded, decoded, read.total_cells()));
    if (wave == nullptr) return false;
    const std::size_t before = what.next;
    PENSTOCK_TRY(stage_run(read, what, *wave));
    if (wave->cells() >= kMostCells) PENSTOCK_TRY(close_wave());
    if (what.next != before) continue;
    PENSTOCK_ASSIGN(const bool has_room, make_room_for_tables(*wave, encoded + decoded));
    if (!has_room) PENSTOCK_TRY(leave_to_host(read, what, encoded + decoded));
  }
}

// The cells from `what.next` on whose bytes and decoded elements the wave has room for, whether it has some for their
// tables or not.
device_engine::cell_run device_engine::run_that_fits(const parcel& what, const device_wave& wave) {
  cell_run out{what.cells[what.next].offset / kAlignment * kAlignment, 0, what.next, 0};
  out.end = out.begin;
  std::uint64_t scratch = 0;
  for (std::size_t cells = wave.cells(); out.last < what.cells.size() && cells < kMostCells; ++out.last) {
    const parcel_cell& each = what.cells[out.last];
    if (each.plain) continue;
    const std::uint64_t end_with = std::max(out.end, each.offset + each.length);
    scratch += decoded_room(each);
    if (each.offset < out.begin || !wave.fits(round_up(end_with - out.begin, kAlignment), scratch)) break;
    out.end = end_with;
    if (each.chain->is_raw()) out.raw_bytes += each.length;
    ++cells;
  }
  return out;
}

// Copies the bytes of a run of cells to the wave and adds the cells, as far as it has room for their tables. The copy
// comes first: the device has it while the host scans headers.
result<> device_engine::stage_run(device_read& read, parcel& what, device_wave& wave) {
  const cell_run run = run_that_fits(what, wave);
  const device_address base = wave.memory.address + wave.used_bottom - run.begin;  // of the parcel's first byte
  if (run.end != run.begin) {
    what.copied = true;
    timed_span* const span = spans_.begin(read.recorded_as(), stage::transfer, kCopyWorker, copy_);
    PENSTOCK_TRY(check(driver_.copy_to_device(base + run.begin, what.data() + run.begin, run.end - run.begin, copy_),
                       "cuMemcpyHtoDAsync"));
    spans_.end(span, run.end - run.begin, run.raw_bytes, copy_);
  }
  const std::uint64_t decoded_before = wave.decoded_bytes, moved_before = wave.moved_bytes;
  bool added_any = false;
  for (; what.next < run.last; ++what.next) {
    const parcel_cell& each = what.cells[what.next];
    if (each.plain) continue;
    const std::uint64_t scratch = decoded_room(each);
    device_address decoded = base + each.offset;
    if (scratch != 0) {
      decoded = wave.memory.address + wave.memory.bytes / kAlignment * kAlignment - wave.used_top - scratch;
    } else if (each.chain->decodes_on_device()) {
      decoded = each.item.to;
    }
    const std::span<const std::byte> bytes(what.data() + each.offset, static_cast<std::size_t>(each.length));
    auto added = add_cell(wave, what, each, {bytes, base + each.offset, decoded}, read.report().device);
    if (!added.ok()) {
      // The host has the last word: it decodes the cell, or says what is wrong with it.
      what.refused.push_back({what.next, added.error().message()});
      continue;
    }
    if (!*added) break;
    wave.used_top += scratch;
    added_any = true;
  }
  if (!added_any) return {};  // what is copied next goes to the same place, after this copy
  wave_share& share = share_of(wave, read);
  share.encoded_bytes += run.end - run.begin;
  share.decoded_bytes += wave.decoded_bytes - decoded_before;
  share.moved_bytes += wave.moved_bytes - moved_before;
  wave.used_bottom += round_up(run.end - run.begin, kAlignment);
  return {};
}

// The next cell needs more than a wave has: what the host decodes needs less, or no wave at all.
result<> device_engine::leave_to_host(device_read& read, parcel& what, std::uint64_t needed) {
  const parcel_cell& cell = what.cells[what.next];
  error why(errc::resource_exhausted,
            fmt::format("the chunk needs {} bytes on the device and tables beside them, a wave has {} "
                        "(device_memory_limit)",
                        needed, waves_.limit_bytes()));
  if (!cell.chain->decodes_on_device()) return read.name_cell(std::move(why), cell.note);
  what.refused.push_back({what.next, why.message()});
  ++what.next;
  return {};
}

// Which of the result streams ends the read: one that has nothing to do, where there is one.
unsigned device_engine::end_of(device_read& read) {
  if (read.end_stream()) return *read.end_stream();
  unsigned which = take_result_stream();
  for (unsigned tried = 1; tried < kResultStreams && !completions_.idle(kFirstResultNumber + which); ++tried)
    which = take_result_stream();
  read.set_end_stream(which);
  return which;
}

// Cells whose bytes are the elements go straight where they belong, on the stream of the read's end: what the read has
// to wait for holds up no other read's copies.
result<> device_engine::copy_plain(device_read& read, parcel& what) {
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
  timed_span* const span = spans_.begin(read.recorded_as(), stage::transfer, kCopyWorker, end);
  what.copied_at_end = true;
  PENSTOCK_TRY(copy_runs(what, end));
  spans_.end(span, bytes, raw_bytes, end);
  return {};
}

// A batch is for page-locked memory: it may read its sources after it returns.
result<> device_engine::copy_runs(parcel& what, stream_ref stream) {
  if (driver_.copy_batch != nullptr && run_bytes_.size() > 1 && what.block != nullptr) {
    copy_attributes attributes;
    std::size_t first = 0, failed = 0;  // the attributes are of all copies from the first
    return check(driver_.copy_batch(run_targets_.data(), run_sources_.data(), run_bytes_.data(), run_bytes_.size(),
                                    &attributes, &first, 1, &failed, stream),
                 "cuMemcpyBatchAsync");
  }
  for (std::size_t i = 0; i < run_bytes_.size(); ++i)
    PENSTOCK_TRY(check(
        driver_.copy_to_device(run_targets_[i], reinterpret_cast<const void*>(run_sources_[i]), run_bytes_[i], stream),
        "cuMemcpyHtoDAsync"));
  return {};
}

result<> device_engine::release_block(device_read& read, parcel& what) {
  if (what.block == nullptr) return {};  // the driver has read ordinary memory by now
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

// One event for the blocks that were copied from since the last one.
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

// ---- completions ----

void device_engine::collect() noexcept {
  const current_context current(driver_, context_);
  const std::lock_guard lock(mutex_);
  note_reached();
}

// Needs the lock.
void device_engine::note_reached() noexcept {
  reached_.clear();
  const driver_status status = completions_.take_reached(reached_);
  for (const completion& each : reached_) {
    if (each.owns_event) free_events_.push_back(each.event);
    if (each.block != nullptr) ring_.give(each.block);
    if (each.report != nullptr) each.report->queued = false;
    if (each.wave == nullptr) continue;
    spans_.record(*each.wave);
    each.wave->now = device_wave::phase::free;
  }
  if (!reached_.empty()) {
    spans_.collect();
    tell_freed();
  }
  if (status != kSuccess) (void)check(status, "cuEventQuery");
}

// Whoever frees does so for all: others may wait for the same.
void device_engine::tell_freed() noexcept {
  const std::lock_guard lock(listeners_mutex_);
  freed_.fetch_add(1, std::memory_order_release);
  for (read_job* const each : listeners_) each->nudge();
}

void device_engine::add_listener(read_job* job) {
  const std::lock_guard lock(listeners_mutex_);
  listeners_.push_back(job);
}

void device_engine::remove_listener(read_job* job) noexcept {
  const std::lock_guard lock(listeners_mutex_);
  std::erase(listeners_, job);
}

// ---- profiles ----

// For the end of a profile: what was queued belongs to it.
void device_engine::settle() noexcept {
  const current_context current(driver_, context_);
  std::vector<timed_span*> ended;
  {
    const std::lock_guard lock(mutex_);
    if (broken_) return;
    ended = spans_.take_queued();
  }
  // Without the lock: whoever queues meanwhile goes on.
  driver_.stream_synchronize(copy_);
  for (const stream_ref each : decode_) driver_.stream_synchronize(each);
  for (const stream_ref each : result_) driver_.stream_synchronize(each);
  for (const timed_span* const each : ended) driver_.event_synchronize(each->end);
  collect();
  const std::lock_guard lock(mutex_);
  for (timed_span* const each : ended) spans_.record(*each);
}

timed_span* device_engine::begin_work(const recorded_read& of, std::uint32_t worker, stream_ref stream) noexcept {
  const current_context current(driver_, context_);
  const std::lock_guard lock(mutex_);
  return broken_ ? nullptr : spans_.begin(of, stage::compute, worker, stream);
}

void device_engine::end_work(timed_span* span, std::uint64_t bytes, stream_ref stream) noexcept {
  if (span == nullptr) return;
  const current_context current(driver_, context_);
  const std::lock_guard lock(mutex_);
  if (stream != nullptr) return spans_.end(span, bytes, bytes, stream);
  spans_.drop(span);
}

}  // namespace penstock::inline v0::cuda
