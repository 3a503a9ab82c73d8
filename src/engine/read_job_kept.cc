// How a read_job uses cells that earlier partial reads have cached (engine/cell_cache.h).

#include <array>
#include <memory>
#include <stop_token>

#include "base/checked.h"
#include "engine/context_state.h"
#include "engine/read_job.h"
#include "engine/read_job_parts.h"

namespace penstock::inline v0 {
namespace {

/// More cells, or more bytes to copy, justify a plan and other threads.
constexpr std::uint64_t kMostCells = 16;
constexpr std::uint64_t kMostBytes = std::uint64_t{512} << 10;

bool is_small(const source& from) noexcept {
  std::uint64_t bytes = from.layout->chains()[0].type().item_bytes();
  for (const axis_range& range : from.from)
    if (!checked_mul(bytes, range.count, bytes)) return false;
  return bytes <= kMostBytes;
}

}  // namespace

bool read_job::read_kept_cells(const source& from) {
  cell_cache& cells = state_->cells();
  if (cells.empty() || from.uid == 0 || from.indexed != nullptr || from.to == nullptr ||
      !from.store->traits().inline_completion || state_->recording() || !is_small(from))
    return false;
  cell_walk walk;
  walk.start(from.layout->grid(), from.from);
  if (walk.total() > kMostCells) return false;
  std::array<cell_id, kMostCells> wanted;
  std::array<std::shared_ptr<const kept_cell>, kMostCells> kept;
  std::size_t count = 0;
  for (; !walk.done(); walk.next(), ++count) {
    wanted[count] = from.layout->grid().id(walk.coordinates());
    kept[count] = cells.find(from.uid, wanted[count], version());
    if (kept[count] == nullptr) return false;
  }
  std::array<chunk_extent, kMostCells> places;
  missing_.clear();
  const bool located =
      from.layout->locate({wanted.data(), count}, no_indexes(), {places.data(), count}, missing_).ok() &&
      missing_.empty();
  missing_.clear();
  if (!located) return false;

  worker_state& mine = first_worker();
  mine.scratch.timed = false;
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_asked = i > 0 && places[i].object == places[i - 1].object && kept[i]->seen == kept[i - 1]->seen;
    if (!is_asked && !is_current(from, places[i].object, kept[i]->seen)) {
      cells.drop(from.uid, wanted[i]);
      return false;
    }
    scatter_to_all(from, wanted[i], from.layout->chains()[places[i].chain], kept[i]->items.data(), mine);
  }
  return true;
}

// Whether the object still has that version in storage, and it is the one that the layout depends on.
bool read_job::is_current(const source& from, object_id object, const version& seen) {
  const version expected = from.layout->expected(object);
  if (expected.known() && !(expected == seen)) return false;
  from.layout->key(object, one_key_);
  one_key_.insert(0, from.prefix);
  return has_version(*from.store, seen, expected.known());
}

// Whether the object `one_key_` has that version in storage.
bool read_job::has_version(const store& in, const version& seen, bool pinned) {
  worker_state& mine = first_worker();
  byte_read read;
  read.key = one_key_;
  read.range = {0, 0, false};
  read.expected = &seen;
  read.same_handle = pinned;
  read.buffer = &mine;
  mine.arrived.reset();
  mine.read_from(in, read, std::stop_token());
  const bool is_same = mine.take().ok();
  mine.arrived.reset();
  return is_same;
}

// Looks up all cells of a fetch, decoded from one version of the object that the plan depends on: the store is only
// queried for that version. Called with the lock held.
void read_job::find_kept(piece& of, const fetch_op& op) {
  cell_cache& cells = state_->cells();
  const source& from = sources_[of.plan.source];
  if (op.what != request::data || cells.empty() || of.kept.size() < of.plan.decodes.size() || from.uid == 0 ||
      with_.sink || with_.failures != nullptr)
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

// The object has changed, or no longer exists.
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
    timed_stage timing = time(stage::scatter, worker, what.cell);
    timing.moved(chain.decoded_bytes(), chain.decoded_bytes());
    scatter_to_all(from, what.cell, chain, of.kept[i]->items.data(), mine);
    done_bytes_.fetch_add(chain.decoded_bytes(), std::memory_order_relaxed);
  }
}

// Decodes the whole cell into the cache, and copies the selected part from there, if a part is requested and not for
// the first time.
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
