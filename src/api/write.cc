#include <penstock/array.h>

#include <algorithm>

#include <fmt/format.h>

#include "api/device_tensor_state.h"
#include "api/fenced_write.h"
#include "api/read_source.h"
#include "array/check_view.h"
#include "array/conversion.h"
#include "base/checked.h"
#include "codec/codec_chain.h"
#include "cuda/device_encoder.h"
#include "cuda/device_values.h"
#include "cuda/encode_choice.h"
#include "driver/metadata_edit.h"
#include "driver/node_mode.h"
#include "engine/array_state.h"
#include "engine/borrowed_job.h"
#include "engine/write_job.h"

namespace penstock::inline v0 {
namespace {

/// Below this size, passing work to another thread costs more than it saves.
constexpr std::uint64_t kMinParallelWriteBytes = std::uint64_t{256} << 10;
/// From this number of objects it is worthwhile even for a blocking store: creating and renaming a file takes a tenth
/// of a millisecond, mostly in the kernel.
constexpr std::uint64_t kMinParallelPuts = 4;

unsigned useful_workers(const write_job& job, const store& to, unsigned workers) {
  if (job.total_cells() < 2) return 1;
  if (job.total_bytes() >= kMinParallelWriteBytes) return workers;
  const std::uint64_t objects = job.total_objects();
  const store_traits traits = to.traits();
  if (objects < kMinParallelPuts || !traits.blocking || !traits.inline_writes) return 1;
  return static_cast<unsigned>(std::min<std::uint64_t>(workers, objects / 2));
}

/// The settings of the writer for all its writes.
struct writer {
  write_fence* fence = nullptr;
  edge_watch* edges = nullptr;
  bool skip_unchanged = false;
};

result<> run(const array_state& state, const source& from, const write_options& options, const writer& who,
             cell_source* values = nullptr) {
  const borrowed_job job(state.context->state(), state.context->state().take_write_job());
  write_job::settings settings;
  settings.workers = state.context->state().workers_for(options.threads);
  settings.to = &writable_store(state);
  settings.durable = options.durable;
  settings.write_empty_chunks = options.write_empty_chunks;
  settings.values = values;
  settings.fence = who.fence;
  settings.edges = who.edges;
  settings.skip_unchanged = who.skip_unchanged;
  job->begin({&from, 1}, settings);
  std::function<void()> poll;
  if (options.progress) {
    poll = [&job, &options] {
      if (!options.progress({job->done_bytes(), job->total_bytes()})) job->cancel();
    };
  }
  state.context->state().executor().run(job.shared(), useful_workers(*job.shared(), *settings.to, job->workers()), poll,
                                        options.poll_interval);
  auto done = job->outcome();
  // Objects that were written before a failure must become visible too.
  auto flushed = settings.to->flush();
  if (done.ok()) done = std::move(flushed);
  return done;
}

result<> named(result<> done, const array_state& state) {
  if (done.ok()) return done;
  return name_array(std::move(done).error(), state);
}

result<> run_from_host(const array_state& state, source from, const dtype& type, const write_options& options,
                       const writer& who) {
  element_conversion becomes;
  if (!(type == state.type)) {
    PENSTOCK_ASSIGN(becomes.how, conversion_of(type, state.type));
    from.convert = &becomes;
  }
  return run(state, from, options, who);
}

// The chunks are stored unchanged.
bool is_plain(const chunk_layout& layout) { return layout.chains().size() == 1 && layout.chains()[0].is_plain(); }

// How many chunks a box replaces as a whole.
std::uint64_t whole_chunks(const array_state& state, const resolved_basic& which) {
  std::uint64_t out = 1;
  for (std::size_t d = 0; d < state.shape.size(); ++d) {
    const axis_range& range = which.from[d];
    const std::uint64_t chunk = std::max<std::uint64_t>(1, state.chunks[d]);
    if (range.count == 0) return 0;
    if (range.step != 1 && range.step != -1 && chunk != 1) return 0;
    const auto start = static_cast<std::uint64_t>(range.start);
    const std::uint64_t last = start + (range.count - 1) * static_cast<std::uint64_t>(range.step);
    const std::uint64_t begin = std::min(start, last), end = std::max(start, last) + 1;
    const std::uint64_t first_whole = (begin + chunk - 1) / chunk, end_whole = end / chunk;
    const std::uint64_t steps = chunk == 1 ? range.count : end_whole - std::min(end_whole, first_whole);
    if (!checked_mul(out, steps, out)) return ~std::uint64_t{0};
  }
  return out;
}

result<cuda::encode_choice> choose_encoder(const array_state& state, const resolved_basic& which, unsigned threads,
                                           int device) {
  PENSTOCK_ASSIGN(const cuda::driver* const with, cuda::load_driver());
  cuda::device_number number = 0;
  PENSTOCK_TRY(with->check(with->device_get(&number, device), "cuDeviceGet"));
  PENSTOCK_ASSIGN(cuda::encode_work work, cuda::device_part_of(*with, number));
  work.chunks = whole_chunks(state, which);
  work.workers = state.context->state().workers_for(threads);
  if (const auto given = state.context->state().options().device_memory_bytes; given != 0) work.memory_bytes = given;
  return cuda::choose_encoder(state.layout->chains()[0], work);
}

// Values in device memory are transferred cell by cell; all at once if the selection is not a box.
result<> run_from_device(const array_state& state, const resolved_selection& which, const tensor_view& value,
                         const write_options& options, const writer& who) {
  int device = options.device;
  if (device < 0) {
    PENSTOCK_ASSIGN(const std::optional<int> found, device_of(reinterpret_cast<std::uintptr_t>(value.data)));
    if (!found) return error(errc::invalid_argument, "the value is marked as device memory, but is not in it");
    device = *found;
  }
  PENSTOCK_ASSIGN(const conversion how, conversion_of(value.type, state.type));
  PENSTOCK_ASSIGN(const auto engine, device_tensor_state::engine_of(state.context->state(), device));
  PENSTOCK_TRY(device_tensor_state::check_context(*engine, reinterpret_cast<std::uintptr_t>(value.data)));
  std::optional<cuda::stream_ref> stream;
  if (options.stream) stream = reinterpret_cast<cuda::stream_ref>(*options.stream);
  PENSTOCK_TRY(engine->begin_write(stream));
  const chunk_encoder wanted = options.encoder.value_or(state.context->state().options().encoder);
  if (!which.indexed) {
    const source from = source_of(state, which, value.strides, value.data);
    bool encodes = wanted == chunk_encoder::device;
    if (wanted == chunk_encoder::automatic) {
      const auto choice = choose_encoder(state, which, options.threads, device);
      encodes = choice.ok() && choice->on_device;
    }
    // Without a codec there is nothing to encode.
    if (encodes && !is_plain(*state.layout)) {
      auto encoder = cuda::device_encoder::make(engine, how, from);
      if (encoder.ok()) return run(state, from, options, who, encoder->get());
      const bool may_be_left = options.encoder != chunk_encoder::device && encoder.error().code() == errc::unsupported;
      if (!may_be_left) return std::move(encoder).error().note("use encoder='host'");
    }
    cuda::device_values values(engine, how);
    return run(state, from, options, who, &values);
  }
  if (how.converts()) return error(errc::unsupported, "values in device memory are converted for slices only");
  std::uint64_t bytes = value.type.item_bytes();
  for (const std::uint64_t each : value.extents)
    if (!checked_mul(bytes, each, bytes)) return error(errc::resource_exhausted, "the value has more than 2^64 bytes");
  PENSTOCK_ASSIGN(const output_block here, state.context->state().outputs().take(bytes));
  PENSTOCK_TRY(cuda::copy_to_host(*engine, value, here.data()));
  return run(state, source_of(state, which, c_order_strides(value.extents, value.type.item_bytes()), here.data()),
             options, who);
}

result<> write_box(const array_state& state, const resolved_basic& which, const tensor_view& value,
                   const write_options& options, const writer& who) {
  if (auto checked = check_value(state, which.shape, value, options); !checked.ok())
    return name_array(std::move(checked).error(), state);
  if (is_empty(which.shape)) return {};
  if (value.space == memory_space::cuda) {
    resolved_selection box;
    static_cast<resolved_basic&>(box) = which;
    return named(run_from_device(state, box, value, options, who), state);
  }
  return named(run_from_host(state, source_of(state, which, value.strides, value.data), value.type, options, who),
               state);
}

}  // namespace

result<> check_value(const array_state& state, const extents& shape, const tensor_view& value,
                     const write_options& options) {
  PENSTOCK_TRY(check_writable(state));
  if (value.space == memory_space::cuda || options.convert) {
    PENSTOCK_TRY(conversion_of(value.type, state.type));
  } else if (!(value.type == state.type))
    return error(errc::invalid_argument,
                 fmt::format("the value has dtype {}, the array {}", value.type.name(), state.type.name()));
  if (value.space != memory_space::cuda && options.encoder == chunk_encoder::device)
    return error(errc::invalid_argument, "encoder='device' is for values in device memory");
  if (!(value.extents == shape))
    return error(errc::invalid_argument,
                 fmt::format("the value has shape {}, the selection {}", to_string(value.extents), to_string(shape)));
  return check_view(value, "the value");
}

result<> write_fenced(const array& to, const basic_selection& which, const tensor_view& value,
                      const write_options& options, write_fence& fence, bool skip_unchanged) {
  PENSTOCK_ASSIGN(const resolved_basic resolved, resolve(which, to.state().shape));
  return write_box(to.state(), resolved, value, options, {&fence, nullptr, skip_unchanged});
}

bool array::read_only() const { return !check_writable_now(*state_).ok(); }
bool group::read_only() const { return !check_writable_now(*state_).ok(); }

result<> array::write(const selection& which, const tensor_view& value, const write_options& options) const {
  if (const auto* const basic = std::get_if<basic_selection>(&which)) {
    auto resolved = resolve(*basic, state_->shape);
    if (!resolved.ok()) return name_array(std::move(resolved).error(), *state_);
    return write(*resolved, value, options);
  }
  PENSTOCK_ASSIGN(const resolved_selection resolved, select(which));
  return write(resolved, value, options);
}

result<> array::write(const resolved_basic& which, const tensor_view& value, const write_options& options) const {
  const auto edges = watch_edges(*state_, false);
  return write_box(*state_, which, value, options, {nullptr, edges.get(), false});
}

result<> array::write(const resolved_selection& which, const tensor_view& value, const write_options& options) const {
  if (!which.indexed) return write(static_cast<const resolved_basic&>(which), value, options);
  if (auto checked = check_value(*state_, which.shape, value, options); !checked.ok())
    return name_array(std::move(checked).error(), *state_);
  if (is_empty(which.shape)) return {};
  const auto edges = watch_edges(*state_, true);
  const writer who{nullptr, edges.get(), false};
  if (value.space == memory_space::cuda) return named(run_from_device(*state_, which, value, options, who), *state_);
  return named(run_from_host(*state_, source_of(*state_, which, value.strides, value.data), value.type, options, who),
               *state_);
}

std::string device_encoder_choice(const array& to, const resolved_selection& which, int device) {
  if (which.indexed) return "the host: lists, points and masks are copied to the host as a whole";
  const auto choice = choose_encoder(to.state(), which, 0, device);
  return choice.ok() ? choice->why : "the host: " + choice.error().message();
}

}  // namespace penstock::inline v0
