#include "cuda/device_read.h"

#include <algorithm>
#include <cstring>
#include <system_error>

#include <fmt/format.h>

#include "engine/context_state.h"
#include "engine/index_io.h"
#include "plan/placement.h"

namespace penstock::inline v0::cuda {
namespace {

error with_names(error what, const failure_note& cell, const chunk_layout& layout, std::string_view prefix) {
  std::string key;
  layout.key(cell.object, key);
  key.insert(0, prefix);
  what.note("decoding " + layout.describe(cell.cell) + " on the device");
  what.note(read_note(key, {cell.offset, cell.length, false}));
  return what;
}

/// The size of a request to a local store: large enough that a copy and its event take little time compared with the
/// bytes.
constexpr std::uint64_t kRequestBytes = std::uint64_t{8} << 20;
/// Requests of at most this size share a batch: two more copies on the host cost less than one more to the device.
constexpr std::uint64_t kSmallRequestBytes = std::uint64_t{32} << 10;
constexpr std::uint64_t kJoinedBytes = std::uint64_t{256} << 10;
/// Page-locked memory holds this many of them: some are read, some copied, some being returned.
constexpr std::uint64_t kRequestsInRing = 16;
/// Smaller reads are divided further, so that all workers read, and the device starts before the last worker is done.
constexpr unsigned kRequestsOfAWorker = 4;

// True if no request's bytes are transferred to the device unchanged.
bool all_decode_on_host(std::span<const source> sources) {
  return std::all_of(sources.begin(), sources.end(),
                     [](const source& each) { return split_chain(each.layout->chains()[0]).decodes_on_host(); });
}

}  // namespace

plan_limits limits_of(std::span<const source> sources, std::uint64_t page_locked_bytes, unsigned workers) {
  plan_limits out;
  out.trim_cells = false;  // a cell's move begins at the cell
  if (all_decode_on_host(sources)) return out;
  out.inline_fetch_bytes = std::min(kRequestBytes, page_locked_bytes / kRequestsInRing);
  out.inline_fetches = std::uint64_t{kRequestsOfAWorker} * workers;
  return out;
}

/// The destination of one request's bytes: the ring, or ordinary memory if the ring can never hold so many.
struct device_read::request_buffer final : read_buffer {
  request_buffer(device_engine& with, ledger* accounts) : engine(with), ordinary(accounts, memory_use::encoded) {}

  // Prepares memory without a call of the driver. Returns false if no space is free yet.
  bool prepare(std::uint64_t likely_bytes) {
    if (!page_locked || likely_bytes <= small_bytes || !engine.ring().can_hold(likely_bytes)) return true;
    block = engine.ring().take_held(likely_bytes);
    block_bytes = likely_bytes;
    return block != nullptr;
  }
  // Shrinks the current block to `bytes` bytes, or takes a new block. Returns false if no space is free.
  bool claim(std::uint64_t bytes) {
    if (block != nullptr && bytes <= block_bytes) {
      engine.ring().shrink(block, bytes);
    } else {
      release();
      block = engine.ring().take(bytes);
    }
    block_bytes = bytes;
    return block != nullptr;
  }
  result<std::span<std::byte>> reserve(std::uint64_t bytes) override {
    if (page_locked && bytes > small_bytes && claim(bytes)) return std::span(block, static_cast<std::size_t>(bytes));
    return ordinary.reserve(bytes);
  }
  void release() noexcept {
    if (block != nullptr) engine.give_block(std::exchange(block, nullptr));
  }

  device_engine& engine;
  bool page_locked = true;
  std::uint64_t small_bytes = 0;  ///< requests up to this size go through ordinary memory
  std::byte* block = nullptr;
  std::uint64_t block_bytes = 0;
  buffer ordinary;
};

result<std::shared_ptr<device_read>> device_read::make(std::shared_ptr<device_engine> engine, context_state& state,
                                                       std::vector<event_ref> starts, event_ref memory) {
  std::shared_ptr<device_read> made(new device_read(std::move(engine), state));
  PENSTOCK_ASSIGN(made->slot_, made->engine_->begin_read(std::move(starts), memory));
  return made;
}

device_read::device_read(std::shared_ptr<device_engine> engine, context_state& state)
    : engine_(std::move(engine)), state_(&state) {}

device_read::~device_read() {
  if (engine_->is_of_parent()) return;
  for (const auto& each : buffers_) each->release();
  if (slot_ == nullptr) return;
  for (const auto& each : kept_) engine_->drop(*slot_, *each);
  refused_.clear();
  engine_->end_read(slot_);
}

void device_read::hand_on() {
  if (!handed_on_.exchange(true) && !claimed_ && !looked_) engine_->watch(slot_, describe_later());
}

void device_read::leave() {
  if (claimed_ && handed_on_ && !looked_) engine_->watch(slot_, describe_later());
}

void device_read::look() noexcept {
  if (!looked_.exchange(true) && handed_on_) engine_->unwatch(slot_);
}

result<> device_read::convert(std::span<const source> sources, const dtype& to) {
  std::vector<becoming> made(sources.size());
  bool any = false;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    PENSTOCK_ASSIGN(made[i].how, conversion_of(sources[i].layout->chains()[0].type(), to));
    if (!made[i].how.converts()) continue;
    any = true;
    convert_item(made[i].how, sources[i].fill, made[i].fill);
  }
  if (any) becomes_ = std::move(made);
  return {};
}

result<> device_read::start(std::span<const source> sources, read_job::settings settings, context_state& state) {
  sources_.assign(sources.begin(), sources.end());
  note_ = settings.note;
  keep_alive_ = settings.keep_alive;
  const unsigned workers = settings.workers;
  owns_threads_ = state.options().executor == nullptr;
  small_bytes_ = kJoinedBytes <= engine_->ring().limit_bytes() / kRequestsInRing ? kSmallRequestBytes : 0;
  through_host_ = all_decode_on_host(sources_);
  settings.limits = limits_of(sources_, engine_->ring().limit_bytes(), workers);
  job_ = std::make_shared<read_job>(state);
  // The job holds the sink until it ends, and the sink holds the job.
  settings.sink = shared_from_this();
  job_->begin(sources_, std::move(settings));
  recorded_as_ = job_->recorded_as();
  slot_->recorded_as = recorded_as_;
  slot_->likely_cells = job_->total_cells();
  try {
    state.executor().start(job_, workers);
  } catch (const std::system_error&) {
    job_.reset();  // it holds this sink
    error none(errc::resource_exhausted, "the system has no thread for a read");
    if (!note_.empty()) none.note(note_);
    return none;
  }
  return {};
}

// ---- the sink ----

bool device_read::has_room() const noexcept { return waiting_.load(std::memory_order_relaxed) == 0; }

// A worker registers for wakes first: a read that has no space for its first request must be woken, too.
bool device_read::can_advance() const noexcept {
  return !listening_.load(std::memory_order_relaxed) || wanted_bytes_.load(std::memory_order_relaxed) != 0 ||
         has_refused_.load(std::memory_order_relaxed) ||
         (waiting_.load(std::memory_order_relaxed) != 0 && engine_->freed() != tried_.load(std::memory_order_relaxed));
}

// Called with the job's lock, which must not be held while the driver allocates more page-locked memory: `advance` does
// that.
read_buffer* device_read::take_buffer(std::uint64_t likely_bytes) {
  const mutex_lock lock(mutex_);
  if (free_buffers_.empty()) {
    buffers_.push_back(std::make_unique<request_buffer>(*engine_, &state_->accounts()));
    buffers_.back()->page_locked = !through_host_;
    buffers_.back()->small_bytes = small_bytes_;
    free_buffers_.push_back(buffers_.back().get());
  }
  request_buffer* const out = free_buffers_.back();
  if (!out->prepare(likely_bytes)) {
    if (engine_->ring().may_grow(likely_bytes) || engine_->open_wave_has_blocks())
      wanted_bytes_.store(likely_bytes, std::memory_order_relaxed);
    return nullptr;
  }
  free_buffers_.pop_back();
  return out;
}

void device_read::give_buffer(read_buffer* buffer) noexcept {
  auto* const back = static_cast<request_buffer*>(buffer);
  back->release();
  const mutex_lock lock(mutex_);
  free_buffers_.push_back(back);
}

// Called from a worker: the executor has set the job's waker by then.
void device_read::listen() {
  if (!listening_.exchange(true)) engine_->add_listener(job_.get());
}

const device_chain& device_read::chain_of(const source& from, std::uint16_t chain) {
  const codec_chain* const wanted = &from.layout->chains()[chain];
  const mutex_lock lock(mutex_);
  for (const auto& each : chains_)
    if (each->chain == wanted) return *each;
  chains_.push_back(std::make_unique<device_chain>(split_chain(*wanted)));
  return *chains_.back();
}

result<> device_read::take(const fetched_cells& what, read_buffer* buffer, worker_scratch& scratch) {
  PENSTOCK_TRY(take_cells(what, static_cast<request_buffer*>(buffer), scratch));
  // Every worker that has passed cells to the engine helps to decode those that the device refused.
  if (!has_refused_.load(std::memory_order_relaxed)) return {};
  return decode_refused(scratch);
}

// Adds the cells of a small request to the shared batch.
result<> device_read::join(const fetched_cells& what, worker_scratch& scratch) {
  std::unique_ptr<parcel> full;
  {
    const mutex_lock lock(joining_);
    std::uint64_t at = joined_ ? joined_->bytes : 0;
    if (joined_ && what.bytes.size() > kJoinedBytes - at) {
      full = std::exchange(joined_, nullptr);
      at = 0;
    }
    if (!joined_) {
      joined_ = take_parcel();
      PENSTOCK_TRY(joined_->ordinary.reserve(kJoinedBytes));
    }
    fetched_cells moved = what;
    moved.bytes = {joined_->ordinary.data() + at, what.bytes.size()};
    std::memcpy(joined_->ordinary.data() + at, what.bytes.data(), what.bytes.size());
    joined_->bytes = at + what.bytes.size();
    placement where;
    for (const decode_op& op : what.decodes) {
      auto added = add_cell(*joined_, moved, op, where, scratch);
      if (!added.ok()) return name_request(std::move(added).error(), what, op);
    }
  }
  return full ? hand_over(std::move(full)) : result<>();
}

result<> device_read::hand_over_joined() {
  std::unique_ptr<parcel> last;
  {
    const mutex_lock lock(joining_);
    last = std::exchange(joined_, nullptr);
  }
  const bool ends = waiting_.load(std::memory_order_relaxed) == 0;
  return last ? hand_over(std::move(last), ends) : result<>();
}

error device_read::name_request(error what, const fetched_cells& of, const decode_op& op) {
  const byte_range range =
      of.fetch->range.whole() ? of.fetch->range : byte_range{of.fetch->range.offset + op.offset, op.length, false};
  what.note("decoding " + of.from->layout->describe(op.cell));
  return std::move(what).note(read_note(of.object->key, range));
}

result<> device_read::take_cells(const fetched_cells& what, request_buffer* arrived, worker_scratch& scratch) {
  placement where;
  // Lent bytes are copied unchanged; if the host decodes a part of them, their cells are assembled again.
  bool on_host = false;  // whether this holds for any cell: in HDF5, some chunks skip filters that others use
  for (std::size_t i = 0; i < what.decodes.size() && !on_host; ++i) {
    if (i == 0 || what.decodes[i].chain != what.decodes[i - 1].chain)
      on_host = chain_of(*what.from, what.decodes[i].chain).decodes_on_host();
  }
  if (!on_host && !what.bytes.empty() && what.bytes.size() <= small_bytes_) return join(what, scratch);
  std::unique_ptr<parcel> made = take_parcel();
  const bool as_read = !on_host && arrived->block != nullptr && what.bytes.data() >= arrived->block &&
                       what.bytes.data() + what.bytes.size() <= arrived->block + arrived->block_bytes;
  fetched_cells moved = what;
  bool whole = as_read;
  if (as_read) {
    made->block = std::exchange(arrived->block, nullptr);
    made->bytes = static_cast<std::uint64_t>(what.bytes.data() - made->block) + what.bytes.size();
  } else if (!on_host && !what.bytes.empty() && arrived->claim(what.bytes.size())) {
    made->block = std::exchange(arrived->block, nullptr);
    made->bytes = what.bytes.size();
    std::memcpy(made->block, what.bytes.data(), what.bytes.size());
    moved.bytes = {made->block, what.bytes.size()};
    whole = true;
  }
  for (const decode_op& op : what.decodes) {
    auto added = add_cell(*made, moved, op, where, scratch);
    if (!added.ok()) {
      if (made->block != nullptr) engine_->give_block(made->block);
      give_parcel(std::move(made));
      return name_request(std::move(added).error(), what, op);
    }
    // Cells that are assembled again are added one by one.
    if (!whole) {
      PENSTOCK_TRY(hand_over(std::move(made)));
      made = take_parcel();
    }
  }
  if (whole) return hand_over(std::move(made));
  give_parcel(std::move(made));
  return {};
}

result<> device_read::add_cell(parcel& into, const fetched_cells& what, const decode_op& op, placement& where,
                               worker_scratch& scratch) {
  const source& from = *what.from;
  const codec_chain& chain = from.layout->chains()[op.chain];
  const device_chain& split = chain_of(from, op.chain);
  const std::span<const std::byte> encoded =
      op.length == byte_range::kAll
          ? what.bytes
          : what.bytes.subspan(static_cast<std::size_t>(op.offset), static_cast<std::size_t>(op.length));
  if (!place_cell(from, op.cell, where)) return {};
  parcel_cell cell;
  cell.chain = &split;
  cell.note.source = what.source_number;
  cell.note.cell = op.cell;
  cell.note.object = what.object->object;
  cell.note.offset = what.fetch->range.whole() ? 0 : what.fetch->range.offset + op.offset;
  cell.note.length = op.length;
  cell.note.chain = op.chain;
  if (into.bytes != 0 && encoded.data() >= into.data() && encoded.data() + encoded.size() <= into.data() + into.bytes) {
    cell.offset = static_cast<std::uint64_t>(encoded.data() - into.data());
    cell.length = encoded.size();
  } else {
    PENSTOCK_TRY(host_part(into, cell, chain.stages(), split, encoded, what.worker, scratch));
  }
  if (!split.decodes_on_device()) PENSTOCK_TRY(chain.check_decoded(cell.length));
  finish_cell(into, cell, from, where, op.direct);
  return {};
}

// Describes the move of the decoded cell to its destination.
void device_read::finish_cell(parcel& into, parcel_cell& cell, const source& from, placement& where,
                              bool direct) const {
  const device_chain& split = *cell.chain;
  const codec_chain& chain = *split.chain;
  if (chain.decoded_bytes() == 0) return;
  cell.decoded_bytes = chain.decoded_bytes();
  const conversion how = becomes_.empty() ? conversion() : becomes_[cell.note.source].how;
  const bool fits = direct && from.to != nullptr && chain.swap_bytes() <= 1 && !how.converts();
  cell.plain = fits && !split.decodes_on_device();
  cell.direct = fits && split.decodes_on_device();
  // The beginning of a cell has the same alignment on the device as in its batch.
  const std::uint64_t aligned = split.decodes_on_device() ? 0 : cell.offset;
  const auto plan = [&] {
    const move_tables tables{into.axes, into.runs};
    move_item item =
        how.converts() ? plan_convert(where, chain, how, aligned, tables) : plan_scatter(where, chain, aligned, tables);
    item.from -= aligned;
    return item;
  };
  cell.item = plan();
  cell.first_more = static_cast<std::uint32_t>(into.more.size());
  for (std::size_t i = 1; i < places_of(from, cell.note.cell); ++i)
    if (place_cell(from, cell.note.cell, i, where)) into.more.push_back(plan());
  cell.more = static_cast<std::uint32_t>(into.more.size()) - cell.first_more;
  into.cells.push_back(cell);
}

std::unique_ptr<parcel> device_read::take_parcel() {
  {
    const mutex_lock lock(mutex_);
    if (!free_parcels_.empty()) {
      std::unique_ptr<parcel> out = std::move(free_parcels_.back());
      free_parcels_.pop_back();
      return out;
    }
  }
  return std::make_unique<parcel>(&state_->accounts());
}

void device_read::give_parcel(std::unique_ptr<parcel> what) noexcept {
  what->clear();
  const mutex_lock lock(mutex_);
  free_parcels_.push_back(std::move(what));
}

// `ends`: the read's end follows at once, and does not need the memory that this returns.
result<> device_read::hand_over(std::unique_ptr<parcel> what, bool ends) {
  if (what->cells.empty()) {
    if (what->block != nullptr) engine_->give_block(what->block);
    give_parcel(std::move(what));
    return {};
  }
  const std::uint64_t freed = engine_->freed();
  // Batches that have page-locked memory do not wait for batches that need some.
  const bool tried = waiting_.load(std::memory_order_relaxed) == 0 || what->block != nullptr;
  if (tried) {
    auto taken = submit(*what, ends);
    if (!taken.ok()) {
      engine_->drop(*slot_, *what);
      return std::move(taken).error();
    }
    if (*taken) {
      keep_refused(std::move(what));
      return {};
    }
  }
  const mutex_lock lock(mutex_);
  kept_.push_back(std::move(what));
  if (tried) tried_.store(freed, std::memory_order_relaxed);
  waiting_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

// Moves bytes in ordinary memory to page-locked memory as soon as that has space: from ordinary memory, the driver
// would copy them while all other work waits. Returns false if neither has space, or no wave has.
result<bool> device_read::submit(parcel& what, bool ends) {
  if (what.block == nullptr && what.bytes != 0 && engine_->ring().can_hold(what.bytes)) {
    std::byte* const block = engine_->ring().take(what.bytes);
    // Checks again whether the ring can ever hold it: the ring's limit is lower if the machine had no more memory.
    if (block == nullptr && engine_->ring().can_hold(what.bytes)) {
      PENSTOCK_TRY(engine_->close_for_blocks());
      return false;
    }
    if (block != nullptr) {
      std::memcpy(block, what.ordinary.data(), static_cast<std::size_t>(what.bytes));
      what.block = block;
    }
  }
  auto submitted = engine_->submit(*slot_, what, ends);
  if (submitted.ok() || !what.failed) return submitted;
  return name_cell(std::move(submitted).error(), what.cells[*what.failed].note);
}

result<> device_read::fill(std::uint32_t source_number, const source& from, cell_id cell) {
  (void)from;
  kept_fill what{source_number, cell, 0};
  const std::uint64_t freed = engine_->freed();
  const bool tried = waiting_.load(std::memory_order_relaxed) == 0;
  if (tried) {
    PENSTOCK_ASSIGN(const bool taken, submit_fills(what));
    if (taken) return {};
  }
  const mutex_lock lock(mutex_);
  kept_fills_.push_back(what);
  if (tried) tried_.store(freed, std::memory_order_relaxed);
  waiting_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

// Returns false if no wave has space for the fill at `what.place`.
result<bool> device_read::submit_fills(kept_fill& what) {
  const source& from = sources_[what.source];
  const bool converts = !becomes_.empty() && becomes_[what.source].how.converts();
  const std::byte* const item = converts ? becomes_[what.source].fill : from.fill;
  const std::uint32_t item_bytes =
      converts ? becomes_[what.source].how.to_bytes : from.layout->chains()[0].type().item_bytes();
  placement where;
  for (; what.place < places_of(from, what.cell); ++what.place) {
    if (!place_cell(from, what.cell, what.place, where)) continue;
    PENSTOCK_ASSIGN(const bool taken, engine_->submit_fill(*slot_, where, {item, item_bytes}));
    if (!taken) return false;
  }
  return true;
}

result<bool> device_read::advance(bool last) {
  listen();
  if (owns_threads_) current_context::leave_captures(engine_->api());
  std::optional<current_context> current;
  if (last || waiting_.load(std::memory_order_relaxed) != 0) current.emplace(engine_->api(), engine_->context());
  if (const std::uint64_t wanted = wanted_bytes_.exchange(0, std::memory_order_relaxed); wanted != 0) {
    if (!engine_->ring().grow(wanted)) PENSTOCK_TRY(engine_->close_for_blocks());
  }
  result<> joined;
  if (last && !abandoned_.load(std::memory_order_relaxed)) joined = hand_over_joined();
  auto went = joined.ok() ? hand_over_kept() : result<bool>(std::move(joined).error());
  if (!last || (went.ok() && !*went)) return went;
  // Whether or not the wave with cells of this read succeeds, the read is notified, and the job is not woken
  // afterwards.
  auto ended = engine_->finish(*slot_);
  if (listening_.exchange(false)) engine_->remove_listener(job_.get());
  if (!went.ok()) return went;
  if (!ended.ok()) return std::move(ended).error();
  return true;
}

// Returns false if something does not fit yet.
result<bool> device_read::hand_over_kept() {
  PENSTOCK_TRY(decode_refused(advance_scratch_));
  std::size_t without_room = 0;  // consecutive batches that found no space in the ring
  for (;;) {
    const std::uint64_t freed = engine_->freed();
    std::unique_ptr<parcel> next;
    std::optional<kept_fill> fill_next;
    std::deque<std::unique_ptr<parcel>> dropped;  // without the lock: the engine calls a read with its own lock held
    {
      const mutex_lock lock(mutex_);
      if (abandoned_.load(std::memory_order_relaxed)) {
        waiting_.fetch_sub(kept_.size() + kept_fills_.size(), std::memory_order_relaxed);
        dropped.swap(kept_);
        kept_fills_.clear();
      }
      if (!kept_.empty()) {
        next = std::move(kept_.front());
        kept_.pop_front();
      } else if (!kept_fills_.empty()) {
        fill_next = kept_fills_.back();
        kept_fills_.pop_back();
      }
    }
    for (const auto& each : dropped) engine_->drop(*slot_, *each);
    if (!next && !fill_next) {
      if (!has_refused_.load(std::memory_order_relaxed)) break;
      PENSTOCK_TRY(decode_refused(advance_scratch_));  // cells that were just passed
      continue;
    }
    bool taken = false;
    if (next) {
      auto submitted = submit(*next);
      if (!submitted.ok()) {
        engine_->drop(*slot_, *next);
        waiting_.fetch_sub(1, std::memory_order_relaxed);
        return std::move(submitted).error();
      }
      taken = *submitted;
    } else {
      auto submitted = submit_fills(*fill_next);
      if (!submitted.ok()) {
        waiting_.fetch_sub(1, std::memory_order_relaxed);
        return std::move(submitted).error();
      }
      taken = *submitted;
    }
    if (!taken) {
      const mutex_lock lock(mutex_);
      tried_.store(freed, std::memory_order_relaxed);
      if (next && next->block == nullptr) {
        // Page-locked memory of other reads is returned only after it was copied.
        kept_.push_back(std::move(next));
        if (++without_room < kept_.size()) continue;
      } else if (next) {
        kept_.push_front(std::move(next));
      } else {
        kept_fills_.push_back(*fill_next);
      }
      return false;
    }
    without_room = 0;
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    if (next) keep_refused(std::move(next));
  }
  return true;
}

// ---- the outcome ----

result<> device_read::host_outcome() {
  PENSTOCK_TRY(job_->outcome());
  auto of_waves = engine_->outcome_of_waves(*slot_);
  if (!of_waves.ok() && !note_.empty()) return std::move(of_waves).error().note(note_);
  return of_waves;
}

result<> device_read::wait_queued() {
  job_->wait();
  return host_outcome();
}

result<> device_read::order(stream_ref stream) {
  PENSTOCK_TRY(wait_queued());
  const current_context current(engine_->api(), engine_->context(), driver_calls::queues_only);
  return engine_->api().check(engine_->api().stream_wait_event(stream, slot_->done, 0), "cuStreamWaitEvent");
}

result<> device_read::synchronize() {
  job_->wait();
  const driver& with = engine_->api();
  if (slot_->used) {
    const current_context current(with, engine_->context());
    PENSTOCK_TRY(with.check(with.event_synchronize(slot_->done), "cuEventSynchronize"));
  }
  look();
  PENSTOCK_TRY(host_outcome());
  // Without an end on the device, the record is still that of an earlier read.
  if (slot_->used && slot_->host->failed != 0) return describe_later()(*slot_->host);
  return {};
}

void device_read::settle() noexcept {
  job_->wait();
  const driver& with = engine_->api();
  const current_context current(with, engine_->context());
  if (slot_->used) {
    (void)with.event_synchronize(slot_->done);
  } else {
    (void)engine_->wait_for_all();  // the engine is broken: no event marks the end
  }
}

bool device_read::complete() {
  if (!job_->done()) return false;
  if (!slot_->used) return true;
  const current_context current(engine_->api(), engine_->context());
  return engine_->api().event_query(slot_->done) != kNotReady;
}

error device_read::name_cell(error what, const failure_note& cell) const {
  const source& from = sources_[cell.source];
  return with_names(std::move(what), cell, *from.layout, from.prefix);
}

// Its result holds layouts and names, but not the context.
std::function<error(const failure_report&)> device_read::describe_later() const {
  std::vector<std::pair<std::shared_ptr<const chunk_layout>, std::string>> places;
  for (const source& each : sources_) places.emplace_back(each.layout->shared_from_this(), each.prefix);
  return [places = std::move(places), note = note_](const failure_report& report) {
    const auto& [layout, prefix] = places[report.note.source];
    const codec_chain& chain = layout->chains()[report.note.chain];
    error out = with_names(device::status_error(report.status, chain.describe()), report.note, *layout, prefix);
    if (report.failed > 1) out.note(fmt::format("{} chunks failed; their elements have all bits set", report.failed));
    if (!note.empty()) out.note(note);
    return out;
  };
}

}  // namespace penstock::inline v0::cuda
