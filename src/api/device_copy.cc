#include "api/device_copy.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "cuda/device_values.h"

namespace penstock::inline v0 {
namespace {

/// Pauses between two queries whether a copy on a device has ended.
constexpr std::chrono::microseconds kFirstPause{20}, kLongestPause{1000};

}  // namespace

device_copy::~device_copy() {
  if (block_.address == 0 || engine_->is_of_parent()) return;
  if (is_on_ours_) {
    const cuda::current_context current(engine_->api(), engine_->context());
    (void)engine_->api().event_synchronize(block_.ready);
  }
  engine_->results().give(block_);
}

result<> device_copy::queue(const tensor_view& from, std::uint64_t bytes, cuda::stream_ref on) {
  PENSTOCK_TRY(engine_->check_stream(on));
  PENSTOCK_ASSIGN(block_, engine_->results().take(bytes));
  PENSTOCK_ASSIGN(const cuda::event_ref ready, engine_->results().event_of(block_));
  const cuda::driver& with = engine_->api();
  const cuda::current_context current(with, engine_->context());
  PENSTOCK_TRY(with.check(with.stream_wait_event(on, ready, 0), "cuStreamWaitEvent"));
  auto queued = cuda::copy_on_device(*engine_, from, data(), on);
  if (queued.ok()) queued = with.check(with.event_record(ready, on), "cuEventRecord");
  if (!queued.ok()) (void)engine_->wait_for_all();  // no event marks the end of the copy
  is_on_ours_ = queued.ok() && on == engine_->write_stream();
  return queued;
}

result<> device_copy::wait(const std::function<bool()>& may_go_on) const {
  const cuda::driver& with = engine_->api();
  const cuda::current_context current(with, engine_->context());
  for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    const cuda::driver_status status = with.event_query(block_.ready);
    if (status != cuda::kNotReady) return with.check(status, "cuEventQuery");
    if (!may_go_on()) return error(errc::cancelled, "the write was cancelled before the device had its values");
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace penstock::inline v0
