#include "cuda/timed_spans.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace penstock::inline v0::cuda {

result<> timed_spans::start(stream_ref stream) {
  PENSTOCK_TRY(driver_.check(driver_.event_create(&origin_, 0), "cuEventCreate"));
  PENSTOCK_TRY(driver_.check(driver_.event_record(origin_, stream), "cuEventRecord"));
  PENSTOCK_TRY(driver_.check(driver_.event_synchronize(origin_), "cuEventSynchronize"));
  origin_time_ = std::chrono::steady_clock::now();
  return {};
}

void timed_spans::clear() noexcept {
  for (const auto& each : all_)
    for (const event_ref event : {each->begin, each->end})
      if (event != nullptr) driver_.event_destroy(event);
  if (origin_ != nullptr) driver_.event_destroy(origin_);
}

timed_span* timed_spans::begin(const recorded_read& of, stage what, std::uint32_t worker, stream_ref stream) noexcept {
  if (of.profile == nullptr) return nullptr;
  if (free_.empty()) {
    auto made = std::make_unique<timed_span>();
    const bool complete = driver_.event_create(&made->begin, 0) == kSuccess &&  //
                          driver_.event_create(&made->end, 0) == kSuccess;
    all_.push_back(std::move(made));
    if (!complete) return nullptr;
    free_.push_back(all_.back().get());
  }
  timed_span* const span = free_.back();
  if (driver_.event_record(span->begin, stream) != kSuccess) return nullptr;
  free_.pop_back();
  span->what = what;
  span->worker = worker;
  span->of = of;
  span->kernel = nullptr;
  return span;
}

timed_span* timed_spans::begin_kernel(const recorded_read& of, const char* name, std::uint64_t launches,
                                      stream_ref stream) noexcept {
  timed_span* const span = begin(of, stage::encode, kDeviceWorker, stream);
  if (span == nullptr) return nullptr;
  span->kernel = name;
  span->launches = launches;
  return span;
}

void timed_spans::mark_end(timed_span* span, stream_ref stream) noexcept {
  if (span != nullptr) (void)driver_.event_record(span->end, stream);
}

void timed_spans::end(timed_span* span, std::uint64_t bytes_in, std::uint64_t bytes_out, stream_ref stream) noexcept {
  if (span == nullptr) return;
  span->bytes_in = bytes_in;
  span->bytes_out = bytes_out;
  if (driver_.event_record(span->end, stream) != kSuccess) return drop(span);
  queued_.push_back(span);
}

void timed_spans::drop(timed_span* span) noexcept {
  span->of = {};
  free_.push_back(span);
}

void timed_spans::collect() noexcept {
  std::erase_if(queued_, [&](timed_span* each) {
    if (driver_.event_query(each->end) != kSuccess) return false;
    record(*each);
    return true;
  });
}

std::vector<timed_span*> timed_spans::take_queued() noexcept { return std::exchange(queued_, {}); }

void timed_spans::record(timed_span& span) noexcept {
  write(span);
  drop(&span);
}

void timed_spans::write(timed_span& span) noexcept {
  std::uint64_t begin = 0, length = 0;
  if (span.kernel != nullptr) {
    if (span.launches != 0 && elapsed_ns(span.begin, span.end, length))
      span.of.profile->record_kernel(span.kernel, length, span.launches);
    return;
  }
  if (!begin_of(*span.of.profile, span.begin, begin) || !elapsed_ns(span.begin, span.end, length)) return;
  span.of.profile->record(
      {span.what, span.worker, span.of.number, 0, begin, begin + length, span.bytes_in, span.bytes_out, ordinal_});
}

void timed_spans::record(device_wave& wave) noexcept {
  if (!wave.launches.empty())
    record_shares(wave, stage::decode, wave.marks[0], wave.marks[1], &wave_share::encoded_bytes,
                  &wave_share::decoded_bytes);
  record_kernels(wave);
  record_shares(wave, stage::scatter, wave.marks[1], wave.marks[2], &wave_share::moved_bytes, &wave_share::moved_bytes);
  wave.shares.clear();
}

// A kernel begins when its predecessors have ended: the kernel before it, or the two before it if these ran in
// parallel.
void timed_spans::record_kernels(device_wave& wave) noexcept {
  const auto recorded = std::find_if(wave.shares.begin(), wave.shares.end(),
                                     [](const wave_share& each) { return each.recorded_as.profile != nullptr; });
  if (recorded == wave.shares.end() || wave.timed_launches != wave.launches.size()) return;
  profiler& profile = *recorded->recorded_as.profile;
  const auto add = [&](const char* name, std::initializer_list<event_ref> after, event_ref end) {
    std::uint64_t shortest = ~std::uint64_t{0};
    for (const event_ref each : after) {
      std::uint64_t length = 0;
      if (!elapsed_ns(each, end, length)) return;
      shortest = std::min(shortest, length);
    }
    profile.record_kernel(name, shortest);
  };
  event_ref before = wave.marks[0], beside = wave.marks[0];  // ends of the last kernel, or of the last two
  for (std::size_t i = 0; i < wave.launches.size(); ++i) {
    const device::kernel_id kernel = wave.launches[i].kernel;
    const char* const name = kernel == device::kernel_id::nvcomp ? "nvcomp" : device::kernel_name(kernel);
    const event_ref end = wave.launch_ends[i];
    if (wave.launches[i].beside_last) {
      const event_ref start = i >= 2 ? wave.launch_ends[i - 2] : wave.marks[0];
      add(name, {start}, end);
      beside = end;
    } else {
      add(name, {before, beside}, end);
      before = beside = end;
    }
  }
  if (!wave.tiles.empty()) add(kMoveKernel, {wave.marks[1]}, wave.marks[2]);
}

void timed_spans::record_shares(device_wave& wave, stage what, event_ref from, event_ref to,
                                std::uint64_t wave_share::* in, std::uint64_t wave_share::* out) noexcept {
  std::uint64_t all = 0, before = 0, length = 0;
  for (const wave_share& each : wave.shares) all += each.*out;
  for (const wave_share& each : wave.shares) {
    const std::uint64_t first = before;
    before += each.*out;
    std::uint64_t begin = 0;
    const auto& [profile, number] = each.recorded_as;
    if (!profile || each.*out == 0 || !begin_of(*profile, from, begin) || !elapsed_ns(from, to, length)) continue;
    const auto until = [&](std::uint64_t bytes) {
      return begin + static_cast<std::uint64_t>(static_cast<double>(length) * static_cast<double>(bytes) /
                                                static_cast<double>(all));
    };
    profile->record(
        {what, kDeviceWorker + wave.stream, number, 0, until(first), until(before), each.*in, each.*out, ordinal_});
  }
}

bool timed_spans::elapsed_ns(event_ref from, event_ref to, std::uint64_t& out) noexcept {
  float ms = 0;
  if (driver_.event_elapsed_ms(&ms, from, to) != kSuccess) return false;
  const std::chrono::duration<double, std::milli> exact(ms);
  out = static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::nanoseconds>(exact).count()));
  return true;
}

// The time of an event in a profile. Later events are timed relative to it: a float of milliseconds since the start of
// the engine is coarse after hours.
bool timed_spans::begin_of(const profiler& profile, event_ref event, std::uint64_t& out) noexcept {
  std::uint64_t since = 0;
  if (!elapsed_ns(origin_, event, since)) return false;
  out = profile.at(origin_time_ + std::chrono::nanoseconds(since));
  return true;
}

}  // namespace penstock::inline v0::cuda
