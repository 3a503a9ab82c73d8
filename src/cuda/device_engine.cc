#include "cuda/device_engine.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/nvtx.h"
#include "cuda/device_place.h"
#include "cuda/device_tables.h"
#include "cuda/move_plan.h"
#include "engine/read_job.h"

namespace penstock::inline v0::cuda {
namespace {

constexpr std::uint64_t kMostDefaultWaves = std::uint64_t{6} << 30;
/// Device memory that each stream of writes gathers into.
constexpr std::uint64_t kStagingBytes = std::uint64_t{8} << 20;
constexpr std::uint64_t kAlignment = 256;
/// The usual number of batches in flight.
constexpr std::size_t kEventsAtOnce = 256;

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

// The codecs that nvCOMP may pass to the decompression engine of the device, because both support them, each with the
// longest stream that the engine accepts.
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

bool any_in(const std::array<std::uint64_t, device::kNvcompCodecs>& engine_bytes) {
  return std::any_of(engine_bytes.begin(), engine_bytes.end(), [](std::uint64_t each) { return each != 0; });
}

}  // namespace

bool device_engine::would_read_in_place(int ordinal, const device::nvcomp* library) {
  const auto with = load_driver();
  device_number device = 0;
  return with.ok() && ordinal < (*with)->devices && (*with)->device_get(&device, ordinal) == kSuccess &&
         reads_host_memory(**with, device) && !any_in(decompression_engine_of(**with, ordinal, library));
}

result<std::shared_ptr<device_engine>> device_engine::make(int ordinal, const device_options& options) {
  PENSTOCK_ASSIGN(const driver* const with, load_driver());
  if (ordinal < 0 || ordinal >= with->devices)
    return error(errc::invalid_argument,
                 fmt::format("there is no device cuda:{}: the driver finds {}", ordinal, with->devices));
  if (options.nvcomp != nullptr && options.nvcomp->cuda_major() > static_cast<unsigned>(with->version) / 1000)
    return error(
        errc::unsupported,
        fmt::format("nvCOMP {} is built for CUDA {}, the driver supports {}.{}: install nvCOMP for an earlier CUDA",
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
      ring_(with, context, options.page_locked_bytes == 0 ? kDefaultPageLockedBytes : options.page_locked_bytes,
            host_node_of(with, device)),
      pool_(with, context, memory_limit_of(with, context, 0) * 2),
      waves_(with, (memory_limit_ - std::min(memory_limit_, kWriteStreams * staging_bytes_)) / kWaves, wave_bytes_) {}

result<> device_engine::start() {
  const current_context current(driver_, context_);
  const mutex_lock lock(mutex_);
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
  by_library_ = {nvcomp_, std::min(device::kMostLibraryBytes, waves_.limit_bytes() / 4), engine_bytes};
  reads_in_place_ = reads_host_memory(driver_, device_) && !any_in(engine_bytes);
  int reads_ordinary = 0;
  reads_ordinary_later_ =
      driver_.device_get_attribute(&reads_ordinary, kAttributePageableAccess, device_) == kSuccess &&
      reads_ordinary != 0;
  PENSTOCK_TRY(waves_.start(kWaves, by_library_));
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
    slots_.clear();
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

// Only those that were created.
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

// The device may never return the blocks that it uses: threads that wait for memory stop waiting and receive the
// reason.
void device_engine::break_with(const error& what) {
  if (broken_) return;
  broken_.emplace(what.clone());
  completions_.abandon();
  ring_.close();
  closed_.notify_all();
  tell_freed();
}

result<> device_engine::healthy() const {
  if (!broken_) [[likely]]
    return {};
  return broken_->clone().note(
      "an earlier call of the driver failed; call clear() on the context, or create a new context");
}

device_usage device_engine::usage() const {
  return {ring_.held_bytes() + wave_bytes_.page_locked.load(std::memory_order_relaxed),
          wave_bytes_.device.load(std::memory_order_relaxed), pool_.held_bytes()};
}

bool device_engine::clear() {
  const current_context current(driver_, context_);
  collect();
  pool_.clear();
  const mutex_lock lock(mutex_);
  if (broken_) return false;
  waves_.trim();
  return true;
}

// ---- reads ----

result<read_slot*> device_engine::begin_read(std::vector<event_ref> starts, event_ref memory) {
  auto before = outcome_of_handed(false);
  const mutex_lock lock(mutex_);
  auto taken = before.ok() ? take_slot() : result<read_slot*>(std::move(before).error());
  if (!taken.ok()) {
    free_events_.insert(free_events_.end(), starts.begin(), starts.end());
    return taken;
  }
  read_state& state = slots_.of(**taken);
  state.starts = std::move(starts);
  state.memory_ready = memory;
  return taken;
}

result<read_slot*> device_engine::take_slot() {
  PENSTOCK_TRY(healthy());
  if (read_slot* const zero = slots_.take_zero()) return zero;
  const current_context current(driver_, context_);
  note_reached();
  return slots_.take(copy_);
}

void device_engine::end_read(read_slot* slot) noexcept {
  const mutex_lock lock(mutex_);
  release_starts(*slot);
  slots_.give(slot);
}

// The read's streams wait for these events, or the read is over.
void device_engine::release_starts(read_slot& read) noexcept {
  std::vector<event_ref>& starts = slots_.of(read).starts;
  free_events_.insert(free_events_.end(), starts.begin(), starts.end());
  starts.clear();
}

result<> device_engine::outcome_of_waves(const read_slot& slot) {
  const mutex_lock lock(mutex_);
  const auto& failure = slots_.of(slot).failure;
  return failure ? result<>(failure->clone()) : result<>();
}

void device_engine::watch(read_slot* slot, std::function<error(const failure_report&)> describe) {
  const mutex_lock lock(mutex_);
  slots_.watch(slot, std::move(describe));
}

void device_engine::unwatch(read_slot* slot) noexcept {
  const mutex_lock lock(mutex_);
  slots_.unwatch(slot);
}

result<> device_engine::outcome_of_handed(bool wait) {
  std::vector<event_ref> ends;
  if (wait) {
    const mutex_lock lock(mutex_);
    ends = slots_.watched_ends();
  }
  if (!ends.empty()) {
    const current_context current(driver_, context_);
    for (const event_ref each : ends)
      PENSTOCK_TRY(driver_.check(driver_.event_synchronize(each), "cuEventSynchronize"));
  }
  const mutex_lock lock(mutex_);
  if (wait || slots_.watches_queued()) {
    const current_context current(driver_, context_);
    note_reached();
    if (broken_) slots_.query_watched();
  }
  return slots_.outcome();
}

result<> device_engine::make_events() {
  for (std::size_t i = 0; i < kEventsAtOnce; ++i) {
    event_ref event = nullptr;
    PENSTOCK_TRY(driver_.check(driver_.event_create(&event, kEventDisableTiming), "cuEventCreate"));
    free_events_.push_back(event);
  }
  return {};
}

// Called with the lock held.
result<event_ref> device_engine::new_event() {
  if (free_events_.empty()) note_reached();
  if (free_events_.empty()) PENSTOCK_TRY(make_events());
  const event_ref event = free_events_.back();
  free_events_.pop_back();
  return event;
}

// The legacy stream cannot be queried while some captures are under way; recording an event on it fails then, too.
result<> device_engine::check_stream(stream_ref stream) const {
  const current_context current(driver_, context_, driver_calls::queues_only);
  int captures = 0;
  if (driver_.stream_is_capturing(stream, &captures) != kSuccess || captures == 0) return {};
  return error(errc::invalid_argument,
               "the given stream captures a CUDA graph: reads and writes of arrays cannot be part of one");
}

result<event_ref> device_engine::take_event_at(stream_ref stream) {
  const current_context current(driver_, context_);
  PENSTOCK_TRY(check_stream(stream));
  const mutex_lock lock(mutex_);
  PENSTOCK_ASSIGN(const event_ref event, new_event());
  if (const driver_status status = driver_.event_record(event, stream); status != kSuccess) {
    free_events_.push_back(event);
    return driver_.failure(status, "cuEventRecord").note("on the given stream");
  }
  return event;
}

void device_engine::give_event(event_ref event) noexcept {
  const mutex_lock lock(mutex_);
  free_events_.push_back(event);
}

// The engine may still be copying from the block; if it is broken, the end of the copy is unknown.
void device_engine::drop(read_slot& read, parcel& what) noexcept {
  if (what.block == nullptr) return;
  const current_context current(driver_, context_);
  const mutex_lock lock(mutex_);
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

// A wave of this read may wait for the headers of cells of other reads. They are read now, by threads that do not wait.
result<> device_engine::finish(read_slot& read) {
  const current_context current(driver_, context_);
  const mutex_lock lock(mutex_);
  PENSTOCK_TRY(healthy());
  if (open_ != nullptr && has_share(*open_, read)) PENSTOCK_TRY(close_wave());
  while (is_closing_for(read)) closed_.wait(mutex_);
  PENSTOCK_TRY(healthy());
  PENSTOCK_TRY(release_copied());
  const unsigned which = end_of(read);
  const stream_ref end = result_[which];
  read_state& state = slots_.of(read);
  // The last wave of a decode stream ends after all others there, and each wave after the copies that it needs. If the
  // host knows that the last one has ended (the wave is free, or used again), then no wait is needed.
  bool decodes = false;
  for (unsigned i = 0; i < kDecodeStreams; ++i) {
    if ((state.waited >> i & 1) == 0) continue;
    decodes = true;
    if (const device_wave& last = *last_[i]; last.now == device_wave::phase::queued && last.stream == i)
      PENSTOCK_TRY(check(driver_.stream_wait_event(end, last.done, 0), "cuStreamWaitEvent"));
  }
  // Without writes, the work that was queued before the read must still end before the read does.
  if (state.waited == 0) PENSTOCK_TRY(wait_for_starts(read, end));
  release_starts(read);
  // Without a kernel, nothing can have failed.
  if (decodes)
    PENSTOCK_TRY(check(driver_.copy_to_host(read.host, read.device, sizeof(failure_report), end), "cuMemcpyDtoHAsync"));
  PENSTOCK_TRY(check(driver_.event_record(read.done, end), "cuEventRecord"));
  read.used = state.queued = true;
  completions_.push(kFirstResultNumber + which, {read.done, false, nullptr, nullptr, &read});
  return {};
}

bool device_engine::record_end(event_ref event, event_ref end_of_read, bool handed) {
  const mutex_lock lock(mutex_);
  if (broken_) return false;
  // Everything that was queued in the context so far.
  if (driver_.context_record_event != nullptr && driver_.context_record_event(context_, event) == kSuccess) return true;
  // Streams of other libraries may have been destroyed.
  if (handed) return false;
  const stream_ref end = result_[take_result_stream()];
  if (end_of_read != nullptr && driver_.stream_wait_event(end, end_of_read, 0) != kSuccess) return false;
  // The memory's earlier use may still be queued if no read has waited for it.
  if (driver_.stream_wait_event(end, event, 0) != kSuccess) return false;
  return driver_.event_record(event, end) == kSuccess;
}

result<> device_engine::wait_for_all() {
  const current_context current(driver_, context_);
  return driver_.check(driver_.context_synchronize(), "cuCtxSynchronize");
}

// ---- completions ----

void device_engine::collect() noexcept {
  const current_context current(driver_, context_);
  const mutex_lock lock(mutex_);
  note_reached();
}

// Called with the lock held.
void device_engine::note_reached() noexcept {
  reached_.clear();
  const driver_status status = completions_.take_reached(reached_);
  for (const completion& each : reached_) {
    if (each.owns_event) free_events_.push_back(each.event);
    if (each.block != nullptr) ring_.give(each.block);
    if (each.read != nullptr) slots_.of(*each.read).queued = false;
    if (each.wave == nullptr) continue;
    spans_.record(*each.wave);
    release_wave(*each.wave);
  }
  if (!reached_.empty()) {
    spans_.collect();
    tell_freed();
  }
  if (status != kSuccess) (void)check(status, "cuEventQuery");
}

void device_engine::release_wave(device_wave& wave) noexcept {
  for (std::byte* const each : wave.blocks) ring_.give(each);
  wave.blocks.clear();
  wave.now = device_wave::phase::free;
}

// One thread frees for all of them: others may wait for the same memory.
void device_engine::tell_freed() noexcept {
  const mutex_lock lock(listeners_mutex_);
  freed_.fetch_add(1, std::memory_order_release);
  for (read_job* const each : listeners_) each->nudge();
}

void device_engine::add_listener(read_job* job) {
  const mutex_lock lock(listeners_mutex_);
  listeners_.push_back(job);
}

void device_engine::remove_listener(read_job* job) noexcept {
  const mutex_lock lock(listeners_mutex_);
  std::erase(listeners_, job);
}

// ---- profiles ----

// For the end of a profile: it includes the queued work.
void device_engine::settle() noexcept {
  const current_context current(driver_, context_);
  std::vector<timed_span*> ended;
  {
    const mutex_lock lock(mutex_);
    if (broken_) return;
    ended = spans_.take_queued();
  }
  // Without the lock, so that other threads can queue work.
  driver_.stream_synchronize(copy_);
  for (const stream_ref each : decode_) driver_.stream_synchronize(each);
  for (const stream_ref each : result_) driver_.stream_synchronize(each);
  for (const timed_span* const each : ended) driver_.event_synchronize(each->end);
  collect();
  const mutex_lock lock(mutex_);
  for (timed_span* const each : ended) spans_.record(*each);
}

timed_span* device_engine::begin_span(const recorded_read& of, stage what, std::uint32_t worker,
                                      stream_ref stream) noexcept {
  if (of.profile == nullptr) return nullptr;
  const current_context current(driver_, context_);
  const mutex_lock lock(mutex_);
  return broken_ ? nullptr : spans_.begin(of, what, worker, stream);
}

timed_span* device_engine::begin_kernel(const recorded_read& of, const char* name, std::uint64_t launches,
                                        stream_ref stream) noexcept {
  if (of.profile == nullptr) return nullptr;
  const current_context current(driver_, context_);
  const mutex_lock lock(mutex_);
  return broken_ ? nullptr : spans_.begin_kernel(of, name, launches, stream);
}

void device_engine::mark_end(timed_span* span, stream_ref stream) noexcept {
  if (span == nullptr) return;
  const current_context current(driver_, context_);
  const mutex_lock lock(mutex_);
  spans_.mark_end(span, stream);
}

void device_engine::record_span(timed_span* span, std::uint64_t bytes_in, std::uint64_t bytes_out,
                                bool complete) noexcept {
  if (span == nullptr) return;
  const current_context current(driver_, context_);
  const mutex_lock lock(mutex_);
  if (!complete) return spans_.drop(span);
  span->bytes_in = bytes_in;
  span->bytes_out = bytes_out;
  spans_.record(*span);
}

void device_engine::end_work(timed_span* span, std::uint64_t bytes, stream_ref stream) noexcept {
  if (span == nullptr) return;
  const current_context current(driver_, context_);
  const mutex_lock lock(mutex_);
  if (stream != nullptr) return spans_.end(span, bytes, bytes, stream);
  spans_.drop(span);
}

}  // namespace penstock::inline v0::cuda
