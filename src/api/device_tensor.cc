#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "api/device_tensor_state.h"
#include "api/read_source.h"
#include "array/check_view.h"
#include "base/checked.h"
#include "cuda/decode/nvcomp.h"
#include "cuda/device_values.h"
#include "cuda/driver.h"
#include "engine/array_state.h"
#include "engine/context_state.h"

namespace penstock::inline v0 {
namespace {

/// Axes of a scatter: those of the array, and two for the bytes of an item.
constexpr std::size_t kMaxDeviceRank = kMaxRank - 2;

result<cuda::stream_ref> stream_of(stream_handle handle) {
  if (handle == 0)
    return error(errc::invalid_argument,
                 "stream 0 is ambiguous: give 1 (legacy) or 2 (per thread), or a stream's handle");
  return reinterpret_cast<cuda::stream_ref>(handle);
}

// Strides are signed, and the pool rounds sizes up.
result<std::uint64_t> bytes_of(const extents& shape, std::uint32_t item_bytes) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t bytes = item_bytes;
  bool fits = true;
  for (const std::uint64_t each : shape) {
    if (each == 0) return std::uint64_t{0};
    fits = fits && checked_mul(bytes, each, bytes) && bytes <= kMost;
  }
  if (!fits) return error(errc::resource_exhausted, "the result has 2^63 bytes or more");
  return bytes;
}

// An invalid address would break the engine at its first copy.
result<> check_memory(const tensor_view& out, const cuda::device_engine& engine) {
  std::int64_t lowest = 0, highest = out.type.item_bytes() - std::int64_t{1};
  for (std::size_t d = 0; d < out.extents.size(); ++d) {
    if (out.extents[d] == 0) return {};
    const std::int64_t reach = out.strides[d] * static_cast<std::int64_t>(out.extents[d] - 1);
    (reach < 0 ? lowest : highest) += reach;
  }
  const auto base = reinterpret_cast<std::intptr_t>(out.data);
  for (const std::int64_t each : {lowest, highest}) {
    PENSTOCK_ASSIGN(const std::optional<int> found, device_of(static_cast<std::uintptr_t>(base + each)));
    if (!found)
      return error(errc::invalid_argument,
                   fmt::format("out reaches from {:#x} to {:#x}, which is not device memory known to the driver",
                               base + lowest, base + highest));
    if (*found != engine.ordinal())
      return error(errc::invalid_argument,
                   fmt::format("out is memory of cuda:{}, the read is for cuda:{}", *found, engine.ordinal()));
    PENSTOCK_TRY(device_tensor_state::check_context(engine, static_cast<std::uintptr_t>(base + each)));
  }
  return {};
}

result<> check_request(const array_state& state, const resolved_selection& which,
                       const std::optional<tensor_view>& out) {
  PENSTOCK_TRY(check_selection(state, which));
  if (state.type.variable_length())
    return error(errc::unsupported,
                 fmt::format("items of variable length ({}) cannot be read into device memory", state.type.name()));
  if (!out) return {};
  if (!(out->extents == which.shape))
    return error(errc::invalid_argument,
                 fmt::format("out has shape {}, the selection {}", to_string(out->extents), to_string(which.shape)));
  return check_view(*out, "out");
}

}  // namespace

result<std::shared_ptr<cuda::device_engine>> device_tensor_state::engine_of(context_state& state, int device) {
  const context_options& options = state.options();
  const device::nvcomp* library = nullptr;
  if (options.device_decoder == "nvcomp") {
    PENSTOCK_ASSIGN(library, device::nvcomp::load(options.nvcomp_library));
  }
  const auto make = [&]() -> result<std::shared_ptr<device_service>> {
    PENSTOCK_ASSIGN(auto made,
                    cuda::device_engine::make(device, {options.page_locked_bytes, options.device_memory_bytes, library,
                                                       options.device_allocator}));
    return std::shared_ptr<device_service>(std::move(made));
  };
  PENSTOCK_ASSIGN(auto service, state.device(device, make));
  return std::static_pointer_cast<cuda::device_engine>(std::move(service));
}

// A kernel in this library's context that accesses memory of another context faults, and destroys the process's
// context.
result<> device_tensor_state::check_context(const cuda::device_engine& engine, std::uintptr_t address) {
  cuda::context_ref owner = nullptr;
  // Null: memory without a context, such as that of stream-ordered pools.
  if (engine.api().pointer_get_attribute(&owner, cuda::kPointerContext, address) != cuda::kSuccess ||
      owner == nullptr || owner == engine.context())
    return {};
  return error(errc::invalid_argument,
               fmt::format("memory at {:#x} belongs to another CUDA context than the primary one of cuda:{}: make it "
                           "with the CUDA runtime, CuPy or torch, or in the primary context",
                           address, engine.ordinal()));
}

result<> device_tensor_state::begin(const resolved_selection& which, const std::optional<tensor_view>& out,
                                    const device_read_options& options) {
  if (from_->closed) {
    PENSTOCK_ASSIGN(const opened_selection opened, open_needed(*from_, which));
    from_ = opened.of.shared_state();
    return begin(opened.which, out, options);
  }
  PENSTOCK_TRY(check_request(*from_, which, out));
  PENSTOCK_TRY(take_memory(which.shape, options.type ? *options.type : from_->type, out));
  if (is_empty(which.shape)) return {};
  source from = source_of(*from_, which, view_.strides, view_.data);
  auto alive =
      std::make_shared<std::pair<std::shared_ptr<const array_state>, decltype(which.indexed)>>(from_, which.indexed);
  if (!from_->parts) return begin({&from, 1}, std::move(alive), "array '" + from_->uri + "'", options);
  PENSTOCK_ASSIGN(part_sources parts, divide_by_parts(*from_, from, nullptr));
  return begin(parts.all, std::move(alive), "array '" + from_->uri + "'", options);
}

result<> device_tensor_state::take_memory(const extents& shape, const dtype& type,
                                          const std::optional<tensor_view>& out) {
  if (out) {
    if (out->space != memory_space::cuda) return error(errc::invalid_argument, "out is not device memory");
    if (!(out->type == type))
      return error(errc::invalid_argument,
                   fmt::format("out has dtype {}, the values {}", out->type.name(), type.name()));
    PENSTOCK_TRY(check_memory(*out, *engine_));
    view_ = *out;
    return {};
  }
  PENSTOCK_ASSIGN(const std::uint64_t bytes, bytes_of(shape, type.item_bytes()));
  if (bytes != 0) {
    PENSTOCK_ASSIGN(block_, engine_->results().take(bytes));
  }
  view_ = tensor_view::contiguous(reinterpret_cast<void*>(block_.address), type, shape);
  view_.space = memory_space::cuda;
  return {};
}

result<> device_tensor_state::begin(std::span<source> sources, std::shared_ptr<const void> keep_alive, std::string note,
                                    const device_read_options& options) {
  for (const source& each : sources) {
    if (each.layout->grid().rank() > kMaxDeviceRank)
      return error(errc::unsupported,
                   fmt::format("reads into device memory support at most {} dimensions, the array has {}",
                               kMaxDeviceRank, each.layout->grid().rank()));
  }
  std::vector<cuda::event_ref> starts;
  if (options.stream) {
    PENSTOCK_ASSIGN(const cuda::stream_ref stream, stream_of(*options.stream));
    PENSTOCK_ASSIGN(const cuda::event_ref event, engine_->take_event_at(stream));
    starts.push_back(event);
  }
  context_state& state = from_->context->state();
  PENSTOCK_ASSIGN(auto made, cuda::device_read::make(engine_, state, std::move(starts), block_.ready));
  PENSTOCK_TRY(made->convert(sources, view_.type));
  for (source& each : sources) each.space = memory_space::cuda;
  read_job::settings settings;
  settings.workers = state.workers_for(options.threads);
  settings.io_concurrency = state.io_concurrency();
  settings.keep_alive = std::move(keep_alive);
  settings.note = std::move(note);
  PENSTOCK_TRY(made->start(sources, std::move(settings), state));
  read_ = std::move(made);
  return {};
}

result<> device_tensor_state::fill(const std::byte* from, std::byte* block) {
  if (block_.address == 0) return {};
  PENSTOCK_ASSIGN(const std::uint64_t bytes, bytes_of(view_.extents, view_.type.item_bytes()));
  auto ready = engine_->results().event_of(block_);
  if (!ready.ok()) {
    if (block != nullptr) engine_->give_block(block);
    return std::move(ready).error();
  }
  PENSTOCK_TRY(engine_->fill(from, bytes, block_, block));
  filled_ = true;
  return {};
}

result<> device_tensor_state::wait_for_fill() {
  if (!filled_) return {};
  const cuda::current_context current(engine_->api(), engine_->context());
  return engine_->api().check(engine_->api().event_synchronize(block_.ready), "cuEventSynchronize");
}

bool device_tensor_state::fill_is_complete() const {
  if (!filled_) return true;
  const cuda::current_context current(engine_->api(), engine_->context());
  return engine_->api().event_query(block_.ready) != cuda::kNotReady;
}

result<> device_tensor_state::wait_queued() {
  if (!read_) return {};
  auto queued = read_->wait_queued();
  if (!queued.ok()) settle();
  return queued;
}

void device_tensor_state::settle() noexcept {
  if (read_ && block_.address == 0 && !handed_.load(std::memory_order_relaxed)) read_->settle();
}

result<> device_tensor_state::order(stream_handle stream) {
  const mutex_lock lock(mutex_);
  if (released_) return error(errc::invalid_argument, "the tensor's memory was released");
  return order_on(stream);
}

result<> device_tensor_state::order_on(stream_handle stream) {
  PENSTOCK_ASSIGN(const cuda::stream_ref on, stream_of(stream));
  if (read_) {
    auto ordered = read_->order(on);
    if (!ordered.ok()) {
      settle();
      return ordered;
    }
    read_->hand_on();
  } else if (block_.ready != nullptr) {
    const cuda::current_context current(engine_->api(), engine_->context());
    PENSTOCK_TRY(engine_->api().check(engine_->api().stream_wait_event(on, block_.ready, 0), "cuStreamWaitEvent"));
  }
  handed_.store(true, std::memory_order_relaxed);
  return {};
}

result<> device_tensor_state::mark_exported() {
  const mutex_lock lock(mutex_);
  if (released_) return error(errc::invalid_argument, "the tensor's memory was released");
  PENSTOCK_TRY(wait_queued());
  if (read_) read_->hand_on();
  handed_.store(true, std::memory_order_relaxed);
  return {};
}

result<> device_tensor_state::release(stream_handle stream) {
  const mutex_lock lock(mutex_);
  PENSTOCK_TRY(order_on(stream));  // after the read, also if the stream never waited for it
  if (block_.address == 0) return {};
  const cuda::driver& with = engine_->api();
  const cuda::current_context current(with, engine_->context(), cuda::driver_calls::queues_only);
  auto* const on = reinterpret_cast<cuda::stream_ref>(stream);
  PENSTOCK_ASSIGN(const cuda::event_ref ready, engine_->results().event_of(block_));
  if (released_) PENSTOCK_TRY(with.check(with.stream_wait_event(on, ready, 0), "cuStreamWaitEvent"));
  PENSTOCK_TRY(with.check(with.event_record(ready, on), "cuEventRecord"));
  released_ = true;
  return {};
}

// The event of the work that writes to the memory; null: no such work.
cuda::event_ref device_tensor_state::end_event() const {
  if (read_) return read_->end_event();
  return filled_ ? block_.ready : nullptr;
}

// The memory is returned with the wait for all work that was queued on it: by us, and by the consumers of an export.
device_tensor_state::~device_tensor_state() {
  if (engine_->is_of_parent()) return;
  if (read_) {
    read_->cancel();
    (void)read_->wait_queued();
    settle();
    read_->leave();
  }
  engine_->end_work(work_, 0, nullptr);
  if (block_.address == 0) return;
  if (released_) {
    engine_->results().give(block_);
    return;
  }
  const cuda::driver& with = engine_->api();
  const cuda::current_context current(with, engine_->context(), cuda::driver_calls::queues_only);
  if (auto ready = engine_->results().event_of(block_);
      !ready.ok() || !engine_->record_end(block_.ready, end_event(), handed_)) {
    // Its last use is not marked by an event: wait for all work.
    (void)engine_->wait_for_all();
  }
  engine_->results().give(block_);
}

device_tensor::device_tensor(std::shared_ptr<device_tensor_state> state) noexcept : state_(std::move(state)) {}
device_tensor::device_tensor(device_tensor&&) noexcept = default;
device_tensor& device_tensor::operator=(device_tensor&&) noexcept = default;
device_tensor::~device_tensor() = default;

const tensor_view& device_tensor::view() const noexcept { return state_->view_; }
int device_tensor::device() const noexcept { return state_->engine_->ordinal(); }
bool device_tensor::queued() const noexcept { return !state_->read_ || state_->read_->queued(); }
bool device_tensor::done() const { return state_->read_ ? state_->read_->complete() : state_->fill_is_complete(); }
result<> device_tensor::wait() {
  if (!state_->read_) return {};
  PENSTOCK_TRY(state_->wait_queued());
  if (state_->block_.address == 0) state_->read_->hand_on();  // the memory is the caller's: no other wait is needed
  return {};
}
bool device_tensor::wait_for(std::chrono::nanoseconds timeout) {
  return !state_->read_ || state_->read_->wait_queued_for(timeout);
}
result<> device_tensor::order(stream_handle stream) { return state_->order(stream); }
result<> device_tensor::release(stream_handle stream) { return state_->release(stream); }
result<DLManagedTensorVersioned*> device_tensor::to_dlpack(stream_handle stream) {
  constexpr std::int32_t kCuda = 2;
  PENSTOCK_TRY(order(stream));
  return penstock::to_dlpack(view(), state_, {kCuda, device()});
}
result<> device_tensor::outcome() { return state_->read_ ? state_->read_->synchronize() : state_->wait_for_fill(); }
void device_tensor::claim_outcome() noexcept {
  if (state_->read_) state_->read_->claim_outcome();
}
result<> device_tensor::synchronize() {
  PENSTOCK_TRY(outcome());
  return state_->engine_->outcome_of_handed(false);
}
void device_tensor::cancel() noexcept {
  if (!state_->read_) return;
  state_->read_->look();
  state_->read_->cancel();
}
read_progress device_tensor::progress() const noexcept {
  if (!state_->read_) return {};
  return {state_->read_->done_bytes(), state_->read_->total_bytes()};
}
void device_tensor::on_queued(std::function<void()> then) {
  if (state_->read_) return state_->read_->on_queued(std::move(then));
  then();
}

result<> device_tensor::copy_to_host(std::byte* to) {
  PENSTOCK_TRY(synchronize());
  const tensor_view& from = view();
  const std::uint32_t item_bytes = from.type.item_bytes();
  PENSTOCK_ASSIGN(const std::uint64_t bytes, bytes_of(from.extents, item_bytes));
  if (bytes == 0) return {};
  PENSTOCK_TRY(state_->engine_->begin_write(std::nullopt));
  return cuda::copy_to_host(*state_->engine_, from, to);
}

namespace {

result<device_tensor> select_and_read(const array& from, const selection& which, const std::optional<tensor_view>& out,
                                      const device_read_options& options) {
  auto resolved = from.select(which);
  if (!resolved.ok()) return std::move(resolved).error().note("array '" + from.uri() + "'");
  return read_to_device(from, *resolved, out, options);
}

}  // namespace

result<device_tensor> read_to_device(const array& from, const resolved_selection& which,
                                     const std::optional<tensor_view>& out, const device_read_options& options) {
  const auto run = [&]() -> result<device_tensor> {
    int device = options.device;
    if (device < 0) {
      PENSTOCK_ASSIGN(device, current_device());
    }
    PENSTOCK_ASSIGN(auto engine, device_tensor_state::engine_of(from.context()->state(), device));
    auto state = std::make_shared<device_tensor_state>(std::move(engine), from.shared_state());
    PENSTOCK_TRY(state->begin(which, out, options));
    device_tensor made(std::move(state));
    if (options.check) PENSTOCK_TRY(made.outcome());
    return made;
  };
  auto made = run();
  if (!made.ok() && made.error().notes().empty()) return std::move(made).error().note("array '" + from.uri() + "'");
  return made;
}

result<device_tensor> read_to_device(const array& from, const selection& which, const device_read_options& options) {
  return select_and_read(from, which, std::nullopt, options);
}

result<device_tensor> read_to_device(const array& from, const selection& which, const tensor_view& out,
                                     const device_read_options& options) {
  return select_and_read(from, which, out, options);
}

class device_stream::state {
 public:
  explicit state(const cuda::driver& with) noexcept : driver(with) {}
  ~state() {
    {
      const cuda::current_context current(driver, context);
      if (stream != nullptr) driver.stream_destroy(stream);  // work that is queued on it still runs
    }
    if (context != nullptr) driver.primary_context_release(device);
  }
  state(const state&) = delete;
  state& operator=(const state&) = delete;

  const cuda::driver& driver;
  cuda::device_number device = 0;
  cuda::context_ref context = nullptr;
  cuda::stream_ref stream = nullptr;
};

result<device_stream> device_stream::make(int device) {
  PENSTOCK_ASSIGN(const cuda::driver* const with, cuda::load_driver());
  auto made = std::make_shared<state>(*with);
  PENSTOCK_TRY(with->check(with->device_get(&made->device, device), "cuDeviceGet"));
  PENSTOCK_TRY(with->check(with->primary_context_retain(&made->context, made->device), "cuDevicePrimaryCtxRetain"));
  const cuda::current_context current(*with, made->context);
  PENSTOCK_TRY(with->check(with->stream_create(&made->stream, cuda::kStreamNonBlocking), "cuStreamCreate"));
  return device_stream(std::move(made));
}

stream_handle device_stream::handle() const noexcept { return reinterpret_cast<stream_handle>(state_->stream); }

result<stream_handle> write_stream(penstock::context& with, int device) {
  PENSTOCK_ASSIGN(const auto engine, device_tensor_state::engine_of(with.state(), device));
  return reinterpret_cast<stream_handle>(engine->write_stream());
}

result<> copy_to_host(penstock::context& with, int device, const tensor_view& from, std::byte* to,
                      std::optional<stream_handle> stream) {
  PENSTOCK_ASSIGN(const auto engine, device_tensor_state::engine_of(with.state(), device));
  std::optional<cuda::stream_ref> after;
  if (stream) {
    PENSTOCK_ASSIGN(after, stream_of(*stream));
  }
  if (is_empty(from.extents)) return {};
  PENSTOCK_TRY(device_tensor_state::check_context(*engine, reinterpret_cast<std::uintptr_t>(from.data)));
  PENSTOCK_TRY(engine->begin_write(after));
  return cuda::copy_to_host(*engine, from, to);
}

result<int> device_count() {
  PENSTOCK_ASSIGN(const cuda::driver* const with, cuda::load_driver());
  return with->devices;
}

result<int> current_device() {
  PENSTOCK_ASSIGN(const cuda::driver* const with, cuda::load_driver());
  return cuda::current_device(*with);
}

result<std::optional<int>> device_of(std::uintptr_t address) {
  PENSTOCK_ASSIGN(const cuda::driver* const with, cuda::load_driver());
  unsigned kind = 0;
  int device = 0;
  if (with->pointer_get_attribute(&kind, cuda::kPointerMemoryType, address) != cuda::kSuccess)
    return std::optional<int>();
  // Managed memory counts as host or device memory according to its last use.
  unsigned managed = 0;
  if (kind != cuda::kMemoryTypeDevice &&
      (with->pointer_get_attribute(&managed, cuda::kPointerIsManaged, address) != cuda::kSuccess || managed == 0))
    return std::optional<int>();
  PENSTOCK_TRY(
      with->check(with->pointer_get_attribute(&device, cuda::kPointerDeviceOrdinal, address), "cuPointerGetAttribute"));
  return std::optional<int>(device);
}

namespace {

// The chain that plans describe: the first one, of the first part if reads divide the array by its parts.
const codec_chain& first_chain(const array_state& state) {
  return state.parts ? first_chain(state.parts->arrays.front().state()) : state.layout->chains()[0];
}

// Needs no device: without one, the answer assumes memory of the usual kind, which copies.
bool reads_in_place(const array& from, const cuda::device_chain& chain, int device) {
  const context_options& options = from.context()->state().options();
  const device::nvcomp* library = nullptr;
  if (options.device_decoder == "nvcomp") {
    if (auto loaded = device::nvcomp::load(options.nvcomp_library); loaded.ok()) library = *loaded;
  }
  return chain.decodes_on_device() && cuda::device_engine::would_read_in_place(device, library);
}

}  // namespace

std::string device_path(const array& from, int device) {
  const cuda::device_chain chain = cuda::split_chain(first_chain(from.state()));
  std::string out = cuda::describe(chain);
  if (reads_in_place(from, chain, device))
    out += "; the device reads the host's memory, so encoded bytes are not copied to it";
  return out;
}

std::string device_path_json(const array& from, int device) {
  const cuda::device_chain chain = cuda::split_chain(first_chain(from.state()));
  json::object_t out = *cuda::to_json(chain).as_object();
  out.emplace_back("copies", !reads_in_place(from, chain, device));
  return json(std::move(out)).dump();
}

}  // namespace penstock::inline v0
