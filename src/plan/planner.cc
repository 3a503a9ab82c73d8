#include "plan/planner.h"

#include <algorithm>

#include "base/checked.h"
#include "codec/codec_chain.h"
#include "plan/indexed_selection.h"
#include "plan/placement.h"

namespace penstock::inline v0 {
namespace {

/// Below this size a copy out of a coalesced read is cheaper than a request of its own.
constexpr std::uint64_t kMinInPlaceBytes = std::uint64_t{64} << 10;
/// Adjacent cells are requested together, and copied, unless each is this many times as long as what a request costs.
constexpr std::uint64_t kInPlaceRequests = 16;
/// Fills that do not wait for a request are given to workers in groups of this size.
constexpr std::uint32_t kFillGroup = 64;
/// At most one byte in eight of a coalesced read may be unneeded.
constexpr std::uint64_t kMaxWasteFraction = 8;
/// An object that this many adjacent requests would fetch is requested as a whole, if that saves the round trip for its
/// index. For longer objects, a single stream would be slower than several.
constexpr std::uint64_t kMaxStreamedRequests = 4;

class source_lookup final : public index_lookup {
 public:
  source_lookup(plan_indexes& known, std::uint32_t source) noexcept : known_(known), source_(source) {}
  const index_entry* find(const index_key& key) const override { return known_.find(source_, key); }

 private:
  plan_indexes& known_;
  std::uint32_t source_;
};

// The bytes that all destinations of a cell need; `where` is the first.
wanted_part part_of_all(const source& from, cell_id cell, placement& where, const codec_chain& chain) {
  wanted_part all = part_of_cell(where, chain);
  for (std::size_t i = places_of(from, cell); i-- > 1;) {
    if (!place_cell(from, cell, i, where)) continue;
    const wanted_part each = part_of_cell(where, chain);
    const std::uint64_t end = std::max(all.offset + all.length, each.offset + each.length);
    all.offset = std::min(all.offset, each.offset);
    all.length = end - all.offset;
    all.as_stored = false;
  }
  return all;
}

}  // namespace

void planner::start(std::span<const source> sources, const plan_limits& limits) {
  sources_ = sources;
  limits_ = limits;
  redo_.clear();
  cells_.clear();
  begin_ = batch_ = 0;
  total_cells_ = total_bytes_ = 0;
  for (const source& each : sources_) {
    cell_walk counting;
    if (each.indexed == nullptr) counting.start(each.layout->grid(), each.from);
    const std::uint64_t cells = each.indexed == nullptr ? counting.total() : each.indexed->cells();
    const auto chains = each.layout->chains();
    const std::uint64_t cell_bytes = chains.empty() ? ~std::uint64_t{0} : chains[0].decoded_bytes();
    total_cells_ = saturating_add(total_cells_, cells);
    total_bytes_ = saturating_add(total_bytes_, saturating_mul(cells, cell_bytes));
  }
  walk_source_ = 0;
  walk_ = cell_walk();
  walked_ = 0;
  if (!sources_.empty()) start_walk();
}

void planner::start_walk() {
  const source& from = sources_[walk_source_];
  walked_ = 0;
  if (from.indexed == nullptr) walk_.start(from.layout->grid(), from.from);
}

bool planner::walk_is_done() const noexcept {
  const indexed_selection* const indexed = sources_[walk_source_].indexed;
  return indexed == nullptr ? walk_.done() : walked_ == indexed->cells();
}

void planner::enter_source(std::uint32_t which) {
  source_ = which;
  const store_traits traits = sources_[which].store->traits();
  store_limits_ = limits_;
  store_limits_.max_gap_bytes = std::max(limits_.max_gap_bytes, traits.max_gap_bytes);
  store_limits_.request_bytes = std::max(limits_.request_bytes, traits.request_bytes);
  store_limits_.max_fetch_bytes = std::min(limits_.max_fetch_bytes, traits.max_length_bytes);
  if (traits.inline_completion && limits_.inline_fetch_bytes > store_limits_.max_fetch_bytes) {
    const std::uint64_t share = total_bytes_ / std::max<std::uint64_t>(1, limits_.inline_fetches);
    store_limits_.max_fetch_bytes = std::clamp(share, store_limits_.max_fetch_bytes, limits_.inline_fetch_bytes);
  }
}

// Collects the cells of the next batch: repeated ones first, then those of the iteration. False if none remains.
bool planner::gather() {
  cells_.clear();
  begin_ = 0;
  redoing_ = !redo_.empty();
  if (redoing_) {
    enter_source(redo_.back().source);
    while (!redo_.empty() && redo_.back().source == source_ && cells_.size() < limits_.max_cells) {
      cells_.push_back(redo_.back().cell);
      redo_.pop_back();
    }
  } else {
    while (walk_source_ < sources_.size() && walk_is_done()) {
      if (++walk_source_ < sources_.size()) start_walk();
    }
    if (walk_source_ >= sources_.size()) return false;
    enter_source(walk_source_);
    if (const indexed_selection* const indexed = sources_[source_].indexed) {
      while (walked_ != indexed->cells() && cells_.size() < limits_.max_cells)
        cells_.push_back(indexed->cell(walked_++));
      batch_ = cells_.size();
      return true;
    }
    const chunk_grid& grid = sources_[source_].layout->grid();
    while (!walk_.done() && cells_.size() < limits_.max_cells) {
      cells_.push_back(grid.id(walk_.coordinates()));
      walk_.next();
    }
  }
  batch_ = cells_.size();
  return batch_ != 0;
}

result<planner::outcome> planner::next(plan_indexes& known, read_plan& plan, std::vector<index_request>& missing,
                                       std::uint32_t& missing_source) {
  plan.clear();
  missing.clear();
  if (begin_ == cells_.size() && !gather()) return outcome::finished;

  const chunk_layout& layout = *sources_[source_].layout;
  const source_lookup lookup(known, source_);
  for (;;) {
    extents_.assign(batch_, chunk_extent{});
    missing.clear();
    PENSTOCK_TRY(layout.locate(std::span(cells_).subspan(begin_, batch_), lookup, extents_, missing));
    if (missing.empty()) break;
    if (pick_objects(missing)) {
      missing.clear();
      break;
    }
    std::uint64_t index_bytes = 0;
    for (const index_request& each : missing) index_bytes = saturating_add(index_bytes, each.max_bytes);
    if (index_bytes <= limits_.max_index_bytes || batch_ == 1 || missing.size() == 1) {
      missing_source = source_;
      return outcome::needs_indexes;
    }
    batch_ /= 2;  // too many indexes to hold at once: a smaller batch
  }

  build(known, plan);
  objects_.clear();
  begin_ += batch_;
  batch_ = cells_.size() - begin_;
  return outcome::piece;
}

// If objects are better requested as a whole than by their index, makes a batch of only their cells.
bool planner::pick_objects(std::span<const index_request> missing) {
  if (!limits_.whole_objects || store_limits_.request_bytes == 0 || redoing_) return false;
  const codec_chain& chain = sources_[source_].layout->chains()[0];
  if (chain.type().variable_length()) return false;  // cells without a known size
  for (const index_request& each : missing)
    if (each.object_cells != 0) objects_.push_back({each.key.object, each.object_cells, 0, each.max_object_bytes});
  if (objects_.empty()) return false;
  const auto before = [](const whole_object& a, const whole_object& b) { return a.object < b.object; };
  std::sort(objects_.begin(), objects_.end(), before);
  const auto find = [&](std::uint32_t i) {
    const auto at =
        std::lower_bound(objects_.begin(), objects_.end(), whole_object{extents_[i].object, 0, 0, 0}, before);
    return at != objects_.end() && at->object == extents_[i].object ? &*at : nullptr;
  };
  for (std::uint32_t i = 0; i < batch_; ++i)
    if (whole_object* const of = find(i)) ++of->wanted;
  std::erase_if(objects_, [&](const whole_object& each) {
    const std::uint64_t likely = saturating_mul(each.cells, chain.decoded_bytes());
    const bool wastes_little = each.cells - each.wanted <= each.cells / kMaxWasteFraction;
    return likely > store_limits_.request_bytes &&
           !(wastes_little && likely / kMaxStreamedRequests <= store_limits_.max_fetch_bytes);
  });
  if (objects_.empty()) return false;

  later_.clear();
  std::uint32_t picked = 0;
  for (std::uint32_t i = 0; i < batch_; ++i) {
    const cell_id cell = cells_[begin_ + i];
    if (find(i) == nullptr) {
      later_.push_back(cell);
    } else {
      cells_[begin_ + picked] = cell;
      extents_[picked++] = {presence::unknown, 0, extents_[i].object, {}};
    }
  }
  std::copy(later_.begin(), later_.end(), cells_.begin() + static_cast<std::ptrdiff_t>(begin_ + picked));
  batch_ = picked;
  return true;
}

void planner::build(plan_indexes& known, read_plan& plan) {
  const source& from = sources_[source_];
  plan.source = source_;

  order_.clear();
  for (std::uint32_t i = 0; i < batch_; ++i) {
    const chunk_extent& extent = extents_[i];
    const bool absent = extent.state == presence::absent;
    order_.push_back({extent.object, absent ? 0 : extent.range.offset, i, absent});
  }
  const auto before = [](const placed& a, const placed& b) {
    if (a.object != b.object) return a.object < b.object;
    if (a.absent != b.absent) return a.absent;
    if (a.offset != b.offset) return a.offset < b.offset;
    return a.index < b.index;
  };
  if (!std::is_sorted(order_.begin(), order_.end(), before)) std::sort(order_.begin(), order_.end(), before);

  for (std::size_t i = 0; i < order_.size();) {
    const object_id object = order_[i].object;
    std::size_t present = i;
    while (present < order_.size() && order_[present].object == object && order_[present].absent) ++present;
    std::size_t end = present;
    while (end < order_.size() && order_[end].object == object) ++end;

    if (plan.object_count == plan.objects.size()) plan.objects.emplace_back();
    const auto object_index = static_cast<std::uint32_t>(plan.object_count++);
    plan_object& entry = plan.objects[object_index];
    entry.object = object;
    from.layout->key(object, key_);
    entry.key.assign(from.prefix);
    entry.key.append(key_);
    const index_entry* index = known.find(source_, {object, 0});
    entry.expected = from.layout->expected(object);
    entry.pinned = entry.expected.known();
    if (!entry.pinned && index != nullptr) entry.expected = index->seen;
    entry.has_index = index != nullptr;

    const auto first_fill = static_cast<std::uint32_t>(plan.fills.size());
    auto fill_count = static_cast<std::uint32_t>(present - i);
    for (std::size_t k = i; k < present; ++k) plan.fills.push_back({cells_[begin_ + order_[k].index]});
    const bool must_check = index != nullptr && index->cached && index->seen.known();
    if (fill_count != 0 && !must_check) {
      for (std::uint32_t k = 0; k < fill_count; k += kFillGroup) {
        fetch_op& op = plan.fetches.emplace_back();
        op.object = object_index;
        op.what = request::none;
        op.first_fill = first_fill + k;
        op.fill_count = std::min(kFillGroup, fill_count - k);
      }
      fill_count = 0;
    }
    if (!objects_.empty()) {
      add_object(plan, object_index, std::span(order_).subspan(present, end - present));
    } else if (present != end) {
      add_fetches(plan, object_index, std::span(order_).subspan(present, end - present), first_fill, fill_count);
    } else if (fill_count != 0) {
      fetch_op& op = plan.fetches.emplace_back();
      op.object = object_index;
      op.what = request::check;
      op.range = {0, 0, false};
      op.first_fill = first_fill;
      op.fill_count = fill_count;
    }
    i = end;
  }
}

// Requests a whole object, whose index is not known.
void planner::add_object(read_plan& plan, std::uint32_t object, std::span<const placed> cells) {
  const source& from = sources_[source_];
  const codec_chain& chain = from.layout->chains()[0];
  fetch_op op;
  op.object = object;
  op.what = request::object;
  op.may_be_absent = true;
  op.first_decode = static_cast<std::uint32_t>(plan.decodes.size());
  op.first_fill = static_cast<std::uint32_t>(plan.fills.size());
  const auto asked = std::find_if(objects_.begin(), objects_.end(),
                                  [&](const whole_object& each) { return each.object == cells.front().object; });
  op.max_bytes = asked->max_bytes;
  placement where;
  for (const placed& each : cells) {
    decode_op decode;
    decode.cell = cells_[begin_ + each.index];
    decode.length = byte_range::kAll;
    if (!place_cell(from, decode.cell, where)) continue;
    decode.direct = chain.stores_native_order() && lands_contiguously(where, chain.cell(), chain.type().item_bytes());
    plan.decodes.push_back(decode);
    ++op.decode_count;
  }
  if (op.decode_count != 0) plan.fetches.push_back(op);
}

// Coalesces the present cells of one object, given in the order of their offsets.
void planner::add_fetches(read_plan& plan, std::uint32_t object, std::span<const placed> cells,
                          std::uint32_t first_fill, std::uint32_t fill_count) {
  const source& from = sources_[source_];
  const auto chains = from.layout->chains();
  std::uint64_t end = 0, useful = 0;  // of the fetch that is being extended
  bool open = false;
  const std::uint64_t least_alone = saturating_mul(kInPlaceRequests, store_limits_.request_bytes);
  placement where;
  for (const placed& each : cells) {
    const chunk_extent& extent = extents_[each.index];
    const codec_chain& chain = chains[extent.chain];
    decode_op decode;
    decode.cell = cells_[begin_ + each.index];
    decode.chain = extent.chain;
    if (!place_cell(from, decode.cell, where)) continue;
    byte_range range = extent.range;
    bool in_place = false;
    if (limits_.trim_cells && chain.is_plain() && !range.whole() && range.length == chain.decoded_bytes()) {
      const wanted_part wanted = part_of_all(from, decode.cell, where, chain);
      decode.part = true;
      decode.skipped = wanted.offset;
      decode.direct = wanted.as_stored;
      range = {range.offset + wanted.offset, wanted.length, false};
      in_place = wanted.as_stored && from.to != nullptr && from.space == memory_space::host &&
                 wanted.length >= kMinInPlaceBytes;
    } else {
      decode.direct = chain.stores_native_order() && lands_contiguously(where, chain.cell(), chain.type().item_bytes());
      in_place = decode.direct && chain.is_identity() && from.to != nullptr && from.space == memory_space::host &&
                 (range.whole() || range.length == chain.decoded_bytes()) && chain.decoded_bytes() >= kMinInPlaceBytes;
    }
    decode.length = range.length;

    const bool may_be_absent = extent.state == presence::unknown;
    const bool alone = range.whole() || (in_place && range.length >= least_alone);
    bool joins = open && !alone && plan.fetches.back().may_be_absent == may_be_absent;
    if (joins) {
      const fetch_op& last = plan.fetches.back();
      const std::uint64_t new_end = std::max(end, range.offset + range.length);
      const std::uint64_t span = new_end - last.range.offset;
      const std::uint64_t new_useful = useful + range.length;
      const std::uint64_t gap = range.offset - std::min(range.offset, end);
      const bool wastes_little = new_useful >= span || span - new_useful <= span / kMaxWasteFraction;
      joins = range.offset >= last.range.offset && span <= store_limits_.max_fetch_bytes &&
              (gap <= store_limits_.request_bytes || (gap <= store_limits_.max_gap_bytes && wastes_little));
    }
    if (!joins) {
      fetch_op& op = plan.fetches.emplace_back();
      op.object = object;
      op.first_decode = static_cast<std::uint32_t>(plan.decodes.size());
      op.range = range;
      op.in_place = in_place;
      op.may_be_absent = may_be_absent;
      op.first_fill = first_fill;
      op.fill_count = fill_count;
      first_fill += fill_count;
      fill_count = 0;  // they belong to the object's first request
      open = !alone;
      end = range.whole() ? 0 : range.offset + range.length;
      useful = range.length;
    } else {
      plan.fetches.back().in_place = false;
      useful += range.length;
      end = std::max(end, range.offset + range.length);
    }
    fetch_op& op = plan.fetches.back();
    if (!op.range.whole()) {
      op.range.length = end - op.range.offset;
      decode.offset = range.offset - op.range.offset;
    }
    ++op.decode_count;
    plan.decodes.push_back(decode);
  }
}

}  // namespace penstock::inline v0
