#include "format/zarr/zarr_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <utility>

#include "base/checked.h"

namespace penstock::inline v0 {
namespace {

/// More than a document can nest (the JSON parser stops at 128 levels, a shard takes three).
constexpr std::size_t kMaxDepth = 64;
/// Each has a compiled chain. Files of daily data have four lengths of a month.
constexpr std::size_t kMaxCellShapes = 4096;

std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t sum = 0;
  return checked_add(a, b, sum) ? sum : byte_range::kAll;
}
std::uint64_t saturating_mul(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t product = 0;
  return checked_mul(a, b, product) ? product : byte_range::kAll;
}

void append_number(std::string& out, std::uint64_t number) {
  char digits[20];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), number).ptr;
  out.append(digits, static_cast<std::size_t>(end - digits));
}

/// Appends `codecs` with every transpose's order as a list, the only form that the codecs know.
result<> append_spelled_out(const std::vector<codec_config>& codecs, std::size_t rank, std::vector<codec_config>& out) {
  for (const codec_config& codec : codecs) {
    out.push_back(codec);
    const json* order = codec.configuration.find("order");
    if (codec.name != "transpose" || order == nullptr || order->as_string() == nullptr) continue;
    PENSTOCK_ASSIGN(const auto axes, parse_transpose_order(codec, rank));
    out.back().configuration = json::object_t{{"order", json::array_t(axes.begin(), axes.end())}};
  }
  return {};
}

}  // namespace

result<std::shared_ptr<const zarr_layout>> zarr_layout::make(const zarr_metadata& metadata,
                                                             const codec_chain_options& given) {
  codec_chain_options options = given;
  options.stored_order_filters = metadata.zarr_format == 2;
  if (metadata.kind != zarr_node_kind::array) {
    return error(errc::invalid_argument, "zarr.json describes a group, not an array");
  }
  std::shared_ptr<zarr_layout> out(new zarr_layout);
  out->keys_ = metadata.keys;
  result<> levels = out->add_levels(metadata, options);
  if (!levels.ok()) return std::move(levels).error().note("compiling the codecs of zarr.json");
  PENSTOCK_ASSIGN(out->write_grid_, object_grid(metadata.grid, metadata.shape));
  if (metadata.grid.regular()) {
    PENSTOCK_ASSIGN(out->grid_, chunk_grid::regular(metadata.shape, out->cell_));
  } else {
    out->grid_ = out->write_grid_;
    result<> compiled = out->add_cell_shapes(metadata, options);
    if (!compiled.ok()) return std::move(compiled).error().note("compiling the codecs of zarr.json");
  }
  return std::shared_ptr<const zarr_layout>(std::move(out));
}

result<> zarr_layout::add_levels(const zarr_metadata& metadata, const codec_chain_options& options) {
  const extents& object = metadata.grid.chunk;
  const std::size_t rank = object.size();
  if (metadata.codecs.shard != nullptr && !metadata.grid.regular()) {
    return error(errc::unsupported, "codec 'sharding_indexed' in a 'rectilinear' chunk grid is not readable");
  }
  // A transpose before a shard only changes the order in which the shard counts its dimensions. It commutes with the
  // cut into inner chunks, so it moves into their chain, and `place[i]` says which of the array's dimensions the i-th
  // is.
  dim_vector<std::uint64_t> place(rank);
  for (std::size_t i = 0; i < rank; ++i) place[i] = i;
  std::vector<codec_config> chain;

  extents outer = object;
  const zarr_codecs* codecs = &metadata.codecs;
  for (; codecs->shard != nullptr; codecs = &codecs->shard->codecs) {
    const zarr_shard& shard = *codecs->shard;
    if (levels_.size() == kMaxDepth) {
      return error(errc::unsupported, fmt::format("shards nested deeper than {} levels", kMaxDepth));
    }
    for (const codec_config& codec : codecs->chain) {
      if (codec.name != "transpose") {
        return error(errc::unsupported,
                     fmt::format("codec '{:.80}' before sharding_indexed is not readable", codec.name));
      }
      PENSTOCK_ASSIGN(const auto order, parse_transpose_order(codec, rank));
      dim_vector<std::uint64_t> moved(rank);
      for (std::size_t i = 0; i < rank; ++i) moved[i] = place[order[i]];
      place = moved;
    }
    PENSTOCK_TRY(append_spelled_out(codecs->chain, rank, chain));

    if (shard.chunk.size() != rank) {
      return error(errc::corrupt_data, fmt::format("sharding_indexed has chunk_shape {}, the array has {} dimensions",
                                                   to_string(shard.chunk), rank));
    }
    level next;
    next.chunk = extents(rank);
    extents counts(rank);
    for (std::size_t i = 0; i < rank; ++i) {
      const std::uint64_t length = outer[place[i]];
      if (length % shard.chunk[i] != 0) {
        return error(errc::corrupt_data, fmt::format("sharding_indexed has chunk_shape {}, which does not divide {}",
                                                     to_string(shard.chunk), to_string(outer)));
      }
      next.chunk[place[i]] = shard.chunk[i];
      counts[i] = length / shard.chunk[i];
    }
    PENSTOCK_ASSIGN(next.index, shard_index_codec::make(shard, codecs->behind, counts));
    next.strides.resize(rank);
    std::uint64_t stride = 1;
    for (std::size_t i = rank; i-- > 0;) {
      next.strides[place[i]] = stride;
      stride *= counts[i];
    }
    outer = next.chunk;
    levels_.push_back(std::move(next));
  }

  PENSTOCK_TRY(append_spelled_out(codecs->chain, rank, chain));
  cell_ = outer;
  PENSTOCK_ASSIGN(codec_chain compiled, codec_chain::compile(chain, metadata.type, cell_, options));
  chains_.push_back(std::move(compiled));
  if (levels_.empty()) return {};

  shards_ = object;
  std::uint64_t shards = 1;  // of the level, within one object
  std::uint64_t node = 0;
  for (std::size_t k = 0; k < levels_.size(); ++k) {
    level& at = levels_[k];
    at.first_node = node;
    const extents& shard = k == 0 ? object : levels_[k - 1].chunk;
    at.shard_cells = at.entry_cells = dim_vector<std::uint64_t>(rank);
    for (std::size_t d = 0; d < rank; ++d) {
      at.shard_cells[d] = shard[d] / cell_[d];
      at.entry_cells[d] = at.chunk[d] / cell_[d];
    }
    if (!checked_add(node, shards, node) || !checked_mul(shards, at.index.entries(), shards)) {
      return error(errc::unsupported,
                   fmt::format("one shard {} holds more than 2^64 chunks {}", to_string(object), to_string(cell_)));
    }
  }
  std::uint64_t entry_bytes = chains_[0].max_encoded_bytes();
  for (auto at = levels_.rbegin(); at != levels_.rend(); ++at) {
    at->max_shard_bytes =
        saturating_add(saturating_mul(at->index.entries(), entry_bytes), at->index.least_shard_bytes());
    entry_bytes = at->max_shard_bytes;
  }
  return {};
}

result<> zarr_layout::add_cell_shapes(const zarr_metadata& metadata, const codec_chain_options& options) {
  const std::size_t rank = grid_.rank();
  std::vector<std::vector<std::uint64_t>> lengths(rank);  // the different ones of each dimension
  cell_classes_.resize(rank);
  std::uint64_t shapes = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    const grid_axis& axis = grid_.axis(d);
    if (axis.is_uniform()) {
      lengths[d].push_back(metadata.grid.chunk[d]);
    } else {
      for (std::uint64_t i = 0; i < axis.cells(); ++i) lengths[d].push_back(axis.codec_length(i));
      std::sort(lengths[d].begin(), lengths[d].end(), std::greater<>());  // sums assume that chain 0 is the largest
      lengths[d].erase(std::unique(lengths[d].begin(), lengths[d].end()), lengths[d].end());
      for (std::uint64_t i = 0; i < axis.cells(); ++i) {
        const auto found =
            std::lower_bound(lengths[d].begin(), lengths[d].end(), axis.codec_length(i), std::greater<>());
        cell_classes_[d].push_back(static_cast<std::uint32_t>(found - lengths[d].begin()));
      }
    }
    if (!checked_mul(shapes, lengths[d].size(), shapes) || shapes > kMaxCellShapes) {
      return error(errc::unsupported,
                   fmt::format("a 'rectilinear' chunk grid with more than {} different chunk shapes", kMaxCellShapes));
    }
  }
  if (grid_.cells() == 0) return {};

  std::vector<codec_config> chain;
  PENSTOCK_TRY(append_spelled_out(metadata.codecs.chain, rank, chain));
  chains_.clear();
  class_strides_.resize(rank);
  std::uint64_t stride = 1;
  for (std::size_t d = rank; d-- > 0;) {
    class_strides_[d] = static_cast<std::uint32_t>(stride);
    stride *= lengths[d].size();
  }
  for (std::uint64_t number = 0; number < shapes; ++number) {
    extents cell(rank);
    for (std::size_t d = 0; d < rank; ++d) cell[d] = lengths[d][number / class_strides_[d] % lengths[d].size()];
    PENSTOCK_ASSIGN(codec_chain compiled, codec_chain::compile(chain, metadata.type, cell, options));
    chains_.push_back(std::move(compiled));
  }
  return {};
}

std::uint16_t zarr_layout::chain_of(cell_id cell) const {
  if (chains_.size() == 1) return 0;
  dim_vector<std::uint64_t> at;
  grid_.coordinates(cell, at);
  std::uint32_t number = 0;
  for (std::size_t d = 0; d < at.size(); ++d) {
    if (!cell_classes_[d].empty()) number += cell_classes_[d][at[d]] * class_strides_[d];
  }
  return static_cast<std::uint16_t>(number);
}

index_request zarr_layout::request_for(const index_key& key, const level& at, std::uint64_t begin,
                                       std::uint64_t end) const noexcept {
  const std::uint64_t bytes = at.index.index_bytes();
  const bool inner = key.node != 0;  // the end of an object is not known before it is asked for
  if (at.index.reads_whole_shard()) {
    return {key, {begin, inner ? end - begin : byte_range::kAll, false}, inner ? end - begin : at.max_shard_bytes};
  }
  if (at.index.at_start()) return {key, {begin, bytes, false}, bytes};
  if (inner) return {key, {end - bytes, bytes, false}, bytes};
  return {key, {0, bytes, true}, bytes};
}

/// One call of locate: remembers what the cell before had to look up, because neighbours mostly share it.
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
      if (absent_) out = {presence::absent, 0, object_, {}};
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
  // No initialisers: a small read would pay for clearing kMaxDepth of them.
  struct lookup {
    object_id object;
    std::uint64_t node;
    const index_entry* entry;
  };

  /// Goes down the levels to the index that holds `cell`. Leaves block_ null where that index, or the shard, is
  /// missing.
  result<> seek(cell_id cell) {
    const std::vector<level>& levels = layout_.levels_;
    layout_.grid_.coordinates(cell, at_);
    const std::size_t rank = at_.size();
    dim_vector<std::uint64_t> shard(rank);
    for (std::size_t d = 0; d < rank; ++d) shard[d] = at_[d] / levels[0].shard_cells[d];
    object_ = layout_.write_grid_.id(shard);
    plan_run();

    begin_ = 0;
    end_ = byte_range::kAll;
    absent_ = false;
    block_ = nullptr;
    std::uint64_t shard_number = 0;  // among all shards of the level
    for (std::size_t k = 0; k < levels.size(); ++k) {
      const level& here = levels[k];
      const index_entry* known = find(k, {object_, here.first_node + shard_number});
      if (known == nullptr) {
        block_ = nullptr;
        return request(here, {object_, here.first_node + shard_number});
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
        entry_ += at_[d] % here.shard_cells[d] / here.entry_cells[d] * here.strides[d];
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

  /// How many of the cells that follow stand in the same innermost shard, one entry step further each.
  void plan_run() noexcept {
    run_ = 0;
    if (at_.empty()) return;
    const std::size_t last = at_.size() - 1;
    const level& deepest = layout_.levels_.back();
    const std::uint64_t in_shard = deepest.shard_cells[last] - 1 - at_[last] % deepest.shard_cells[last];
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

  result<> request(const level& here, const index_key& key) {
    // A walk in C order comes back to the same shards in the same order: the next one wanted is mostly the next listed.
    const std::size_t count = missing_.size();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t slot = hint_ + i < count ? hint_ + i : hint_ + i - count;
      if (missing_[slot].key == key) {
        hint_ = slot + 1 < count ? slot + 1 : 0;
        return {};
      }
    }
    missing_.push_back(layout_.request_for(key, here, begin_, end_));
    hint_ = 0;
    return {};
  }

  error leaves_shard(cell_id cell, const shard_index::entry& found) const {
    return error(errc::corrupt_data, fmt::format("shard index gives offset {} and length {} in a shard of {} bytes",
                                                 found.offset, found.length, end_ - begin_))
        .note("locating " + layout_.describe(cell));
  }
  error too_long(cell_id cell, const shard_index::entry& found) const {
    return error(errc::corrupt_data, fmt::format("shard index gives {} bytes to a chunk whose codecs make at most {}",
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

const zarr_layout::level* zarr_layout::level_of(std::uint64_t node) const noexcept {
  for (auto at = levels_.rbegin(); at != levels_.rend(); ++at) {
    if (node >= at->first_node) return &*at;
  }
  return nullptr;
}

result<index_ptr> zarr_layout::parse(const index_request& request, std::span<const std::byte> bytes,
                                     std::uint64_t object_size) const {
  const level* at = level_of(request.key.node);
  if (at == nullptr) return error(errc::internal, "an array without shards has no index");
  // Only the object's own index can be held against the object's size: entries count from the start of their shard.
  const std::uint64_t shard_bytes = request.key.node == 0 ? object_size : byte_range::kAll;
  PENSTOCK_ASSIGN(index_ptr block, at->index.decode(bytes, shard_bytes));
  return block;
}

void zarr_layout::key(object_id object, std::string& out) const {
  dim_vector<std::uint64_t> at;
  write_grid_.coordinates(object, at);
  out.clear();
  if (!keys_.v2) out.push_back('c');
  for (std::size_t d = 0; d < at.size(); ++d) {
    if (d != 0 || !keys_.v2) out.push_back(keys_.separator);
    append_number(out, at[d]);
  }
  if (keys_.v2 && at.empty()) out.push_back('0');
}

std::string zarr_layout::describe(cell_id cell) const {
  dim_vector<std::uint64_t> at;
  grid_.coordinates(cell, at);
  return "chunk " + to_string(at);
}

std::string zarr_layout::describe_codecs() const {
  std::string out;
  for (const level& at : levels_) {
    out += fmt::format("sharding_indexed({}, index: {}) > ", to_string(at.chunk), at.index.describe());
  }
  return out + chains_[0].describe();
}

}  // namespace penstock::inline v0
