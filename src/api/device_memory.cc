#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "api/device_tensor_state.h"
#include "api/read_source.h"
#include "cuda/device_values.h"
#include "engine/array_state.h"
#include "engine/context_state.h"

namespace penstock::inline v0 {

result<device_tensor> device_memory(penstock::context& with, int device, const dtype& type, const extents& shape) {
  PENSTOCK_ASSIGN(auto engine, device_tensor_state::engine_of(with.state(), device));
  auto state = std::make_shared<device_tensor_state>(std::move(engine), nullptr);
  PENSTOCK_TRY(state->take_memory(shape, type, std::nullopt));
  return device_tensor(std::move(state));
}

result<device_tensor> copy_on_device(device_tensor& from, std::optional<stream_handle> stream) {
  const std::shared_ptr<device_tensor_state>& source = from.state();
  cuda::device_engine& engine = *source->engine_;
  auto state = std::make_shared<device_tensor_state>(source->engine_, source->from_);
  PENSTOCK_TRY(state->take_memory(source->view_.extents, source->view_.type, std::nullopt));
  device_tensor made(state);
  const cuda::stream_ref on = stream ? reinterpret_cast<cuda::stream_ref>(*stream) : engine.write_stream();
  const auto handle = reinterpret_cast<stream_handle>(on);
  PENSTOCK_TRY(from.order(handle));
  PENSTOCK_TRY(made.order(handle));
  if (!is_empty(source->view_.extents))
    PENSTOCK_TRY(cuda::copy_on_device(engine, source->view_, state->view_.data, on));
  if (stream) return made;
  const cuda::current_context current(engine.api(), engine.context());
  PENSTOCK_TRY(engine.api().check(engine.api().stream_synchronize(on), "cuStreamSynchronize"));
  return made;
}

void begin_work(const device_tensor& with, stream_handle stream, std::uint32_t lane) {
  device_tensor_state& state = *with.state();
  if (!state.from_ || !state.read_ || stream == 0) return;
  // The present recording: the read may have begun before it.
  recorded_read of = state.read_->recorded_as();
  const auto recording = state.from_->context->state().recording();
  if (!recording) return;
  if (of.profile != recording) of = {recording, 0};
  const std::lock_guard lock(state.mutex_);
  if (state.work_ == nullptr)
    state.work_ = state.engine_->begin_span(of, stage::compute, kComputeWorker + lane,
                                            reinterpret_cast<cuda::stream_ref>(stream));
}

void end_work(const device_tensor& with, stream_handle stream) {
  device_tensor_state& state = *with.state();
  const std::lock_guard lock(state.mutex_);
  std::uint64_t bytes = state.view_.type.item_bytes();
  for (const std::uint64_t each : state.view_.extents) bytes *= each;
  state.engine_->end_work(std::exchange(state.work_, nullptr), bytes, reinterpret_cast<cuda::stream_ref>(stream));
}

}  // namespace penstock::inline v0
