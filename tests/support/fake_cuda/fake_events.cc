// The fake driver: streams and events.

#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include "support/fake_cuda/fake_driver.h"

namespace penstock::test::fake {

driver_status stream_create(stream_ref* out, unsigned flags) {
  PENSTOCK_CALLED("cuStreamCreate");
  const int device = fake_driver::current_device_number();
  if (device < 0) return kInvalidContext;
  auto made = std::make_shared<fake_stream>();
  made->device = device;
  made->blocking = (flags & kStreamNonBlocking) == 0;
  *out = reinterpret_cast<stream_ref>(made.get());
  self().streams.add(made);
  const std::lock_guard lock(self().mutex);
  self().stream_handles[*out] = std::move(made);
  return kSuccess;
}

driver_status stream_destroy(stream_ref handle) {
  PENSTOCK_CALLED("cuStreamDestroy");
  std::shared_ptr<fake_stream> found;
  {
    const std::lock_guard lock(self().mutex);
    const auto at = self().stream_handles.find(handle);
    if (at == self().stream_handles.end()) return kInvalidHandle;
    found = std::move(at->second);
    self().stream_handles.erase(at);
  }
  self().streams.remove(found);
  return kSuccess;
}

driver_status stream_query(stream_ref handle) {
  PENSTOCK_CALLED("cuStreamQuery");
  const auto stream = self().stream_of(handle);
  if (!stream) return kInvalidHandle;
  return self().streams.done(*stream) ? kSuccess : kNotReady;
}

driver_status stream_is_capturing(stream_ref handle, int* out) {
  PENSTOCK_CALLED("cuStreamIsCapturing");
  *out = 0;
  if (handle == nullptr || handle == kLegacyStream) return kSuccess;  // it is not used
  const auto stream = self().stream_of(handle);
  if (!stream) return kInvalidHandle;
  *out = stream->captures ? 1 : 0;
  return kSuccess;
}

driver_status stream_synchronize(stream_ref handle) {
  PENSTOCK_CALLED("cuStreamSynchronize");
  const auto stream = self().stream_of(handle);
  if (!stream) return kInvalidHandle;
  self().streams.synchronize(*stream);
  return kSuccess;
}

driver_status context_synchronize() {
  PENSTOCK_CALLED("cuCtxSynchronize");
  if (fake_driver::current_device_number() < 0) return kInvalidContext;
  self().streams.synchronize_all();
  return kSuccess;
}

driver_status stream_wait_event(stream_ref handle, event_ref event, unsigned) {
  PENSTOCK_CALLED("cuStreamWaitEvent");
  const auto stream = self().stream_of(handle);
  auto found = self().event_of(event);
  if (!stream || !found) return kInvalidHandle;
  self().streams.wait(*stream, std::move(found));
  return kSuccess;
}

driver_status event_create(event_ref* out, unsigned) {
  PENSTOCK_CALLED("cuEventCreate");
  const int device = fake_driver::current_device_number();
  if (device < 0) return kInvalidContext;
  auto made = std::make_shared<fake_event>();
  made->device = device;
  *out = reinterpret_cast<event_ref>(made.get());
  const std::lock_guard lock(self().mutex);
  self().events[*out] = std::move(made);
  return kSuccess;
}

driver_status event_destroy(event_ref event) {
  PENSTOCK_CALLED("cuEventDestroy");
  const std::lock_guard lock(self().mutex);
  return self().events.erase(event) == 0 ? kInvalidHandle : kSuccess;
}

driver_status event_record(event_ref event, stream_ref handle) {
  PENSTOCK_CALLED("cuEventRecord");
  const auto stream = self().stream_of(handle);
  auto found = self().event_of(event);
  if (!stream || !found) return kInvalidHandle;
  if (stream->device != found->device) return kInvalidHandle;
  self().streams.record(*stream, std::move(found));
  return kSuccess;
}

driver_status context_record_event(context_ref context, event_ref event) {
  PENSTOCK_CALLED("cuCtxRecordEvent");
  auto found = self().event_of(event);
  if (!found || found->device != fake_driver::number_of(context)) return kInvalidHandle;
  self().streams.record_all(found->device, found);
  return kSuccess;
}

driver_status event_query(event_ref event) {
  PENSTOCK_CALLED("cuEventQuery");
  const auto found = self().event_of(event);
  if (!found) return kInvalidHandle;
  return self().streams.done(*found) ? kSuccess : kNotReady;
}

driver_status event_synchronize(event_ref event) {
  PENSTOCK_CALLED("cuEventSynchronize");
  const auto found = self().event_of(event);
  if (!found) return kInvalidHandle;
  self().streams.synchronize(*found);
  return kSuccess;
}

driver_status event_elapsed_ms(float* out, event_ref from, event_ref to) {
  PENSTOCK_CALLED("cuEventElapsedTime");
  const auto begin = self().event_of(from), end = self().event_of(to);
  if (!begin || !end) return kInvalidHandle;
  const auto first = self().streams.last_of(*begin), last = self().streams.last_of(*end);
  if (!first || !last) return kInvalidHandle;
  if (!self().streams.done(*begin) || !self().streams.done(*end)) return kNotReady;
  *out = std::chrono::duration<float, std::milli>(last->when - first->when).count();
  return kSuccess;
}

driver_status enqueue(stream_ref handle, std::function<void()> what, const char* kernel) {
  const auto stream = self().stream_of(handle);
  if (!stream) return kInvalidHandle;
  if (stream->device != fake_driver::current_device_number()) return kInvalidContext;
  fake_operation operation;
  operation.run = std::move(what);
  operation.kernel = kernel;
  self().streams.enqueue(*stream, std::move(operation));
  self().streams.maybe_block(*stream);
  return kSuccess;
}

}  // namespace penstock::test::fake
