// Queues a wave: the copy of its tables, its kernels, and the order between them.

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/nvtx.h"
#include "cuda/device_engine.h"
#include "cuda/device_tables.h"

namespace penstock::inline v0::cuda {

// If headers of a wave's cells are still being read, the thread that reads the last of them queues the wave.
result<> device_engine::close_wave() {
  device_wave& wave = *std::exchange(open_, nullptr);
  open_has_blocks_.store(false, std::memory_order_relaxed);
  if (wave.coming == 0) return queue_wave(wave);
  wave.now = device_wave::phase::closing;
  closing_.push_back(&wave);
  return {};
}

result<> device_engine::close_for_blocks() {
  const current_context current(driver_, context_);
  const mutex_lock lock(mutex_);
  PENSTOCK_TRY(healthy());
  return open_ != nullptr && !open_->blocks.empty() ? close_wave() : result<>();
}

result<> device_engine::queue_wave(device_wave& wave) {
  if (wave.cells() == 0) {
    // The host decodes all cells.
    wave.now = device_wave::phase::free;
    tell_freed();
    return {};
  }
  wave.now = device_wave::phase::queued;
  wave.stream = next_decode_++ % kDecodeStreams;
  const stream_ref stream = decode_[wave.stream];
  auto written = waves_.write_tables(wave);
  if (!written.ok()) {
    // Without memory for its tables the wave cannot run: its reads fail, the engine continues.
    for (const wave_share& each : wave.shares) {
      auto& failure = slots_.of(*each.read).failure;
      if (!failure) failure.emplace(written.error().clone());
    }
    PENSTOCK_TRY(check(driver_.event_record(wave.done, copy_), "cuEventRecord"));
    completions_.push(kCopyNumber, {wave.done, false, nullptr, &wave, nullptr});
    return {};
  }
  PENSTOCK_TRY(
      check(driver_.copy_to_device(wave.tail.address, wave.tables, written->uploaded, copy_), "cuMemcpyHtoDAsync"));
  PENSTOCK_ASSIGN(const event_ref copied, new_event());
  PENSTOCK_TRY(check(driver_.event_record(copied, copy_), "cuEventRecord"));
  PENSTOCK_TRY(check(driver_.stream_wait_event(stream, copied, 0), "cuStreamWaitEvent"));
  push_copied(copied);
  for (const wave_share& each : wave.shares) PENSTOCK_TRY(wait_for_start(*each.read, stream, wave.stream));
  PENSTOCK_TRY(launch(wave, *written));
  last_[wave.stream] = &wave;
  PENSTOCK_TRY(check(driver_.event_record(wave.done, stream), "cuEventRecord"));
  completions_.push(kFirstDecodeNumber + wave.stream, {wave.done, false, nullptr, &wave, nullptr});
  return {};
}

result<> device_engine::launch(device_wave& wave, const wave_layout& layout) {
  const stream_ref stream = decode_[wave.stream];
  const bool timed = std::any_of(wave.shares.begin(), wave.shares.end(),
                                 [](const wave_share& each) { return each.recorded_as.profile != nullptr; });
  wave.timed_launches = 0;
  if (timed) PENSTOCK_TRY(check(driver_.event_record(wave.marks[0], stream), "cuEventRecord"));
  {
    const nvtx_scope range(nvtx_name::decode);
    PENSTOCK_TRY(launch_decoders(wave, stream, timed));
  }
  if (timed) PENSTOCK_TRY(check(driver_.event_record(wave.marks[1], stream), "cuEventRecord"));
  const nvtx_scope range(nvtx_name::scatter);
  move_parameters parameters = move_parameters_of(wave, layout);
  void* arguments[] = {&parameters};
  if (!wave.tiles.empty())
    PENSTOCK_TRY(check(driver_.launch_kernel(kernels_.move(), static_cast<unsigned>(wave.tiles.size()), 1, 1,
                                             kMoveThreads, 1, 1, 0, stream, arguments, nullptr),
                       "cuLaunchKernel"));
  if (timed) PENSTOCK_TRY(check(driver_.event_record(wave.marks[2], stream), "cuEventRecord"));
  return {};
}

// `then` waits for the work that was queued on `first` so far.
result<> device_engine::order(stream_ref first, stream_ref then) {
  PENSTOCK_TRY(check(driver_.event_record(order_, first), "cuEventRecord"));
  return check(driver_.stream_wait_event(then, order_, 0), "cuStreamWaitEvent");
}

// A kernel that may run parallel to the one before it uses the side stream, which waits for the input of both; kernels
// after both wait for it.
result<> device_engine::launch_decoders(device_wave& wave, stream_ref stream, bool timed) {
  for (std::size_t i = 0; i < wave.launches.size(); ++i) {
    device::kernel_launch& each = wave.launches[i];
    const bool is_beside = each.beside_last;
    if (i + 1 < wave.launches.size() && wave.launches[i + 1].beside_last) PENSTOCK_TRY(order(stream, beside_));
    const stream_ref on = is_beside ? beside_ : stream;
    if (each.kernel == device::kernel_id::nvcomp) {
      PENSTOCK_TRY(decode_by_library(each, on));
    } else {
      void* argument[] = {each.argument.data()};
      PENSTOCK_TRY(check(driver_.launch_kernel(kernels_.decoder(each.kernel), each.grid, 1, 1, each.threads, 1, 1, 0,
                                               on, argument, nullptr),
                         "cuLaunchKernel"));
    }
    if (timed) PENSTOCK_TRY(mark_launch(wave, on));
    if (is_beside) PENSTOCK_TRY(order(beside_, stream));
  }
  return {};
}

// The end of a launch, for profiles.
result<> device_engine::mark_launch(device_wave& wave, stream_ref stream) {
  if (wave.launch_ends.size() == wave.timed_launches) {
    event_ref made = nullptr;
    PENSTOCK_TRY(check(driver_.event_create(&made, 0), "cuEventCreate"));
    wave.launch_ends.push_back(made);
  }
  return check(driver_.event_record(wave.launch_ends[wave.timed_launches++], stream), "cuEventRecord");
}

// Statuses are preset to a value that the library does not use: this shows which ones it does not write.
result<> device_engine::decode_by_library(const device::kernel_launch& launch, stream_ref stream) {
  device::nvcomp_call call;
  std::memcpy(&call, launch.argument.data(), sizeof call);
  PENSTOCK_TRY(
      check(driver_.set_bytes(call.outcomes, 0xff, call.count * sizeof(std::int32_t), stream), "cuMemsetD8Async"));
  auto decoded = nvcomp_->decode(call, stream);
  if (decoded.ok()) return decoded;
  error what = std::move(decoded).error().note(fmt::format("on device cuda:{}", ordinal_));
  break_with(what);
  return what;
}

}  // namespace penstock::inline v0::cuda
