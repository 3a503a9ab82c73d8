#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "format/zarr/zarr_layout.h"

namespace penstock::inline v0 {

index_request zarr_layout::request_for(const index_key& key, const level& at, std::uint64_t begin,
                                       std::uint64_t end) const noexcept {
  const std::uint64_t bytes = at.index.index_bytes();
  const bool inner = key.node != 0;  // the end of an object is not known before it is read
  if (at.index.reads_whole_shard()) {
    return {key, {begin, inner ? end - begin : byte_range::kAll, false}, inner ? end - begin : at.max_shard_bytes};
  }
  if (at.index.at_start()) return {key, {begin, bytes, false}, bytes};
  if (inner) return {key, {end - bytes, bytes, false}, bytes};
  return {key, {0, bytes, true}, bytes};
}

/// One call of locate. Caches the lookup of the preceding cell, because neighbours usually share it.
class zarr_layout::locator {
 public:
  locator(const zarr_layout& layout, const index_lookup& known, std::vector<index_request>& missing) noexcept
      : layout_(layout), known_(known), missing_(missing) {
    for (std::size_t k = 0; k < layout.levels_.size(); ++k) seen_[k].entry = nullptr;
  }

  result<> operator()(cell_id cell, chunk_extent& out) {
    if (run_ != 0 && cell == cell_ + 1) {
      --run_;
      entry_ += step_;
    } else {
      PENSTOCK_TRY(seek(cell));
    }
    cell_ = cell;
    if (block_ == nullptr) {
      if (absent_) {
        out = {presence::absent, 0, object_, {}};
      } else {
        out.object = object_;
      }
      return {};
    }
    const shard_index::entry found = (*block_)[entry_];
    if (found.absent()) {
      out = {presence::absent, 0, object_, {}};
      return {};
    }
    if (found.offset > end_ - begin_ || found.length > end_ - begin_ - found.offset) return leaves_shard(cell, found);
    if (found.length > layout_.chains_[0].max_encoded_bytes()) return too_long(cell, found);
    out = {presence::present, 0, object_, {begin_ + found.offset, found.length, false}};
    return {};
  }

 private:
  // No initialisers: clearing kMaxDepth of them would slow down a small read.
  struct lookup {
    object_id object;
    std::uint64_t node;
    const index_entry* entry;
  };

  /// Follows the levels to the index that holds `cell`. Leaves block_ null if that index, or the shard, is missing.
  result<> seek(cell_id cell) {
    const std::vector<level>& levels = layout_.levels_;
    layout_.grid_.coordinates(cell, at_);
    const std::size_t rank = at_.size();
    dim_vector<std::uint64_t> shard(rank), within(rank);  // the object, and the cell's position in it
    const level* outermost = levels.data();
    if (layout_.outer_.empty()) {
      for (std::size_t d = 0; d < rank; ++d) {
        shard[d] = at_[d] / outermost->shard_cells[d];
        within[d] = at_[d] - shard[d] * outermost->shard_cells[d];
      }
    } else {
      for (std::size_t d = 0; d < rank; ++d) {
        const grid_axis& axis = layout_.write_grid_.axis(d);
        shard[d] = axis.cell_of(at_[d] * layout_.cell_[d]);
        within[d] = at_[d] - axis.origin(shard[d]) / layout_.cell_[d];
      }
      outermost = &layout_.outer_[layout_.shapes_.of(shard)];
    }
    object_ = layout_.write_grid_.id(shard);
    plan_run(levels.size() == 1 ? *outermost : levels.back(), within);

    begin_ = 0;
    end_ = byte_range::kAll;
    absent_ = false;
    block_ = nullptr;
    std::uint64_t shard_number = 0;  // among all shards of the level
    for (std::size_t k = 0; k < levels.size(); ++k) {
      const level& here = k == 0 ? *outermost : levels[k];
      const index_entry* known = find(k, {object_, here.first_node + shard_number});
      if (known == nullptr) {
        block_ = nullptr;
        const bool is_new = request(here, {object_, here.first_node + shard_number});
        if (is_new && k == 0) {
          missing_.back().object_cells = cells_of_object(here, within);
          missing_.back().max_object_bytes = here.max_shard_bytes;
        }
        return {};
      }
      if (known->block == nullptr) {
        absent_ = true;
        block_ = nullptr;
        return {};
      }
      block_ = static_cast<const shard_index*>(known->block.get());
      if (k == 0) end_ = block_->shard_bytes();
      entry_ = 0;
      for (std::size_t d = 0; d < rank; ++d) {
        // A shard begins at a multiple of each length below it, whatever its own length is.
        if (k != 0) within[d] %= here.shard_cells[d];
        entry_ += within[d] / here.entry_cells[d] * here.strides[d];
      }
      assert(entry_ < block_->entries());
      if (k + 1 == levels.size()) return {};

      const shard_index::entry inner = (*block_)[entry_];
      if (inner.absent()) {
        absent_ = true;
        block_ = nullptr;
        return {};
      }
      if (inner.offset > end_ - begin_ || inner.length > end_ - begin_ - inner.offset) {
        return leaves_shard(cell, inner);
      }
      begin_ += inner.offset;
      end_ = begin_ + inner.length;
      if (inner.length < levels[k + 1].index.least_shard_bytes()) {
        return error(errc::corrupt_data,
                     fmt::format("inner shard at bytes [{}, {}) has {} bytes, its index needs {}", begin_, end_,
                                 inner.length, levels[k + 1].index.least_shard_bytes()))
            .note("locating " + layout_.describe(cell));
      }
      shard_number = shard_number * here.index.entries() + entry_;
    }
    return {};
  }

  /// The number of following cells in the same innermost shard, one entry step further each.
  void plan_run(const level& deepest, const dim_vector<std::uint64_t>& within) noexcept {
    run_ = 0;
    if (at_.empty()) return;
    const std::size_t last = at_.size() - 1;
    const std::uint64_t in_shard = deepest.shard_cells[last] - 1 - within[last] % deepest.shard_cells[last];
    const std::uint64_t in_grid = layout_.grid_.axis(last).cells() - 1 - at_[last];
    run_ = std::min(in_shard, in_grid);
    step_ = deepest.strides[last];
  }

  const index_entry* find(std::size_t k, const index_key& key) {
    lookup& last = seen_[k];
    if (last.entry == nullptr || last.object != key.object || last.node != key.node) {
      last = {key.object, key.node, known_.find(key)};
    }
    return last.entry;
  }

  // The number of cells within the array in the object that holds at_, which is `within` cells from the object's first.
  std::uint64_t cells_of_object(const level& outermost, const dim_vector<std::uint64_t>& within) const noexcept {
    std::uint64_t out = 1;
    for (std::size_t d = 0; d < at_.size(); ++d)
      out *= std::min(outermost.shard_cells[d], layout_.grid_.axis(d).cells() - (at_[d] - within[d]));
    return out;
  }

  // Returns false if it has already been requested.
  bool request(const level& here, const index_key& key) {
    // An iteration in C order returns to the same shards in the same order, so the next one is usually next in the
    // list.
    const std::size_t count = missing_.size();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t slot = hint_ + i < count ? hint_ + i : hint_ + i - count;
      if (missing_[slot].key == key) {
        hint_ = slot + 1 < count ? slot + 1 : 0;
        return false;
      }
    }
    missing_.push_back(layout_.request_for(key, here, begin_, end_));
    hint_ = 0;
    return true;
  }

  error leaves_shard(cell_id cell, const shard_index::entry& found) const {
    return error(errc::corrupt_data, fmt::format("shard index has offset {} and length {} in a shard of {} bytes",
                                                 found.offset, found.length, end_ - begin_))
        .note("locating " + layout_.describe(cell));
  }
  error too_long(cell_id cell, const shard_index::entry& found) const {
    return error(errc::corrupt_data, fmt::format("shard index has {} bytes for a chunk whose codecs make at most {}",
                                                 found.length, layout_.chains_[0].max_encoded_bytes()))
        .note("locating " + layout_.describe(cell));
  }

  const zarr_layout& layout_;
  const index_lookup& known_;
  std::vector<index_request>& missing_;
  std::size_t hint_ = 0;

  cell_id cell_ = 0;
  dim_vector<std::uint64_t> at_;
  std::uint64_t run_ = 0, step_ = 0;
  object_id object_ = 0;
  std::uint64_t begin_ = 0, end_ = 0;  // of the innermost shard, within the object
  std::uint64_t entry_ = 0;
  const shard_index* block_ = nullptr;
  bool absent_ = false;
  std::array<lookup, kMaxDepth> seen_;  // only the first depth() are set
};

result<> zarr_layout::locate(std::span<const cell_id> cells, const index_lookup& known, std::span<chunk_extent> out,
                             std::vector<index_request>& missing) const {
  assert(out.size() >= cells.size());
  if (levels_.empty()) {
    for (std::size_t i = 0; i < cells.size(); ++i) out[i] = {presence::unknown, chain_of(cells[i]), cells[i], {}};
    return {};
  }
  locator find(*this, known, missing);
  for (std::size_t i = 0; i < cells.size(); ++i) PENSTOCK_TRY(find(cells[i], out[i]));
  return {};
}

result<index_ptr> zarr_layout::parse(const index_request& request, std::span<const std::byte> bytes,
                                     std::uint64_t object_size) const {
  std::size_t depth = levels_.size();
  while (depth > 0 && request.key.node < levels_[depth - 1].first_node) --depth;
  if (depth == 0) return error(errc::internal, "an array without shards has no index");
  // Only the object's own index can be checked against the object's size: entries count from the start of their shard.
  const std::uint64_t shard_bytes = request.key.node == 0 ? object_size : byte_range::kAll;
  PENSTOCK_ASSIGN(index_ptr block, level_of(depth - 1, request.key.object).index.decode(bytes, shard_bytes));
  return block;
}

}  // namespace penstock::inline v0
