// How a read_job processes the bytes of one fetch: decode, scatter, fill. Called without the job's lock.

#include <chrono>

#include <fmt/format.h>

#include <penstock/extend/store.h>
#include "array/strided_copy.h"
#include "base/nvtx.h"
#include "base/thrown.h"
#include "engine/context_state.h"
#include "engine/index_io.h"
#include "engine/read_job.h"
#include "engine/read_job_parts.h"

namespace penstock::inline v0 {
namespace {

class known_in_object final : public index_lookup {
 public:
  explicit known_in_object(const index_table& table) noexcept : table_(table) {}
  const index_entry* find(const index_key& key) const override { return table_.find(0, key); }

 private:
  const index_table& table_;
};

/// While the bytes of one request do not move, a chunk of which several cells are windows is decoded once.
class shared_chunks {
 public:
  shared_chunks(worker_scratch& scratch, bool several) noexcept : shared_(scratch.shared), several_(several) {
    if (several) shared_.enabled = true;
  }
  ~shared_chunks() {
    if (several_) shared_ = {};
  }
  shared_chunks(const shared_chunks&) = delete;
  shared_chunks& operator=(const shared_chunks&) = delete;

 private:
  worker_scratch::shared_chunk& shared_;
  const bool several_;
};

}  // namespace

void read_job::finish_fetch(guard& lock, piece& of, std::size_t which, unsigned worker, result<read_done>&& done) {
  const fetch_op& op = of.plan.fetches[which];
  const plan_object& object = of.plan.objects[op.object];
  const source& from = sources_[of.plan.source];
  if (profiler_ && op.what != request::none) profiler_->record_request(done.ok() ? done->bytes.size() : 0);

  bool again = false;
  std::optional<error> bad;
  if (!done.ok() && is_kept(of, op)) drop_kept(of, op);
  if (op.what == request::object && done.ok() && !find_in_object(of, op, worker, *done).ok()) {
    again = true;  // it differs from its index: only the index is requested again, and checked
  } else if (done.ok()) {
    encoded_bytes_.fetch_add(done->bytes.size(), std::memory_order_relaxed);
    auto decoded = decode_fetch(of, op, worker, *done);
    if (!decoded.ok()) {
      bad.emplace(std::move(decoded).error());
    } else {
      for (std::uint32_t i = 0; i < op.fill_count && !stopping(); ++i)
        fill_cell(from, of.plan.fills[op.first_fill + i].cell, worker);
    }
  } else if (done.error().code() == errc::not_found && op.may_be_absent) {
    for (std::uint32_t i = 0; i < op.decode_count; ++i)
      fill_cell(from, of.plan.decodes[op.first_decode + i].cell, worker);
    note_missing(of.plan.source);
  } else if (done.error().code() == errc::corrupt_data && op.what == request::object) {
    again = true;  // longer than its cells need
  } else if (object.pinned &&
             (done.error().code() == errc::not_found || done.error().code() == errc::version_changed)) {
    const bool gone = done.error().code() == errc::not_found;
    bad.emplace(errc::conflict,
                fmt::format("'{}' {} since the array was opened", object.key, gone ? "was removed" : "has changed"));
    if (op.decode_count != 0) bad->note(from.layout->describe(of.plan.decodes[op.first_decode].cell));
    bad->note(read_note(object.key, op.range));
  } else if ((done.error().code() == errc::not_found && object.has_index) ||
             done.error().code() == errc::version_changed) {
    again = true;  // an index named these bytes, but they no longer exist: plan again with the present index
    if (from.uid != 0) state_->indexes().drop(from.uid, object.object);
  } else {
    bad.emplace(std::move(done).error());
    if (op.decode_count != 0) {
      std::string cells = from.layout->describe(of.plan.decodes[op.first_decode].cell);
      if (op.decode_count > 1) cells += fmt::format(" and {} more", op.decode_count - 1);
      bad->note(std::move(cells));
    }
    bad->note(read_note(object.key, op.range));
  }
  forget_kept(of, op);
  if (done.ok()) done->keep_alive.reset();
  if (read_buffer*& sunk = workers_[worker]->sunk; sunk != nullptr) {
    with_.sink->give_buffer(sunk);
    sunk = nullptr;
  }

  lock.lock();
  --active_;
  if (!again && redos_ != 0) --redos_;
  // One change affects many requests of a piece: it counts once for each new plan.
  if (again && (op.what == request::object || !redo_cells_.empty() || count_redo(object.key))) {
    for (std::uint32_t i = 0; i < op.decode_count; ++i)
      redo_cells_.emplace_back(of.plan.source, of.plan.decodes[op.first_decode + i].cell);
    for (std::uint32_t i = 0; i < op.fill_count; ++i)
      redo_cells_.emplace_back(of.plan.source, of.plan.fills[op.first_fill + i].cell);
  }
  if (bad && with_.failures != nullptr && op.decode_count != 0) {
    for (std::uint32_t i = 0; i < op.decode_count; ++i)
      fail_cell(of.plan.source, of.plan.decodes[op.first_decode + i].cell, bad->clone());
  } else if (bad) {
    fail(std::move(*bad));
  }
  if (--of.unfinished == 0) of.in_use = false;
}

// For an object that was read as a whole: finds the cells through its index, and fills those that it does not have.
result<> read_job::find_in_object(const piece& of, const fetch_op& op, unsigned worker, const read_done& done) {
  const source& from = sources_[of.plan.source];
  const chunk_layout& layout = *from.layout;
  worker_state& mine = *workers_[worker];
  const std::uint64_t size = done.bytes.size();
  const auto within = [&](const byte_range& range, std::uint64_t max_bytes) {
    byte_read wanted;
    wanted.range = range;
    wanted.max_bytes = max_bytes;
    return find_extent(wanted, size);
  };
  mine.indexes.clear();
  mine.cells.clear();
  for (std::uint32_t i = 0; i < op.decode_count; ++i) mine.cells.push_back(of.plan.decodes[op.first_decode + i].cell);
  const known_in_object known(mine.indexes);
  std::vector<index_request> missing;
  for (unsigned round = 0;; ++round) {
    mine.extents.assign(mine.cells.size(), chunk_extent{});
    missing.clear();
    PENSTOCK_TRY(caught("the layout", [&] { return layout.locate(mine.cells, known, mine.extents, missing); }));
    if (missing.empty()) break;
    if (round == kMaxIndexRounds) return error(errc::internal, "the layout requests indexes without end");
    for (const index_request& each : missing) {
      PENSTOCK_ASSIGN(const byte_extent where, within(each.range, each.max_bytes));
      read_done index;
      index.bytes = done.bytes.subspan(static_cast<std::size_t>(where.offset), static_cast<std::size_t>(where.length));
      index.seen = done.seen;
      index.object_size = size;
      PENSTOCK_ASSIGN(index_entry entry, take_index(from, each, of.plan.objects[op.object].key, std::move(index)));
      if (keeps_index(from, entry)) state_->indexes().insert(from.uid, each.key, entry);
      mine.indexes.insert(0, each.key) = std::move(entry);
    }
  }
  mine.found.clear();
  for (std::size_t i = 0; i < mine.cells.size(); ++i) {
    const chunk_extent& at = mine.extents[i];
    if (at.state == presence::absent) continue;
    PENSTOCK_ASSIGN(const byte_extent where, within(at.range, byte_range::kAll));
    decode_op& decode = mine.found.emplace_back(of.plan.decodes[op.first_decode + i]);
    decode.chain = at.chain;
    decode.offset = where.offset;
    decode.length = where.length;
  }
  for (std::size_t i = 0; i < mine.cells.size() && !stopping(); ++i)
    if (mine.extents[i].state == presence::absent) fill_cell(from, mine.cells[i], worker);
  return {};
}

std::span<const decode_op> read_job::decodes_of(const piece& of, const fetch_op& op, unsigned worker) const noexcept {
  if (op.what == request::object) return workers_[worker]->found;
  return std::span(of.plan.decodes).subspan(op.first_decode, op.decode_count);
}

result<> read_job::decode_fetch(const piece& of, const fetch_op& op, unsigned worker, read_done& done) {
  if (op.decode_count == 0) return {};
  if (is_kept(of, op)) {
    take_kept(of, op, worker);
    return {};
  }
  const plan_object& object = of.plan.objects[op.object];
  if (!op.range.whole() && done.bytes.size() != op.range.length) {
    return error(errc::io_error, fmt::format("the store returned {} bytes of {}", done.bytes.size(), op.range.length))
        .note(read_note(object.key, op.range));
  }
  if (with_.sink) return sink_fetch(of, op, worker, done);
  const shared_chunks shared(workers_[worker]->scratch, op.decode_count > 1);
  for (const decode_op& what : decodes_of(of, op, worker)) {
    if (stopping()) break;
    const std::span<const std::byte> bytes =
        what.length == byte_range::kAll
            ? done.bytes
            : done.bytes.subspan(static_cast<std::size_t>(what.offset), static_cast<std::size_t>(what.length));
    auto decoded = decode_cell(of, op, what, bytes, done, worker);
    if (!decoded.ok()) {
      const byte_range range =
          what.length == byte_range::kAll ? op.range : byte_range{op.range.offset + what.offset, what.length, false};
      return std::move(decoded)
          .error()
          .note("decoding " + sources_[of.plan.source].layout->describe(what.cell))
          .note(read_note(object.key, range));
    }
  }
  return {};
}

result<> read_job::sink_fetch(const piece& of, const fetch_op& op, unsigned worker, const read_done& done) {
  fetched_cells what;
  what.source_number = of.plan.source;
  what.from = &sources_[of.plan.source];
  what.object = &of.plan.objects[op.object];
  what.fetch = &op;
  what.decodes = std::span(of.plan.decodes).subspan(op.first_decode, op.decode_count);
  what.bytes = done.bytes;
  what.worker = worker;
  worker_state& mine = *workers_[worker];
  mine.scratch.timed = false;
  PENSTOCK_TRY(with_.sink->take(what, mine.sunk, mine.scratch));
  for (const decode_op& each : what.decodes)
    done_bytes_.fetch_add(what.from->layout->chains()[each.chain].decoded_bytes(), std::memory_order_relaxed);
  return {};
}

result<> read_job::decode_cell(const piece& of, const fetch_op& op, const decode_op& what,
                               std::span<const std::byte> bytes, const read_done& done, unsigned worker) {
  const source& from = sources_[of.plan.source];
  const codec_chain& chain = from.layout->chains()[what.chain];
  worker_state& mine = *workers_[worker];
  placement& where = mine.where;
  place_cell(from, what.cell, where);
  timed_stage timing = time(what.part ? stage::scatter : stage::decode, worker, what.cell);
  mine.scratch.timed = timing.is_recorded();
  mine.scratch.arena = with_.arena.get();
  mine.scratch.scatter_began.reset();
  const std::size_t places = places_of(from, what.cell);
  const nvtx_scope range(what.part ? nvtx_name::scatter : nvtx_name::decode);
  if (what.part) {
    if (bytes.data() != where.target.data) chain.decode_part(bytes, what.skipped, where.target);
    for (std::size_t i = 1; i < places; ++i)
      if (place_cell(from, what.cell, i, where)) chain.decode_part(bytes, what.skipped, where.target);
    done_bytes_.fetch_add(chain.decoded_bytes(), std::memory_order_relaxed);
    timing.moved(bytes.size(), bytes.size());
    return {};
  }
  if (with_.failures != nullptr) {
    PENSTOCK_ASSIGN(const std::span<std::byte> room, mine.decoded.reserve(chain.decoded_bytes()));
    PENSTOCK_TRY(decode_whole(chain, bytes, room.data(), mine));
  } else if (op.in_place && bytes.data() == where.target.data) {
    done_bytes_.fetch_add(chain.decoded_bytes(), std::memory_order_relaxed);
    timing.leave_out();  // the store read directly into the target
    return {};
  } else {
    PENSTOCK_ASSIGN(const bool kept, decode_to_keep(from, what.cell, chain, bytes, done, mine));
    if (!kept && places > 1) {
      PENSTOCK_TRY(decode_for_all(from, what, bytes, worker));
    } else if (!kept) {
      PENSTOCK_TRY(chain.decode(bytes, where.target, mine.scratch));
    }
  }
  done_bytes_.fetch_add(chain.decoded_bytes(), std::memory_order_relaxed);
  if (!timing.is_recorded()) return {};
  timing.moved(bytes.size(), chain.decoded_bytes());
  if (mine.scratch.scatter_began) {
    timing.turned_into(stage::scatter, *mine.scratch.scatter_began);
    timing.moved(chain.decoded_bytes(), chain.type().item_bytes() * wanted_elements(where));
  }
  return {};
}

// Decodes the whole cell into `room`, in C order.
result<> read_job::decode_whole(const codec_chain& chain, std::span<const std::byte> bytes, std::byte* room,
                                worker_state& mine) {
  placement& where = mine.where;
  where.region.in_cell.resize(chain.cell().size());
  for (std::size_t d = 0; d < chain.cell().size(); ++d) where.region.in_cell[d] = {0, 1, chain.cell()[d]};
  where.target.data = room;
  where.target.strides = c_order_strides(chain.cell(), chain.type().item_bytes());
  where.target.in_cell = &where.region.in_cell;
  where.target.covers_cell = true;
  where.target.indexed = nullptr;
  where.target.convert = nullptr;
  return chain.decode(bytes, where.target, mine.scratch);
}

void read_job::scatter_to_all(const source& from, cell_id cell, const codec_chain& chain, const std::byte* items,
                              worker_state& mine) {
  const nvtx_scope range(nvtx_name::scatter);
  if (mine.scratch.timed && !mine.scratch.scatter_began) mine.scratch.scatter_began = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < places_of(from, cell); ++i)
    if (place_cell(from, cell, i, mine.where)) chain.scatter(items, mine.where.target);
}

// Decodes a cell once and copies from it to every destination that needs a part.
result<> read_job::decode_for_all(const source& from, const decode_op& what, std::span<const std::byte> bytes,
                                  unsigned worker) {
  const codec_chain& chain = from.layout->chains()[what.chain];
  worker_state& mine = *workers_[worker];
  PENSTOCK_ASSIGN(const std::span<std::byte> room, mine.decoded.reserve(chain.decoded_bytes()));
  PENSTOCK_TRY(decode_whole(chain, bytes, room.data(), mine));
  scatter_to_all(from, what.cell, chain, room.data(), mine);
  return {};
}

void read_job::fill_cell(const source& from, cell_id cell, unsigned worker) {
  placement& where = workers_[worker]->where;
  absent_cells_.fetch_add(1, std::memory_order_relaxed);
  const codec_chain& chain = from.layout->chains()[0];
  done_bytes_.fetch_add(chain.decoded_bytes(), std::memory_order_relaxed);
  if (with_.sink) {
    auto filled = with_.sink->fill(static_cast<std::uint32_t>(&from - sources_.data()), from, cell);
    if (filled.ok()) return;
    const guard lock(mutex_);
    return fail(std::move(filled).error());
  }
  if (from.to == nullptr || !place_cell(from, cell, where)) return;
  timed_stage timing = time(stage::fill, worker, cell);
  timing.moved(0, chain.decoded_bytes());
  const nvtx_scope range(nvtx_name::scatter);
  fill(from, where, chain);
  for (std::size_t i = places_of(from, cell); i-- > 1;)
    if (place_cell(from, cell, i, where)) fill(from, where, chain);
}

}  // namespace penstock::inline v0
