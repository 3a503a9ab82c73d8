#include <memory>
#include <optional>
#include <utility>

#include "api/device_tensor_state.h"
#include "engine/context_state.h"

namespace penstock::inline v0 {

result<device_tensor> device_memory(penstock::context& with, int device, const dtype& type, const extents& shape) {
  PENSTOCK_ASSIGN(auto engine, device_tensor_state::engine_of(with.state(), device));
  auto state = std::make_shared<device_tensor_state>(std::move(engine), nullptr);
  PENSTOCK_TRY(state->take_memory(shape, type, std::nullopt));
  return device_tensor(std::move(state));
}

}  // namespace penstock::inline v0
