#include <memory>
#include <optional>
#include <utility>

#include "api/device_tensor_state.h"
#include "api/read_source.h"
#include "cuda/device_values.h"
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

}  // namespace penstock::inline v0
