#include <penstock/array.h>

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "api/check_files.h"
#include "api/read_source.h"
#include "array/check_view.h"
#include "array/chunk_grid.h"
#include "array/conversion.h"
#include "base/checked.h"
#include "codec/codec_chain.h"
#include "driver/metadata_edit.h"
#include "engine/array_state.h"
#include "engine/borrowed_job.h"
#include "engine/closed_parts.h"
#include "engine/idle_reads.h"
#include "engine/read_job.h"
#include "plan/indexed_selection.h"

namespace penstock::inline v0 {
namespace {

/// As `kMinParallelReadBytes`, for chunks that are decoded, which takes many times as long as copying them.
constexpr std::uint64_t kMinParallelDecodedBytes = std::uint64_t{128} << 10;
/// The most bytes that are decoded on the calling thread with an interpreter's lock held: well under a millisecond.
constexpr std::uint64_t kMaxInlineBytes = std::uint64_t{512} << 10;

result<> check_out(const array_state& state, const resolved_basic& which, const tensor_view& out,
                   const read_options& options) {
  if (out.space != memory_space::host) return error(errc::unsupported, "out must be host memory");
  if (const dtype& wanted = options.type ? *options.type : state.type; !(out.type == wanted))
    return error(errc::invalid_argument, fmt::format("out has dtype {}, the {} {}", out.type.name(),
                                                     options.type ? "requested type is" : "array has", wanted.name()));
  if (!(out.extents == which.shape))
    return error(errc::invalid_argument,
                 fmt::format("out has shape {}, the selection {}", to_string(out.extents), to_string(which.shape)));
  PENSTOCK_TRY(check_view(out, "out"));
  if (state.type.variable_length() && !options.arena)
    return error(errc::invalid_argument,
                 fmt::format("reading elements of variable length ({}) needs read_options::arena", state.type.name()));
  return {};
}

bool becomes_another(const array_state& state, const read_options& options) noexcept {
  return options.type && !(*options.type == state.type);
}

read_job::settings settings_of(const array_state& state, const read_options& options) {
  read_job::settings out;
  out.workers = state.context->state().workers_for(options.threads);
  out.io_concurrency = state.context->state().io_concurrency();
  out.arena = options.arena;
  out.limits.trim_cells = out.limits.whole_objects = true;
  return out;
}

// Several cells with this many bytes together are one thread's work.
std::uint64_t one_workers_bytes(const chunk_layout& layout) noexcept {
  return layout.chains()[0].stages() == 0 ? kMinParallelReadBytes : kMinParallelDecodedBytes;
}

unsigned useful_workers(const chunk_layout& layout, const read_job& job, unsigned workers) noexcept {
  return job.total_cells() < 2 || job.total_bytes() <= one_workers_bytes(layout) ? 1 : workers;
}

// Runs a job to its end on the calling thread and, if it is worthwhile, on others.
result<> run(const array_state& state, const borrowed_job<read_job>& job, unsigned workers,
             const read_options& options) {
  std::function<void()> poll;
  if (options.progress) {
    poll = [&job, &options] {
      if (!options.progress({job->done_bytes(), job->total_bytes()})) job->cancel();
    };
  }
  state.context->state().executor().run(job.shared(), workers, poll, options.poll_interval);
  return job->outcome();
}

}  // namespace

result<extents> array::result_shape(const selection& which) const {
  PENSTOCK_ASSIGN(const resolved_selection resolved, select(which));
  return resolved.shape;
}

result<resolved_selection> array::select(const selection& which) const {
  if (state_->closed && !std::holds_alternative<basic_selection>(which)) {
    const auto all = state_->closed->all();
    if (!all.ok()) return name_array(all.error().clone(), *state_);
    return all->select(which);
  }
  auto resolved = resolve_any(*state_, which);
  if (!resolved.ok()) return name_array(std::move(resolved).error(), *state_);
  return resolved;
}

bool converts(const dtype& from, const dtype& to) noexcept { return conversion_of(from, to).ok(); }

result<> array::read(const selection& which, const tensor_view& out, const read_options& options) const {
  if (const auto* const basic = std::get_if<basic_selection>(&which)) {
    auto resolved = resolve(*basic, state_->shape);
    if (!resolved.ok()) return name_array(std::move(resolved).error(), *state_);
    return read(*resolved, out, options);
  }
  if (const auto* const lists = std::get_if<orthogonal_selection>(&which); lists != nullptr && state_->closed) {
    const auto opened = open_needed(*state_, *lists);
    if (!opened.ok()) return name_array(opened.error().clone(), *state_);
    return opened->of.read(opened->which, out, options);
  }
  PENSTOCK_ASSIGN(const resolved_selection resolved, select(which));
  return read(resolved, out, options);
}

result<> array::read(const tensor_view& out, const read_options& options) const {
  return read(selection(basic_selection()), out, options);
}

namespace {

// Reads a source on the calling thread and, if it is worthwhile, on others.
result<> read_as_stored(const array_state& state, const source& from, const read_options& options) {
  const borrowed_job job(state.context->state(), state.context->state().take_job());
  // Sharded chunks are found through an index in storage; the lookup of cached chunks does not use it.
  const bool indexed = state.shards && state.caches_indexes;
  if ((!indexed && job->read_kept_cells(from)) || job->read_one_cell(from, options.arena)) return {};
  const read_job::settings settings = settings_of(state, options);
  job->begin({&from, 1}, settings);
  auto done = run(state, job, useful_workers(*state.layout, *job, settings.workers), options);
  if (!done.ok()) return name_array(std::move(done).error(), state);
  return {};
}

// Reads an array by the chunks of its parts.
result<> read_parts(const array_state& state, const source& from, const read_options& options) {
  const auto made = divide_by_parts(state, from, options.type ? &*options.type : nullptr);
  if (!made.ok()) return name_array(made.error().clone(), state);
  const borrowed_job job(state.context->state(), state.context->state().take_job());
  const read_job::settings settings = settings_of(state, options);
  job->begin(made->all, settings);
  auto done = run(state, job, useful_workers(*made->all[0].layout, *job, settings.workers), options);
  if (!done.ok()) return name_array(std::move(done).error(), state);
  return {};
}

result<> read_source(const array_state& state, source&& from, const read_options& options) {
  if (state.parts) return read_parts(state, from, options);
  if (!becomes_another(state, options)) return read_as_stored(state, from, options);
  const auto becomes = conversion_to(*options.type, state);
  if (!becomes.ok()) return name_array(becomes.error().clone(), state);
  from.convert = &*becomes;
  return read_as_stored(state, from, options);
}

}  // namespace

result<> read_converted(const array_state& state, source from, const element_conversion& how,
                        const read_options& options) {
  from.convert = &how;
  return read_as_stored(state, from, options);
}

result<> array::read(const resolved_basic& which, const tensor_view& out, const read_options& options) const {
  if (auto checked = check_out(*state_, which, out, options); !checked.ok())
    return name_array(std::move(checked).error(), *state_);
  if (is_empty(which.shape)) return {};
  if (state_->closed) {
    auto opened = open_needed(*state_, {which, nullptr});
    if (!opened.ok()) return name_array(std::move(opened).error(), *state_);
    return opened->of.read(opened->which, out, options);
  }
  return read_source(*state_, source_of(*state_, which, out.strides, out.data), options);
}

result<> array::read(const resolved_selection& which, const tensor_view& out, const read_options& options) const {
  if (!which.indexed) return read(static_cast<const resolved_basic&>(which), out, options);
  if (state_->closed) {
    const auto all = state_->closed->all();
    if (!all.ok()) return name_array(all.error().clone(), *state_);
    return all->read(which, out, options);
  }
  if (auto checked = check_selection(*state_, which); !checked.ok())
    return name_array(std::move(checked).error(), *state_);
  if (auto checked = check_out(*state_, which, out, options); !checked.ok())
    return name_array(std::move(checked).error(), *state_);
  if (is_empty(which.shape)) return {};
  return read_source(*state_, source_of(*state_, which, out.strides, out.data), options);
}

result<ticket> array::read_async(const selection& which, const tensor_view& out, const read_options& options) const {
  if (const auto* const lists = std::get_if<orthogonal_selection>(&which); lists != nullptr && state_->closed) {
    const auto opened = open_needed(*state_, *lists);
    if (!opened.ok()) return name_array(opened.error().clone(), *state_);
    return opened->of.read_async(opened->which, out, options);
  }
  PENSTOCK_ASSIGN(const resolved_selection resolved, select(which));
  return read_async(resolved, out, options);
}

result<ticket> array::read_async(const resolved_selection& which, const tensor_view& out,
                                 const read_options& options) const {
  if (state_->closed) {
    const auto opened = open_needed(*state_, which);
    if (!opened.ok()) return name_array(opened.error().clone(), *state_);
    return opened->of.read_async(opened->which, out, options);
  }
  if (auto checked = check_selection(*state_, which); !checked.ok())
    return name_array(std::move(checked).error(), *state_);
  if (auto checked = check_out(*state_, which, out, options); !checked.ok())
    return name_array(std::move(checked).error(), *state_);
  struct kept {
    std::shared_ptr<const array_state> state;
    std::shared_ptr<const indexed_selection> selection;
    element_conversion becomes;
    part_sources parts;
  };
  std::shared_ptr<kept> keeps;
  if (which.indexed || state_->parts || becomes_another(*state_, options))
    keeps = std::make_shared<kept>(kept{state_, which.indexed, {}, {}});
  source from = source_of(*state_, which, out.strides, out.data);
  std::span<const source> sources(&from, is_empty(which.shape) ? 0U : 1U);
  if (state_->parts && !sources.empty()) {
    auto made = divide_by_parts(*state_, from, options.type ? &*options.type : nullptr);
    if (!made.ok()) return name_array(std::move(made).error(), *state_);
    keeps->parts = std::move(*made);
    sources = keeps->parts.all;
  } else if (becomes_another(*state_, options)) {
    auto becomes = conversion_to(*options.type, *state_);
    if (!becomes.ok()) return name_array(std::move(becomes).error(), *state_);
    keeps->becomes = *becomes;
    from.convert = &keeps->becomes;
  }
  auto job = state_->context->state().take_background_job();
  read_job::settings settings = settings_of(*state_, options);
  const unsigned workers = settings.workers;
  settings.keep_alive = state_;
  if (keeps) settings.keep_alive = std::move(keeps);
  settings.note = fmt::format("array '{}'", state_->uri);
  job->begin(sources, std::move(settings));
  const chunk_layout& layout = sources.empty() ? *state_->layout : *sources[0].layout;
  try {
    state_->context->state().executor().start(job, useful_workers(layout, *job, workers));
  } catch (const std::system_error&) {
    return name_array(error(errc::resource_exhausted, "the system has no thread for a read"), *state_);
  }
  return ticket(std::move(job));
}

namespace {

// The most cells of an inline read: one, or too few for a second thread. An inline reader may hold a lock that other
// threads would wait for.
std::uint64_t inline_cells(const array_state& state) noexcept {
  const store_traits traits = state.store->traits();
  if (traits.blocking || !traits.inline_completion || state.layout->chains()[0].via_python()) return 0;
  const std::uint64_t cell_bytes = state.layout->chains()[0].decoded_bytes();
  if (cell_bytes == 0) return kMaxInlineBytes;
  const std::uint64_t several = std::min(kMaxInlineBytes, one_workers_bytes(*state.layout)) / cell_bytes;
  return several > 1 ? several : cell_bytes <= kMaxInlineBytes ? 1 : 0;
}

}  // namespace

bool array::runs_inline(const resolved_basic& which) const noexcept {
  const std::uint64_t most = inline_cells(*state_);
  if (most == 0) return false;
  cell_walk walk;
  walk.start(state_->layout->grid(), which.from);
  return walk.total() <= most;
}

bool array::runs_inline(const resolved_selection& which) const noexcept {
  if (!which.indexed) return runs_inline(static_cast<const resolved_basic&>(which));
  std::uint64_t bytes = state_->type.item_bytes();
  for (const std::uint64_t size : which.shape)
    if (!checked_mul(bytes, size, bytes)) return false;
  return bytes <= kMaxInlineBytes && which.indexed->cells() <= inline_cells(*state_);
}

result<array::check_report> array::check(const read_options& options, std::size_t max_failures) const {
  auto whole = resolve(basic_selection(), state_->shape);
  if (!whole.ok()) return name_array(std::move(whole).error(), *state_);
  check_report out;
  if (is_empty(whole->shape)) {
    check_files(*state_, out, max_failures);
    return out;
  }
  const source from = source_of(*state_, *whole, c_order_strides(whole->shape, state_->type.item_bytes()), nullptr);
  std::vector<cell_failure> failures;
  const borrowed_job job(state_->context->state(), state_->context->state().take_job());
  read_job::settings settings = settings_of(*state_, options);
  settings.failures = &failures;
  settings.max_failures = max_failures;
  settings.limits.trim_cells = settings.limits.whole_objects = false;
  settings.limits.max_fetch_bytes = 0;  // one request a cell: a bad range then does not affect neighbours
  const unsigned workers = settings.workers;
  job->begin({&from, 1}, std::move(settings));
  auto done = run(*state_, job, useful_workers(*state_->layout, *job, workers), options);
  if (!done.ok()) return name_array(std::move(done).error(), *state_);
  out.cells = job->total_cells();
  out.absent = job->absent_cells();
  out.failed = job->failed_cells();
  out.encoded_bytes = job->encoded_bytes();
  out.decoded_bytes = job->done_bytes();
  for (cell_failure& each : failures) {
    out.failures.push_back({each.cell == kWholeObject ? "index" : state_->layout->describe(each.cell),
                            name_array(std::move(each.what), *state_)});
  }
  check_files(*state_, out, max_failures);
  return out;
}

ticket::ticket(std::shared_ptr<read_job> job) noexcept : job_(std::move(job)) {}
ticket::ticket(ticket&&) noexcept = default;

ticket& ticket::operator=(ticket&& other) noexcept {
  if (this != &other) {
    ticket old(std::move(job_));  // cancels and waits
    job_ = std::move(other.job_);
  }
  return *this;
}

ticket::~ticket() {
  if (!job_) return;
  if (job_->is_of_parent()) {
    // Left as it is, unless it has ended: its workers do not exist here.
    if (!job_->done()) static_cast<void>(new std::shared_ptr<read_job>(std::move(job_)));
    return;
  }
  job_->cancel();
  job_->wait();
  if (const auto home = job_->home()) home->give(std::move(job_));
}

bool ticket::done() const noexcept { return !job_ || job_->is_of_parent() || job_->done(); }

result<> ticket::wait() {
  if (!job_) return error(errc::invalid_argument, "this ticket was moved from");
  if (job_->is_of_parent()) {
    if (!job_->done()) return error(errc::unsupported, "this read belongs to the process that was forked");
  } else {
    job_->wait();
  }
  return job_->outcome();
}

bool ticket::wait_for(std::chrono::nanoseconds timeout) {
  return !job_ || job_->is_of_parent() || job_->wait_for(timeout);
}

void ticket::cancel() noexcept {
  if (job_ && !job_->is_of_parent()) job_->cancel();
}

read_progress ticket::progress() const noexcept {
  if (!job_) return {};
  return {job_->done_bytes(), job_->total_bytes()};
}

void ticket::on_done(std::function<void()> then) {
  if (!job_) return;
  if (job_->is_of_parent()) return then();
  job_->on_done(std::move(then));
}

}  // namespace penstock::inline v0
