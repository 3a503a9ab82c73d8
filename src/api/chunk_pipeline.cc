#include "api/chunk_pipeline.h"

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <penstock/extend/json.h>
#include "api/device_tensor_state.h"
#include "array/chunk_grid.h"
#include "base/checked.h"
#include "codec/codec_chain.h"
#include "cuda/chain_split.h"
#include "cuda/device_read.h"
#include "cuda/device_values.h"
#include "engine/borrowed_job.h"
#include "engine/context_state.h"
#include "engine/read_job.h"
#include "engine/write_job.h"
#include "format/zarr/zarr_layout.h"
#include "format/zarr/zarr_metadata.h"
#include "format/zarr/zarr_v2.h"

namespace penstock::inline v0 {
namespace {

/// The layout of an array that is one chunk, whose whole key is in the source's prefix.
class one_chunk_layout final : public chunk_layout {
 public:
  explicit one_chunk_layout(std::shared_ptr<const chunk_layout> of) noexcept : of_(std::move(of)) {}

  const chunk_grid& grid() const override { return of_->grid(); }
  const chunk_grid& write_grid() const override { return of_->write_grid(); }
  std::span<const codec_chain> chains() const override { return of_->chains(); }
  result<> locate(std::span<const cell_id> cells, const index_lookup& known, std::span<chunk_extent> out,
                  std::vector<index_request>& missing) const override {
    return of_->locate(cells, known, out, missing);
  }
  result<index_ptr> parse(const index_request& request, std::span<const std::byte> bytes,
                          std::uint64_t object_size) const override {
    return of_->parse(request, bytes, object_size);
  }
  void key(object_id, std::string& out) const override { out.clear(); }
  const object_assembler* assembler() const override { return of_->assembler(); }
  std::string describe(cell_id cell) const override { return of_->describe(cell); }

 private:
  std::shared_ptr<const chunk_layout> of_;
};

/// Reads from another store, and returns puts to the owner of the items: they are not written to any store.
class keeping_store final : public store {
 public:
  keeping_store(const store& from, std::span<const chunk_item> items, std::span<chunk_written> out) : from_(from) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      out[i].erased = true;  // nothing is put, so nothing can be listed
      places_.emplace_back(items[i].key, &out[i]);
    }
    std::sort(places_.begin(), places_.end());
  }

  store_traits traits() const override {
    store_traits traits = from_.traits();
    traits.writable = traits.inline_writes = true;
    return traits;
  }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override {
    from_.read(reads, sink, std::move(stop));
  }
  result<version> put(std::string_view key, std::span<const penstock::part> parts, const write_condition&) override {
    chunk_written& out = place_of(key);
    out.erased = false;
    out.object.clear();
    for (const penstock::part& each : parts) out.object.insert(out.object.end(), each.begin(), each.end());
    return version();
  }
  result<> erase(std::string_view key, const write_condition&) override {
    chunk_written& out = place_of(key);
    out.erased = true;
    out.object.clear();
    return {};
  }
  std::string uri() const override { return from_.uri(); }

 private:
  chunk_written& place_of(std::string_view key) const {
    const auto before = [](const auto& a, std::string_view wanted) { return a.first < wanted; };
    return *std::lower_bound(places_.begin(), places_.end(), key, before)->second;
  }

  const store& from_;
  std::vector<std::pair<std::string_view, chunk_written*>> places_;
};

unsigned useful_workers(std::uint64_t cells, std::uint64_t bytes, unsigned asked, const context& with) noexcept {
  if (cells < 2 || bytes <= kMinParallelReadBytes) return 1;
  return with.state().workers_for(asked);
}

}  // namespace

result<std::shared_ptr<const chunk_pipeline>> chunk_pipeline::compile(std::string_view document) {
  result<json> parsed = json::parse(document);
  if (!parsed.ok()) return std::move(parsed).error().note("parsing a chunk's metadata");
  // The chunk's shape in a .zarray is passed with its key; zarr.json has a chunk grid.
  const bool v2 = parsed->find("chunks") != nullptr;
  PENSTOCK_ASSIGN(zarr_metadata metadata, v2 ? parse_zarr_v2_array(*parsed, nullptr) : parse_zarr_metadata(*parsed));
  PENSTOCK_ASSIGN(const std::shared_ptr<const zarr_layout> layout, zarr_layout::make(metadata));
  if (!(metadata.shape == metadata.grid.chunk)) {
    return error(errc::invalid_argument, fmt::format("a pipeline is for one chunk, not for shape {} in chunks {}",
                                                     to_string(metadata.shape), to_string(metadata.grid.chunk)));
  }
  std::shared_ptr<chunk_pipeline> made(new chunk_pipeline);
  made->layout_ = std::make_shared<one_chunk_layout>(layout);
  made->type_ = metadata.type;
  made->chunk_ = metadata.shape;
  made->fill_value_ = std::move(metadata.fill_value);
  made->fill_text_ = std::move(metadata.fill_text);
  made->sharded_ = layout->depth() != 0;
  made->codecs_text_ = layout->describe_codecs();
  made->chunk_bytes_ = metadata.type.item_bytes();
  for (const std::uint64_t length : metadata.shape) made->chunk_bytes_ *= length;  // the layout has checked the product
  return std::shared_ptr<const chunk_pipeline>(std::move(made));
}

source chunk_pipeline::source_of(const store& from, const chunk_item& item) const noexcept {
  source out;
  out.layout = layout_.get();
  out.store = &from;
  out.prefix = item.key;
  out.from = item.part;
  out.to = item.at;
  out.to_strides = item.strides;
  out.fill = fill_value_.data();
  return out;
}

std::uint64_t chunk_pipeline::touched_bytes(const strided_box& wanted) const noexcept {
  cell_walk walk;
  walk.start(layout_->grid(), wanted);
  std::uint64_t bytes = 0;
  return checked_mul(walk.total(), layout_->chains()[0].decoded_bytes(), bytes) ? bytes : byte_range::kAll;
}

result<> chunk_pipeline::read(penstock::context& with, const store& from, std::span<const chunk_item> items,
                              std::span<std::uint8_t> missing, const read_options& options) const {
  if (items.empty()) return {};
  std::vector<source> sources;
  sources.reserve(items.size());
  for (const chunk_item& item : items) sources.push_back(source_of(from, item));
  context_state& state = with.state();
  const borrowed_job job(state, state.take_job());
  read_job::settings settings;
  settings.workers = with.state().workers_for(options.threads);
  settings.io_concurrency = state.io_concurrency();
  settings.missing = missing;
  settings.limits.whole_objects = true;
  job->begin(sources, settings);
  std::function<void()> poll;
  if (options.progress) {
    poll = [&job, &options] {
      if (!options.progress({job->done_bytes(), job->total_bytes()})) job->cancel();
    };
  }
  const unsigned workers = useful_workers(job->total_cells(), job->total_bytes(), settings.workers, with);
  state.executor().run(job.shared(), workers, poll, options.poll_interval);
  return job->outcome();
}

result<> chunk_pipeline::read_to_device(const std::shared_ptr<penstock::context>& with, const store& from,
                                        std::span<const chunk_item> items, std::span<std::uint8_t> missing, int device,
                                        std::optional<std::uintptr_t> stream, const read_options& options) const {
  if (type_.variable_length())
    return error(errc::unsupported,
                 fmt::format("items of variable length ({}) cannot be read into device memory", type_.name()));
  if (stream == 0) return error(errc::invalid_argument, "stream 0 is ambiguous: 1 is the legacy stream, 2 per thread");
  std::vector<source> sources;
  for (const chunk_item& item : items) {
    const bool empty =
        std::any_of(item.part.begin(), item.part.end(), [](const auto& each) { return each.count == 0; });
    if (empty) continue;
    sources.push_back(source_of(from, item));
    sources.back().space = memory_space::cuda;
  }
  if (sources.empty()) return {};
  if (sources.size() != items.size()) missing = {};
  context_state& state = with->state();
  PENSTOCK_ASSIGN(const auto engine, device_tensor_state::engine_of(state, device));
  auto* const on = reinterpret_cast<cuda::stream_ref>(stream.value_or(0));
  std::vector<cuda::event_ref> starts;
  if (stream) {
    PENSTOCK_ASSIGN(const cuda::event_ref begun, engine->take_event_at(on));
    starts.push_back(begun);
  } else {
    PENSTOCK_TRY(engine->wait_for_all());
  }
  PENSTOCK_ASSIGN(const auto read, cuda::device_read::make(engine, state, std::move(starts)));
  read_job::settings settings;
  settings.workers = with->state().workers_for(options.threads);
  settings.io_concurrency = state.io_concurrency();
  settings.missing = missing;
  settings.keep_alive = with;
  PENSTOCK_TRY(read->start(sources, std::move(settings), state));
  if (options.progress) {
    while (!read->wait_queued_for(options.poll_interval))
      if (!options.progress({read->done_bytes(), read->total_bytes()})) read->cancel();
  }
  if (!stream) return read->synchronize();
  auto queued = read->order(on);
  if (!queued.ok()) {
    (void)read->synchronize();  // after this, the caller's memory is no longer written to
    return queued;
  }
  read->hand_on();
  return {};
}

std::string chunk_pipeline::device_path() const { return cuda::describe(cuda::split_chain(layout_->chains()[0])); }

result<ticket> chunk_pipeline::start(const std::shared_ptr<penstock::context>& with, const store& from,
                                     const chunk_item& item, std::span<std::uint8_t> missing) const {
  const source wanted = source_of(from, item);
  auto job = with->state().take_background_job();
  read_job::settings settings;
  settings.workers = 1;
  settings.io_concurrency = with->state().io_concurrency();
  settings.missing = missing;
  settings.limits.whole_objects = true;
  settings.keep_alive = with;
  job->begin({&wanted, 1}, std::move(settings));
  try {
    with->state().executor().start(job, 1);
  } catch (const std::system_error&) {
    return error(errc::resource_exhausted, "the system has no thread for a read");
  }
  return ticket(std::move(job));
}

result<> chunk_pipeline::write(penstock::context& with, const store& from, store* to, std::span<const chunk_item> items,
                               const write_options& options, std::vector<chunk_written>& out) const {
  out.clear();
  out.resize(items.size());
  std::optional<cuda::device_values> values;
  if (options.values_on) {
    PENSTOCK_ASSIGN(const auto engine, device_tensor_state::engine_of(with.state(), options.values_on->device));
    PENSTOCK_ASSIGN(const conversion same, conversion_of(type_, type_));
    const std::optional<std::uintptr_t> stream = options.values_on->stream;
    if (!stream) PENSTOCK_TRY(engine->wait_for_all());
    std::optional<cuda::stream_ref> after;
    if (stream) after = reinterpret_cast<cuda::stream_ref>(*stream);
    PENSTOCK_TRY(engine->begin_write(after));
    values.emplace(engine, same);
  }
  if (items.empty()) return {};
  std::optional<keeping_store> kept;
  if (to == nullptr) kept.emplace(from, items, out);
  store& target = to == nullptr ? *kept : *to;
  std::vector<source> sources;
  std::vector<std::uint8_t> replaced;
  sources.reserve(items.size());
  replaced.reserve(items.size());
  for (const chunk_item& item : items) {
    for (const axis_range& each : item.part)
      if (each.count == 0) return error(errc::invalid_argument, fmt::format("no elements to write to '{}'", item.key));
    sources.push_back(source_of(from, item));
    replaced.push_back(item.replaces ? 1 : 0);
  }
  context_state& state = with.state();
  const borrowed_job job(state, state.take_write_job());
  write_job::settings settings;
  settings.workers = state.workers_for(options.threads);
  settings.to = &target;
  settings.write_empty_chunks = options.write_empty_chunks;
  settings.values = values ? &*values : nullptr;
  // As in the library that owns these arrays: if two writers write one chunk, the last one wins.
  settings.conditional = sharded_;
  settings.replaced = replaced;
  job->begin(sources, settings);
  std::function<void()> poll;
  if (options.progress) {
    poll = [&job, &options] {
      if (!options.progress({job->done_bytes(), job->total_bytes()})) job->cancel();
    };
  }
  const unsigned workers = useful_workers(job->total_cells(), job->total_bytes(), job->workers(), with);
  state.executor().run(job.shared(), workers, poll, options.poll_interval);
  return job->outcome();
}

}  // namespace penstock::inline v0
