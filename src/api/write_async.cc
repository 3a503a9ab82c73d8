// Background writes: the values are copied, and written on the context's queue. Values in device memory are copied
// there, in the order of their stream: the call does not wait for the device.

#include <penstock/variable.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "api/device_copy.h"
#include "api/device_tensor_state.h"
#include "api/fenced_write.h"
#include "api/read_source.h"
#include "array/strided_copy.h"
#include "base/checked.h"
#include "cuda/device_values.h"
#include "driver/metadata_edit.h"
#include "engine/array_state.h"
#include "engine/context_state.h"
#include "engine/write_queue.h"

namespace penstock::inline v0 {
namespace {

// A copy of values, without their repetitions.
struct copied_values {
  output_block memory;
  std::unique_ptr<item_arena> items;  // the bytes of elements of variable length
  std::unique_ptr<device_copy> there;
  tensor_view view;
};

struct copy_shape {
  extents counts;
  strides steps;
  std::uint64_t bytes = 0;
};

// Dimensions along which values are repeated (stride 0) are copied once.
result<copy_shape> shape_of_copy(const tensor_view& value) {
  copy_shape out;
  out.counts = value.extents;
  for (std::size_t d = 0; d < out.counts.size(); ++d)
    if (value.strides[d] == 0 && out.counts[d] > 1) out.counts[d] = 1;
  out.bytes = value.type.item_bytes();
  for (const std::uint64_t each : out.counts)
    if (!checked_mul(out.bytes, each, out.bytes))
      return error(errc::resource_exhausted, "the value has more than 2^64 bytes");
  out.steps = c_order_strides(out.counts, value.type.item_bytes());
  return out;
}

result<> copy_items(std::byte* items, std::uint64_t count, item_arena& to) {
  for (std::uint64_t i = 0; i < count; ++i) {
    variable_item item;
    std::byte* const at = items + i * sizeof item;
    std::memcpy(&item, at, sizeof item);
    PENSTOCK_ASSIGN(item, to.copy(std::as_bytes(std::span(item.text()))));
    std::memcpy(at, &item, sizeof item);
  }
  return {};
}

// The view of a copy at `data`.
tensor_view view_of_copy(const tensor_view& value, const copy_shape& shape, std::byte* data) {
  tensor_view out = value;
  out.data = data;
  out.strides = shape.steps;
  for (std::size_t d = 0; d < shape.counts.size(); ++d)
    if (shape.counts[d] != value.extents[d]) out.strides[d] = 0;
  return out;
}

// If the device has no memory for a copy, its values are copied to the host, and the call waits for them.
result<copied_values> copy_of_device(const tensor_view& value, const copy_shape& shape, write_options& options,
                                     context_state& with) {
  if (options.device < 0) {
    PENSTOCK_ASSIGN(const std::optional<int> found, device_of(reinterpret_cast<std::uintptr_t>(value.data)));
    if (!found) return error(errc::invalid_argument, "the value is marked as device memory, but is not in it");
    options.device = *found;
  }
  PENSTOCK_ASSIGN(const auto engine, device_tensor_state::engine_of(with, options.device));
  PENSTOCK_TRY(device_tensor_state::check_context(*engine, reinterpret_cast<std::uintptr_t>(value.data)));
  std::optional<cuda::stream_ref> stream;
  if (options.stream) stream = reinterpret_cast<cuda::stream_ref>(*options.stream);
  tensor_view once = value;
  once.extents = shape.counts;
  copied_values out;
  out.there = std::make_unique<device_copy>(engine);
  auto queued = out.there->queue(once, shape.bytes, stream.value_or(engine->write_stream()));
  options.stream.reset();
  if (queued.ok()) {
    out.view = view_of_copy(value, shape, out.there->data());
    if (!stream) PENSTOCK_TRY(out.there->wait([] { return true; }));
    return out;
  }
  const bool may_be_copied = queued.error().code() == errc::resource_exhausted && !options.encoder;
  if (!may_be_copied) return std::move(queued).error();
  out.there = nullptr;
  PENSTOCK_ASSIGN(out.memory, with.outputs().take(shape.bytes));
  out.view = view_of_copy(value, shape, out.memory.data());
  out.view.space = memory_space::host;
  options.convert = true;
  PENSTOCK_TRY(engine->begin_write(stream));
  PENSTOCK_TRY(cuda::copy_to_host(*engine, once, out.memory.data()));
  return out;
}

result<copied_values> copy_of(const tensor_view& value, const copy_shape& shape, output_pool& pool) {
  copied_values out;
  PENSTOCK_ASSIGN(out.memory, pool.take(std::max<std::uint64_t>(1, shape.bytes)));
  out.view = view_of_copy(value, shape, out.memory.data());
  strided_copy(out.memory.data(), shape.steps, value.data, value.strides, shape.counts, value.type.item_bytes(), 1);
  if (value.type.variable_length()) {
    out.items = std::make_unique<item_arena>();
    PENSTOCK_TRY(copy_items(out.memory.data(), shape.bytes / sizeof(variable_item), *out.items));
  }
  return out;
}

}  // namespace

result<write_ticket> array::write_async(const selection& which, const tensor_view& value,
                                        const write_options& options) const {
  PENSTOCK_ASSIGN(const resolved_selection resolved, select(which));
  return write_async(resolved, value, options);
}

result<write_ticket> array::write_async(const resolved_selection& which, const tensor_view& value,
                                        const write_options& options) const {
  const auto checked = [&]() -> result<> {
    PENSTOCK_TRY(check_value(*state_, which.shape, value, options));
    if (value.type.kind() == dtype_kind::object)
      return error(errc::unsupported, "Python objects are written by `write`: they cannot be copied");
    return {};
  };
  if (auto fine = checked(); !fine.ok()) return name_array(std::move(fine).error(), *state_);
  PENSTOCK_ASSIGN(const copy_shape shape, shape_of_copy(value));
  write_queue& queue = state_->context->state().writes();
  PENSTOCK_TRY(queue.make_room(shape.bytes));
  write_options later = options;
  context_state& state = state_->context->state();
  // An empty selection has nothing to copy.
  const bool is_there = value.space == memory_space::cuda && shape.bytes != 0;
  auto copied = is_there ? copy_of_device(value, shape, later, state) : copy_of(value, shape, state.outputs());
  if (!copied.ok()) {
    queue.give_back(shape.bytes);
    return name_array(std::move(copied).error(), *state_);
  }
  const auto values = std::make_shared<copied_values>(std::move(*copied));
  return write_ticket(queue.push(
      shape.bytes,
      [to = *this, which, values, later, bytes = shape.bytes](const queued_write::report_fn& report) -> result<> {
        if (values->there != nullptr) {
          auto arrived = values->there->wait([&] { return report(0, bytes); });
          if (!arrived.ok()) return name_array(std::move(arrived).error(), to.state());
        }
        write_options with = later;
        with.progress = [&](const read_progress& now) {
          const bool user = !later.progress || later.progress(now);
          return report(now.done_bytes, now.total_bytes) && user;
        };
        return to.write(which, values->view, with);
      }));
}

write_ticket::write_ticket(std::shared_ptr<queued_write> of) noexcept : of_(std::move(of)) {}
bool write_ticket::done() const { return of_ == nullptr || of_->done(); }
result<> write_ticket::wait() { return of_ == nullptr ? result<>() : of_->wait(); }
bool write_ticket::wait_for(std::chrono::nanoseconds timeout) { return of_ == nullptr || of_->wait_for(timeout); }
void write_ticket::cancel() noexcept {
  if (of_ != nullptr) of_->cancel();
}
read_progress write_ticket::progress() const {
  return of_ == nullptr ? read_progress() : read_progress{of_->done_bytes(), of_->total_bytes()};
}
void write_ticket::on_done(std::function<void()> then) {
  if (of_ == nullptr) return then();
  of_->on_done(std::move(then));
}

}  // namespace penstock::inline v0
