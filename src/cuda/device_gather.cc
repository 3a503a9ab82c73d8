// The part of the engine that gathers scattered values in device memory: for copies there, and for writes.

#include <algorithm>

#include "cuda/device_engine.h"
#include "cuda/move_plan.h"

namespace penstock::inline v0::cuda {
namespace {

constexpr std::uint64_t kMostBlocks = std::uint64_t{1} << 30;  // of one launch

// Whether the values are adjacent to each other.
bool follows(const move_item& item, std::span<const move_axis> axes) noexcept {
  return axes.empty() || (axes.size() == 1 && axes[0].from_step == static_cast<std::int64_t>(item.unit_bytes));
}

}  // namespace

result<std::uint64_t> device_engine::copy(const move_item& item, std::span<const move_axis> axes, stream_ref stream) {
  const current_context current(driver_, context_);
  std::uint64_t kernels = 0;
  if (follows(item, axes) && item.convert_from == number_kind::none) {
    PENSTOCK_TRY(driver_.check(driver_.copy_on_device(item.to, item.from, item.units * item.unit_bytes, stream),
                               "cuMemcpyDtoDAsync"));
    return kernels;
  }
  if (axes.size() > kMaxGatherAxes) return error(errc::unsupported, "the values have too many dimensions");
  gather_parameters with;
  with.item = item;
  with.tile_units = tile_units(item);
  std::copy(axes.begin(), axes.end(), with.axes);
  const std::uint64_t most = kMostBlocks * with.tile_units;
  for (; with.first < item.units; with.first = with.end) {
    with.end = std::min(item.units, with.first + most);
    const auto blocks = static_cast<unsigned>((with.end - with.first + with.tile_units - 1) / with.tile_units);
    void* arguments[] = {&with};
    PENSTOCK_TRY(driver_.check(
        driver_.launch_kernel(kernels_.gather(), blocks, 1, 1, kMoveThreads, 1, 1, 0, stream, arguments, nullptr),
        "cuLaunchKernel"));
    ++kernels;
  }
  return kernels;
}

result<> device_engine::begin_write(std::optional<stream_ref> stream) {
  const current_context current(driver_, context_);
  if (stream) PENSTOCK_TRY(check_stream(*stream));
  const mutex_lock lock(mutex_);
  PENSTOCK_TRY(healthy());
  PENSTOCK_TRY(check(driver_.event_record(order_, write_[0]), "cuEventRecord"));
  for (unsigned i = 1; i < kWriteStreams; ++i)
    PENSTOCK_TRY(check(driver_.stream_wait_event(write_[i], order_, 0), "cuStreamWaitEvent"));
  if (!stream) return {};
  if (const driver_status status = driver_.event_record(order_, *stream); status != kSuccess)
    return driver_.failure(status, "cuEventRecord").note("on the given stream");
  for (const stream_ref each : write_)
    PENSTOCK_TRY(check(driver_.stream_wait_event(each, order_, 0), "cuStreamWaitEvent"));
  return {};
}

result<> device_engine::gather(const move_item& item, std::span<const move_axis> axes, std::uint64_t first,
                               std::uint64_t count, std::byte* to) {
  const current_context current(driver_, context_);
  event_ref ended = nullptr;
  result<> queued;
  {
    const mutex_lock lock(mutex_);
    PENSTOCK_TRY(healthy());
    PENSTOCK_ASSIGN(ended, new_event());
    const unsigned which = next_write_++ % kWriteStreams;
    queued = queue_gather(item, axes, first, count, to, which);
    if (queued.ok()) queued = check(driver_.event_record(ended, write_[which]), "cuEventRecord");
  }
  if (queued.ok()) queued = driver_.check(driver_.event_synchronize(ended), "cuEventSynchronize");
  give_event(ended);
  return queued;
}

result<> device_engine::queue_gather(const move_item& item, std::span<const move_axis> axes, std::uint64_t first,
                                     std::uint64_t count, std::byte* to, unsigned which) {
  const stream_ref stream = write_[which];
  const std::uint64_t unit = item.unit_bytes;
  if (follows(item, axes) && item.convert_from == number_kind::none)
    return check(driver_.copy_to_host(to, item.from + first * unit, count * unit, stream), "cuMemcpyDtoHAsync");
  if (axes.size() > kMaxGatherAxes) return error(errc::unsupported, "the values have too many dimensions");
  wave_memory& staging = staging_[which];
  if (staging.bytes == 0) PENSTOCK_TRY(waves_.resize(staging, staging_bytes_));
  gather_parameters with;
  with.item = item;
  with.tile_units = tile_units(item);
  std::copy(axes.begin(), axes.end(), with.axes);
  const std::uint64_t most = staging.bytes / unit;
  // The stream's order protects the staging memory from the next piece until this one is copied.
  for (std::uint64_t done = 0; done < count; done += most) {
    const std::uint64_t units = std::min(most, count - done);
    with.first = first + done;
    with.end = with.first + units;
    with.item.to = staging.address - with.first * unit;
    const auto blocks = static_cast<unsigned>((units + with.tile_units - 1) / with.tile_units);
    void* arguments[] = {&with};
    PENSTOCK_TRY(
        check(driver_.launch_kernel(kernels_.gather(), blocks, 1, 1, kMoveThreads, 1, 1, 0, stream, arguments, nullptr),
              "cuLaunchKernel"));
    PENSTOCK_TRY(
        check(driver_.copy_to_host(to + done * unit, staging.address, units * unit, stream), "cuMemcpyDtoHAsync"));
  }
  return {};
}

}  // namespace penstock::inline v0::cuda
