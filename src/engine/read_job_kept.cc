// What a read_job does with cells that earlier reads of parts left decoded (engine/cell_cache.h).

#include <chrono>
#include <cstring>

#include "base/nvtx.h"
#include "engine/context_state.h"
#include "engine/read_job.h"
#include "engine/read_job_parts.h"

namespace penstock::inline v0 {

// Looks for all cells of a fetch, decoded from one version of the object that the plan rests on: the store is only
// asked whether it still has that one. Needs the lock.
void read_job::find_kept(piece& of, const fetch_op& op) {
  cell_cache& cells = state_->cells();
  const source& from = sources_[of.plan.source];
  if (cells.empty() || of.kept.size() < of.plan.decodes.size() || from.uid == 0 || with_.sink ||
      with_.failures != nullptr)
    return;
  const version* seen = &of.plan.objects[op.object].expected;
  for (std::uint32_t i = op.first_decode; i < op.first_decode + op.decode_count; ++i) {
    of.kept[i] = cells.find(from.uid, of.plan.decodes[i].cell, *seen);
    if (of.kept[i] == nullptr) {
      forget_kept(of, op);
      return;
    }
    seen = &of.kept[i]->seen;
  }
}

void read_job::forget_kept(piece& of, const fetch_op& op) noexcept {
  if (!is_kept(of, op)) return;
  for (std::uint32_t i = op.first_decode; i < op.first_decode + op.decode_count; ++i) of.kept[i].reset();
}

// The object has changed, or is gone.
void read_job::drop_kept(const piece& of, const fetch_op& op) {
  const source& from = sources_[of.plan.source];
  for (std::uint32_t i = op.first_decode; i < op.first_decode + op.decode_count; ++i)
    state_->cells().drop(from.uid, of.plan.decodes[i].cell);
}

void read_job::take_kept(const piece& of, const fetch_op& op, unsigned worker) {
  const source& from = sources_[of.plan.source];
  placement& where = workers_[worker]->where;
  const nvtx_scope range(nvtx_name::scatter);
  for (std::uint32_t i = op.first_decode; i < op.first_decode + op.decode_count && !stopping(); ++i) {
    const decode_op& what = of.plan.decodes[i];
    const codec_chain& chain = from.layout->chains()[what.chain];
    const std::uint64_t begin_ns = profiler_ ? profiler_->now() : 0;
    scatter_kept(from, what.cell, chain, *of.kept[i], where);
    done_bytes_.fetch_add(chain.decoded_bytes(), std::memory_order_relaxed);
    timed(stage::scatter, worker, begin_ns, what.cell, chain.decoded_bytes(), chain.decoded_bytes());
  }
}

void read_job::scatter_kept(const source& from, cell_id cell, const codec_chain& chain, const kept_cell& kept,
                            placement& where) {
  for (std::size_t i = 0; i < places_of(from, cell); ++i)
    if (place(from, cell, i, where)) chain.decode_part(kept.bytes, 0, where.target);
}

// Decodes all of a cell into the cache, and the wanted part from there, if a part is wanted and not for the first time.
result<bool> read_job::decode_to_keep(const source& from, cell_id cell, const codec_chain& chain,
                                      std::span<const std::byte> bytes, const read_done& done, worker_state& mine) {
  if (from.uid == 0 || !done.seen.known() || !done.seen_is_last || chain.is_plain() || chain.type().variable_length())
    return false;
  const placement& where = mine.where;
  if (where.target.covers_cell || (where.target.indexed == nullptr && is_whole_cell(from, cell, where))) return false;
  cell_cache& cells = state_->cells();
  if (!cells.is_worth_keeping(from.uid, cell, chain.decoded_bytes())) return false;
  const std::shared_ptr<kept_cell> made = cells.make_room(chain.decoded_bytes());
  if (made == nullptr) return false;
  const std::span<std::byte> room(made->memory.data(), static_cast<std::size_t>(chain.decoded_bytes()));
  PENSTOCK_ASSIGN(const std::span<const std::byte> decoded, chain.decode_stages(bytes, 0, room, mine.scratch));
  PENSTOCK_TRY(chain.check_decoded(decoded.size()));
  if (decoded.data() != room.data()) std::memcpy(room.data(), decoded.data(), room.size());
  made->bytes = room;
  made->seen = done.seen;
  cells.insert(from.uid, cell, made);
  if (mine.scratch.timed) mine.scratch.scatter_began = std::chrono::steady_clock::now();
  scatter_kept(from, cell, chain, *made, mine.where);
  return true;
}

}  // namespace penstock::inline v0
