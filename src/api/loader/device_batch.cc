#include "api/loader/device_batch.h"

#include <utility>

#include "engine/context_state.h"

namespace penstock::inline v0 {

result<device_batch> device_batch::make(const std::shared_ptr<cuda::device_engine>& engine, context_state& with,
                                        const dtype& type, const extents& shape) {
  device_batch out;
  out.engine_ = engine;
  out.target_ = std::make_shared<device_tensor_state>(engine, nullptr);
  PENSTOCK_TRY(out.target_->take_memory(shape, type, std::nullopt));
  PENSTOCK_ASSIGN(std::uint64_t bytes, element_count(shape));
  bytes *= type.item_bytes();
  if (bytes == 0) return out;
  out.block_ = engine->ring().take(bytes);
  if (out.block_ == nullptr) {
    PENSTOCK_ASSIGN(out.ordinary_, with.outputs().take(bytes));
  }
  return out;
}

device_batch::~device_batch() {
  if (block_ != nullptr) engine_->give_block(block_);
}

result<device_tensor> device_batch::send() {
  const std::byte* const from = data();
  PENSTOCK_TRY(target_->fill(from, std::exchange(block_, nullptr)));
  return device_tensor(std::move(target_));
}

}  // namespace penstock::inline v0
