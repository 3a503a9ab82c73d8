#include "cuda/device_values.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cuda/move_plan.h"
#include "plan/placement.h"

namespace penstock::inline v0::cuda {
namespace {

/// The unit of copies through page-locked memory to ordinary memory.
constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20;

std::uint64_t elements_of(const extents& counts) noexcept {
  std::uint64_t out = 1;
  for (const std::uint64_t each : counts) out *= each;
  return out;
}

std::byte* take_block(device_engine& engine, std::uint64_t bytes) {
  return engine.ring().take(std::max<std::uint64_t>(bytes, 1));
}

// A block that a broken engine may still be writing to is not reused.
void give_block(device_engine& engine, std::byte* block) noexcept {
  if (block != nullptr && !engine.is_broken()) engine.give_block(block);
}

move_item gather_of(const tensor_view& from, device_address to, std::vector<move_axis>& axes) {
  placement where;
  where.counts = from.extents;
  where.target.data = from.data;
  where.target.strides = from.strides;
  conversion same;
  same.from_bytes = same.to_bytes = from.type.item_bytes();
  return plan_gather(where, same, to, axes);
}

}  // namespace

result<lent_values> device_values::take(const placement& where, buffer& spare) {
  const std::uint64_t bytes = elements_of(where.counts) * how_.to_bytes;
  lent_values out;
  out.block = take_block(*engine_, bytes);
  std::byte* room = out.block;
  if (room == nullptr) {
    PENSTOCK_ASSIGN(const auto reserved, spare.reserve(bytes));
    room = reserved.data();
  }
  out.bytes = {room, static_cast<std::size_t>(bytes)};
  std::vector<move_axis> axes;
  const move_item item = plan_gather(where, how_, 0, axes);
  auto done = engine_->gather(item, axes, 0, item.units, room);
  if (done.ok()) return out;
  give_block(*engine_, out.block);
  return std::move(done).error();
}

void device_values::give(const lent_values& values) noexcept { give_block(*engine_, values.block); }

result<> copy_on_device(device_engine& engine, const tensor_view& from, void* to, stream_ref stream) {
  std::vector<move_axis> axes;
  const move_item item = gather_of(from, reinterpret_cast<device_address>(to), axes);
  PENSTOCK_TRY(engine.copy(item, axes, stream));
  return {};
}

result<> copy_to_host(device_engine& engine, const tensor_view& from, std::byte* to) {
  std::vector<move_axis> axes;
  const move_item item = gather_of(from, 0, axes);
  const std::uint64_t step = std::max<std::uint64_t>(1, kPieceBytes / item.unit_bytes);
  std::byte* const block = take_block(engine, std::min(step, item.units) * item.unit_bytes);
  for (std::uint64_t first = 0; first < item.units; first += step) {
    const std::uint64_t count = std::min(step, item.units - first);
    std::byte* const target = to + first * item.unit_bytes;
    auto done = engine.gather(item, axes, first, count, block == nullptr ? target : block);
    if (!done.ok()) {
      give_block(engine, block);
      return done;
    }
    if (block != nullptr) std::memcpy(target, block, static_cast<std::size_t>(count * item.unit_bytes));
  }
  give_block(engine, block);
  return {};
}

}  // namespace penstock::inline v0::cuda
