// What a read_job does with cells that earlier reads of parts left decoded (engine/cell_cache.h).

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
  worker_state& mine = *workers_[worker];
  mine.scratch.timed = false;
  for (std::uint32_t i = op.first_decode; i < op.first_decode + op.decode_count && !stopping(); ++i) {
    const decode_op& what = of.plan.decodes[i];
    const codec_chain& chain = from.layout->chains()[what.chain];
    const std::uint64_t begin_ns = profiler_ ? profiler_->now() : 0;
    scatter_to_all(from, what.cell, chain, of.kept[i]->items.data(), mine);
    done_bytes_.fetch_add(chain.decoded_bytes(), std::memory_order_relaxed);
    timed(stage::scatter, worker, begin_ns, what.cell, chain.decoded_bytes(), chain.decoded_bytes());
  }
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
  PENSTOCK_TRY(decode_whole(chain, bytes, made->items.data(), mine));
  made->seen = done.seen;
  cells.insert(from.uid, cell, made);
  scatter_to_all(from, cell, chain, made->items.data(), mine);
  return true;
}

}  // namespace penstock::inline v0
