// A read of one cell whose location is known: no plan, no workers, no lock.

#include <array>
#include <memory>
#include <optional>
#include <stop_token>

#include "engine/context_state.h"
#include "engine/index_io.h"
#include "engine/read_job.h"
#include "engine/read_job_parts.h"

namespace penstock::inline v0 {
namespace {

// The number of the one cell that `wanted` touches; nullopt if there are several.
std::optional<cell_id> only_cell(const chunk_grid& grid, const strided_box& wanted) noexcept {
  cell_walk walk;
  walk.start(grid, wanted);
  if (walk.total() != 1) return std::nullopt;
  return grid.id(walk.coordinates());
}

/// The indexes that earlier reads have cached, as far as one cell needs them.
class cached_indexes final : public index_lookup {
 public:
  cached_indexes(index_cache& cache, std::uint64_t uid) noexcept : cache_(cache), uid_(uid) {}

  const index_entry* find(const index_key& key) const override {
    if (const index_entry* const found = taken(key)) return found;
    if (count_ == entries_.size() || !find_cached(cache_, uid_, key, root_of(key.object), entries_[count_]))
      return nullptr;
    keys_[count_] = key;
    return &entries_[count_++];
  }

  bool empty() const noexcept { return count_ == 0; }
  /// Null if it was not requested.
  const index_entry* root_of(object_id object) const noexcept { return taken({object, 0}); }

 private:
  const index_entry* taken(const index_key& key) const noexcept {
    for (std::size_t i = 0; i < count_; ++i)
      if (keys_[i] == key) return &entries_[i];
    return nullptr;
  }

  // Deeper indexes are read with a plan.
  static constexpr std::size_t kMostNodes = 6;

  index_cache& cache_;
  const std::uint64_t uid_;
  mutable std::size_t count_ = 0;
  mutable std::array<index_key, kMostNodes> keys_;
  mutable std::array<index_entry, kMostNodes> entries_;
};

}  // namespace

bool read_job::read_one_cell(const source& from, const std::shared_ptr<item_arena>& arena) {
  if (from.indexed != nullptr || from.to == nullptr || !from.store->traits().inline_completion || state_->recording())
    return false;
  const auto cell = only_cell(from.layout->grid(), from.from);
  if (!cell) return false;
  chunk_extent extent;
  missing_.clear();
  const cached_indexes indexes(state_->indexes(), from.uid);
  const bool located = from.layout->locate({&*cell, 1}, indexes, {&extent, 1}, missing_).ok() && missing_.empty();
  missing_.clear();
  if (!located) return false;
  // A cached index does not prove that a cell is absent: the general path, with a plan, requests the object's version
  // from the store.
  if (!indexes.empty() && extent.state != presence::present) return false;

  worker_state& mine = first_worker();
  placement& where = mine.where;
  if (!place_cell(from, *cell, where)) return false;
  if (extent.state == presence::absent) {
    fill(from, where, from.layout->chains()[0]);
    return true;
  }
  const codec_chain& chain = from.layout->chains()[extent.chain];
  const bool whole = extent.range.whole();
  if (!whole && extent.range.length > chain.max_encoded_bytes()) return false;

  from.layout->key(extent.object, one_key_);
  one_key_.insert(0, from.prefix);
  version expected = from.layout->expected(extent.object);
  const bool pinned = expected.known();
  if (!indexes.empty() && !pinned) {
    const index_entry* const root = indexes.root_of(extent.object);
    if (root == nullptr) return false;
    expected = root->seen;
  }
  // Without an index, `read_kept_cells` has already looked up the cell.
  if (!indexes.empty() && from.uid != 0 && !state_->cells().empty()) {
    if (const auto kept = state_->cells().find(from.uid, *cell, expected)) {
      if (!has_version(*from.store, kept->seen, pinned)) {
        state_->cells().drop(from.uid, *cell);
        return false;
      }
      mine.scratch.timed = false;
      scatter_to_all(from, *cell, chain, kept->items.data(), mine);
      return true;
    }
  }
  byte_read read;
  read.key = one_key_;
  read.range = extent.range;
  read.expected = &expected;
  read.same_handle = pinned;
  read.buffer = &mine;
  if (whole) read.max_bytes = chain.max_encoded_bytes();
  const bool in_part = chain.is_plain() && !whole && extent.range.length == chain.decoded_bytes();
  wanted_part asked;
  if (in_part) {
    asked = part_of_cell(where, chain);
    read.range = {extent.range.offset + asked.offset, asked.length, false};
    if (asked.as_stored) read.destination = {where.target.data, static_cast<std::size_t>(asked.length)};
  }

  mine.arrived.reset();
  if (const item_store* const items = item_store_of(from)) {
    const item_read wanted{read, items_of(from, *cell, chain, where, mine.items)};
    items->read_items({&wanted, 1}, mine, std::stop_token());
  } else {
    mine.read_from(*from.store, read, std::stop_token());
  }
  const auto done = mine.take();
  mine.arrived.reset();
  if (!done.ok() && done.error().code() == errc::not_found && extent.state == presence::unknown) {
    fill(from, where, from.layout->chains()[0]);
    return true;
  }
  if (!done.ok() || (!whole && done->bytes.size() != read.range.length)) return false;
  if (in_part) {
    if (done->bytes.data() != where.target.data) chain.decode_part(done->bytes, asked.offset, where.target);
    return true;
  }
  mine.scratch.timed = false;
  mine.scratch.arena = arena.get();
  mine.scratch.scatter_began.reset();
  const auto keeping = decode_to_keep(from, *cell, chain, done->bytes, *done, mine);
  if (!keeping.ok() || *keeping) return keeping.ok();
  return chain.decode(done->bytes, where.target, mine.scratch).ok();
}

}  // namespace penstock::inline v0
