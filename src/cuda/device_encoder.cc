#include "cuda/device_encoder.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "codec/codec_chain.h"
#include "cuda/decode/decode_layout.h"
#include "cuda/encode/encode_parts.h"
#include "cuda/encode_chain.h"
#include "cuda/move_plan.h"

namespace penstock::inline v0::cuda {
result<std::unique_ptr<device_encoder>> device_encoder::make(std::shared_ptr<device_engine> engine,
                                                             const conversion& how, const source& from) {
  if (from.layout->chains().size() != 1)
    return error(errc::unsupported, "arrays with several codec chains have no device encoder");
  PENSTOCK_ASSIGN(device::encode_plan plan, plan_encode(from.layout->chains()[0]));
  std::unique_ptr<device_encoder> made(new device_encoder(std::move(engine), how, from, std::move(plan)));
  PENSTOCK_TRY(made->start());
  return made;
}

result<> device_encoder::start() {
  const driver& api = engine_->api();
  const current_context current(api, engine_->context());
  for (stream_ref* const each : {&encode_, &fetch_})
    PENSTOCK_TRY(api.check(api.stream_create(each, kStreamNonBlocking), "cuStreamCreate"));
  // `begin_write` has made this stream wait for the stream that the values are ordered on.
  PENSTOCK_ASSIGN(const event_ref ordered, engine_->take_event_at(engine_->write_stream()));
  auto waits = api.check(api.stream_wait_event(encode_, ordered, 0), "cuStreamWaitEvent");
  engine_->give_event(ordered);
  PENSTOCK_TRY(std::move(waits));
  const mutex_lock lock(mutex_);
  walk_.start(from_);
  most_cells_ = most_wave_chunks(plan_, engine_->memory_limit());
  ended_ = most_cells_ == 0;
  return {};
}

// Queued copies still write to memory that could be reused; if the driver failed, the memory is never reused.
device_encoder::~device_encoder() {
  const driver& api = engine_->api();
  const current_context current(api, engine_->context());
  bool quiet = true;
  for (const stream_ref each : {encode_, fetch_}) {
    if (each == nullptr) continue;
    quiet = api.stream_synchronize(each) == kSuccess && quiet;
    api.stream_destroy(each);
  }
  for (wave& each : waves_)
    if (quiet) give_back(each);
}

void device_encoder::give_back(wave& what) noexcept {
  for (timed_span* const each : std::exchange(what.spans, {})) engine_->record_span(each, 0, 0, false);
  if (what.ready != nullptr) engine_->give_event(std::exchange(what.ready, nullptr));
  if (what.memory.address != 0) engine_->results().give(std::exchange(what.memory, {}));
  for (std::byte** const each : {&what.head, &what.block})
    if (*each != nullptr) engine_->give_block(std::exchange(*each, nullptr));
}

void device_encoder::close(const wave& what) noexcept {
  const auto found = std::find_if(waves_.begin(), waves_.end(), [&](const wave& each) { return &each == &what; });
  give_back(*found);
  waves_.erase(found);
}

// The next cells that the device encodes: those of which the write replaces every element.
std::vector<cell_id> device_encoder::next_cells() {
  std::vector<cell_id> out;
  placement where;
  while (out.size() < most_cells_) {
    if (next_ == object_.cells.size()) {
      next_ = 0;
      if (!walk_.next(object_)) {
        object_.cells.clear();
        ended_ = true;
        break;
      }
      continue;
    }
    const cell_id cell = object_.cells[next_++];
    if (place_cell(from_, cell, where) && where.target.covers_cell) out.push_back(cell);
  }
  return out;
}

result<> device_encoder::open_wave() {
  wave made;
  made.cells = next_cells();
  if (made.cells.empty()) return {};
  made.chunks = static_cast<std::uint32_t>(made.cells.size()) + (fill_queued_ ? 0 : 1);
  const std::uint64_t item_bytes = device::aligned(how_.to_bytes);
  auto memory = engine_->results().take(plan_.bytes(made.chunks) + item_bytes);
  if (!memory.ok()) {
    ended_ = true;  // the host encodes the rest
    return {};
  }
  made.memory = *memory;
  made.head = engine_->ring().take(plan_.table_bytes(made.chunks) + item_bytes);
  if (made.head == nullptr) {
    give_back(made);  // the host encodes these cells
    return {};
  }
  wave& added = waves_.emplace_back(std::move(made));
  PENSTOCK_TRY(queue(added));
  added.waiting = added.cells.size();
  for (std::size_t i = 0; i < added.cells.size(); ++i) places_.insert({added.cells[i], {&added, i}});
  return {};
}

result<std::uint64_t> device_encoder::gather(const placement& where, device_address to) {
  std::vector<move_axis> axes;
  const move_item item = plan_gather(where, how_, to, axes);
  return engine_->copy(item, axes, encode_);
}

// A cell of the fill value, from one item of it in device memory.
result<std::uint64_t> device_encoder::gather_fill(device_address item, device_address to) {
  const codec_chain& chain = from_.layout->chains()[0];
  placement where;
  where.counts = chain.cell();
  where.target.data = reinterpret_cast<std::byte*>(item);
  where.target.strides = strides(where.counts.size(), 0);
  conversion same;
  same.from_bytes = same.to_bytes = chain.type().item_bytes();
  std::vector<move_axis> axes;
  const move_item items = plan_gather(where, same, to, axes);
  return engine_->copy(items, axes, encode_);
}

result<> device_encoder::queue(wave& what) {
  const driver& api = engine_->api();
  const current_context current(api, engine_->context());
  if (what.memory.ready != nullptr)
    PENSTOCK_TRY(api.check(api.stream_wait_event(encode_, what.memory.ready, 0), "cuStreamWaitEvent"));
  const device_address block = what.memory.address;
  const std::uint64_t tables = plan_.table_bytes(what.chunks), item_at = plan_.bytes(what.chunks);
  std::vector<device::kernel_launch> launches;
  plan_.emit(what.chunks, {what.head, static_cast<std::size_t>(tables)}, block, launches);
  PENSTOCK_TRY(api.check(api.copy_to_device(block, what.head, tables, encode_), "cuMemcpyHtoDAsync"));
  const auto kept = [&](timed_span* span) {
    if (span != nullptr) what.spans.push_back(span);
    return span;
  };
  timed_span* const encoding = kept(engine_->begin_span(recorded_as_, stage::encode, kEncodeWorker, encode_));
  timed_span* const gathering = kept(engine_->begin_kernel(recorded_as_, kGatherKernel, 0, encode_));
  std::uint64_t gathers = 0;
  placement where;
  for (std::uint32_t i = 0; i < what.cells.size(); ++i) {
    place_cell(from_, what.cells[i], where);
    PENSTOCK_ASSIGN(const std::uint64_t kernels, gather(where, block + plan_.values_at(what.chunks, i)));
    gathers += kernels;
  }
  if (!fill_queued_) {
    std::memcpy(what.head + tables, from_.fill, how_.to_bytes);
    PENSTOCK_TRY(api.check(api.copy_to_device(block + item_at, what.head + tables, how_.to_bytes, encode_),
                           "cuMemcpyHtoDAsync"));
    PENSTOCK_ASSIGN(const std::uint64_t kernels,
                    gather_fill(block + item_at, block + plan_.values_at(what.chunks, what.chunks - 1)));
    gathers += kernels;
    fill_queued_ = true;
  }
  if (gathering != nullptr) gathering->launches = gathers;
  engine_->mark_end(gathering, encode_);
  for (device::kernel_launch& each : launches) {
    void* arguments[] = {each.argument.data()};
    timed_span* const span = kept(engine_->begin_kernel(recorded_as_, device::kernel_name(each.kernel), 1, encode_));
    PENSTOCK_TRY(api.check(api.launch_kernel(engine_->kernels().decoder(each.kernel), each.grid, 1, 1, each.threads, 1,
                                             1, 0, encode_, arguments, nullptr),
                           "cuLaunchKernel"));
    engine_->mark_end(span, encode_);
  }
  engine_->mark_end(encoding, encode_);
  PENSTOCK_TRY(
      api.check(api.copy_to_host(what.head, block, what.chunks * sizeof(std::uint32_t), encode_), "cuMemcpyDtoHAsync"));
  PENSTOCK_ASSIGN(what.ready, engine_->take_event_at(encode_));
  return {};
}

// Waits for the wave and copies its encoded bytes to the host, and no others.
result<> device_encoder::fetch(wave& what) {
  const driver& api = engine_->api();
  const current_context current(api, engine_->context());
  PENSTOCK_TRY(api.check(api.event_synchronize(what.ready), "cuEventSynchronize"));
  std::vector<std::uint32_t> sizes(what.chunks);
  std::memcpy(sizes.data(), what.head, sizes.size() * sizeof(std::uint32_t));
  std::uint64_t bytes = 0;
  for (const std::uint32_t each : sizes) bytes += each == device::kDoesNotFit ? 0 : device::aligned(each);
  what.block = engine_->ring().take(std::max<std::uint64_t>(bytes, 1));
  if (what.block == nullptr) what.spare.resize(static_cast<std::size_t>(bytes));
  std::byte* to = what.block != nullptr ? what.block : what.spare.data();
  std::uint64_t fetched_bytes = 0, cells = 0, cell_bytes = 0;
  timed_span* const span = engine_->begin_span(recorded_as_, stage::transfer, kEncodeWorker + 1, fetch_);
  for (std::uint32_t i = 0; i < what.chunks; ++i) {
    if (sizes[i] == device::kDoesNotFit) {
      what.encoded.emplace_back();
      continue;
    }
    PENSTOCK_TRY(
        api.check(api.copy_to_host(to, what.memory.address + plan_.encoded_at(what.chunks, i), sizes[i], fetch_),
                  "cuMemcpyDtoHAsync"));
    what.encoded.emplace_back(to, sizes[i]);
    to += device::aligned(sizes[i]);
    fetched_bytes += sizes[i];
    if (i == what.cells.size()) continue;  // size of the cell of fill values
    ++cells;
    cell_bytes += sizes[i];
  }
  engine_->mark_end(span, fetch_);
  auto ended = api.check(api.stream_synchronize(fetch_), "cuStreamSynchronize");
  engine_->record_span(span, fetched_bytes, 0, ended.ok());
  PENSTOCK_TRY(std::move(ended));
  record(what, cells, cell_bytes);
  what.fetched = true;
  engine_->give_event(std::exchange(what.ready, nullptr));
  engine_->results().give(std::exchange(what.memory, {}));
  engine_->give_block(std::exchange(what.head, nullptr));
  if (what.chunks > what.cells.size()) fill_.assign(what.encoded.back().begin(), what.encoded.back().end());
  return check_one(what);
}

// Records the statistics of a wave whose kernels have ended. The host records the cells that did not fit.
void device_encoder::record(wave& what, std::uint64_t cells, std::uint64_t encoded_bytes) noexcept {
  const std::uint64_t bytes = cells * from_.layout->chains()[0].decoded_bytes();
  for (timed_span* const each : std::exchange(what.spans, {})) engine_->record_span(each, bytes, encoded_bytes);
}

// The first cell of a wave that the device encoded.
result<> device_encoder::check_one(const wave& what) {
  const auto made =
      std::find_if(what.encoded.begin(), what.encoded.begin() + static_cast<std::ptrdiff_t>(what.cells.size()),
                   [](const auto& each) { return !each.empty(); });
  const auto number = static_cast<std::size_t>(made - what.encoded.begin());
  if (number == what.cells.size()) return {};
  const codec_chain& chain = from_.layout->chains()[0];
  placement where;
  place_cell(from_, what.cells[number], where);
  PENSTOCK_ASSIGN(const lent_values values, host_.take(where, spare_));
  PENSTOCK_ASSIGN(const auto room, decoded_.reserve(chain.decoded_bytes()));
  strided_box all;
  for (const std::uint64_t length : chain.cell()) all.push_back({0, 1, length});
  decode_target target;
  target.data = room.data();
  target.strides = c_order_strides(chain.cell(), chain.type().item_bytes());
  target.in_cell = &all;
  target.covers_cell = true;
  const auto decoded = chain.decode(*made, target, scratch_);
  const bool same = decoded.ok() && std::equal(room.begin(), room.end(), values.bytes.begin(), values.bytes.end());
  host_.give(values);
  if (same) return {};
  return error(errc::internal,
               fmt::format("the device encoded {} to bytes that do not decode to its values: use encoder='host'; "
                           "please report this",
                           from_.layout->describe(what.cells[number])));
}

result<std::optional<lent_encoded>> device_encoder::take_encoded(cell_id cell) {
  const mutex_lock lock(mutex_);
  auto found = places_.find(cell);
  while (found == places_.end()) {
    if (ended_ || waves_.size() == kEncodeWavesAtOnce) return std::optional<lent_encoded>();
    PENSTOCK_TRY(open_wave());
    found = places_.find(cell);
  }
  const place at = found->second;
  if (!ended_ && waves_.size() < kEncodeWavesAtOnce) PENSTOCK_TRY(open_wave());
  // In order, because the first wave has the cell of fill values.
  for (wave& each : waves_) {
    if (!each.fetched) PENSTOCK_TRY(fetch(each));
    if (&each == at.in) break;
  }
  places_.erase(cell);
  --at.in->waiting;
  ++at.in->lent;
  lent_encoded out{at.in->encoded[at.number], false, at.in};
  if (out.bytes.empty()) {
    if (--at.in->lent == 0 && at.in->waiting == 0) close(*at.in);
    return std::optional<lent_encoded>();  // the cell did not fit
  }
  out.is_fill = std::equal(out.bytes.begin(), out.bytes.end(), fill_.begin(), fill_.end());
  return std::optional(out);
}

void device_encoder::give_encoded(const lent_encoded& encoded) noexcept {
  const mutex_lock lock(mutex_);
  wave& from = *static_cast<wave*>(encoded.owner);
  if (--from.lent == 0 && from.waiting == 0) close(from);
}

}  // namespace penstock::inline v0::cuda
