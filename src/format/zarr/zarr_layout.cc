#include "format/zarr/zarr_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <iterator>
#include <utility>

#include "base/checked.h"
#include "base/counted.h"
#include "format/zarr/shard_codec.h"

namespace penstock::inline v0 {
namespace {

void append_number(std::string& out, std::uint64_t number) {
  char digits[20];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), number).ptr;
  out.append(digits, static_cast<std::size_t>(end - digits));
}

/// Whether the bytes of the shard's chunks are in the object at the offsets of the shard's index: no codec moved them,
/// and only their order was changed before.
bool chunks_in_place(const zarr_codecs& codecs) {
  const auto named = [](std::string_view name) {
    return [name](const codec_config& codec) { return codec.name == name; };
  };
  return std::all_of(codecs.chain.begin(), codecs.chain.end(), named("transpose")) &&
         std::all_of(codecs.behind.begin(), codecs.behind.end(), named("crc32c"));
}

/// One level of sharding for shards of the shape `outer`, as far as it does not depend on the levels below. `place[i]`
/// is the array's dimension for the i-th of the shard.
result<zarr_layout::level> make_level(const zarr_codecs& codecs, const extents& outer,
                                      const dim_vector<std::uint64_t>& place) {
  const zarr_shard& shard = *codecs.shard;
  const std::size_t rank = outer.size();
  zarr_layout::level out;
  out.chunk = extents(rank);
  extents counts(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    const std::uint64_t length = outer[place[i]];
    if (length % shard.chunk[i] != 0) {
      return error(errc::corrupt_data, fmt::format("sharding_indexed has chunk_shape {}, which does not divide {}",
                                                   to_string(shard.chunk), to_string(outer)));
    }
    out.chunk[place[i]] = shard.chunk[i];
    counts[i] = length / shard.chunk[i];
  }
  PENSTOCK_ASSIGN(out.index, shard_index_codec::make(shard, codecs.behind, counts));
  out.strides.resize(rank);
  std::uint64_t stride = 1;
  for (std::size_t i = rank; i-- > 0;) {
    out.strides[place[i]] = stride;
    stride *= counts[i];
  }
  return out;
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
  PENSTOCK_ASSIGN(out->write_grid_, object_grid(metadata.grid, metadata.shape));
  PENSTOCK_ASSIGN(out->shapes_, object_shapes::make(metadata.grid, out->write_grid_));
  result<> compiled = out->compile(metadata, options);
  if (!compiled.ok()) return std::move(compiled).error().note("compiling the codecs of zarr.json");
  if (out->levels_.empty()) {
    out->grid_ = out->write_grid_;
  } else {
    // Every length of a shard is a multiple of its chunks', so the cells are regular with any shards.
    PENSTOCK_ASSIGN(out->grid_, chunk_grid::regular(metadata.shape, out->cell_));
  }
  return std::shared_ptr<const zarr_layout>(std::move(out));
}

result<> zarr_layout::compile(const zarr_metadata& metadata, const codec_chain_options& given) {
  const extents largest = shapes_.shape(0);
  const std::size_t rank = largest.size();
  // A transpose before a shard only changes the order in which the shard counts its dimensions. It commutes with the
  // division into inner chunks, so it moves into their chain.
  dim_vector<std::uint64_t> place(rank);
  for (std::size_t i = 0; i < rank; ++i) place[i] = i;
  std::vector<codec_config> chain;

  extents outer = largest;
  const zarr_codecs* codecs = &metadata.codecs;
  for (; codecs->shard != nullptr && chunks_in_place(*codecs); codecs = &codecs->shard->codecs) {
    if (levels_.size() == kMaxDepth) {
      return error(errc::unsupported, fmt::format("shards nested deeper than {} levels", kMaxDepth));
    }
    PENSTOCK_ASSIGN(std::vector<codec_config> before, whole_chain({codecs->chain, nullptr, {}}, rank));
    for (codec_config& codec : before) {
      PENSTOCK_ASSIGN(const auto order, parse_transpose_order(codec, rank));
      dim_vector<std::uint64_t> moved(rank);
      for (std::size_t i = 0; i < rank; ++i) moved[i] = place[order[i]];
      place = moved;
      chain.push_back(std::move(codec));
    }
    if (codecs->shard->chunk.size() != rank) {
      return error(errc::corrupt_data, fmt::format("sharding_indexed has chunk_shape {}, the array has {}",
                                                   to_string(codecs->shard->chunk), counted(rank, "dimension")));
    }
    PENSTOCK_ASSIGN(level next, make_level(*codecs, outer, place));
    if (levels_.empty() && shapes_.count() > 1) {
      outer_.push_back(next);
      for (std::size_t number = 1; number < shapes_.count(); ++number) {
        PENSTOCK_ASSIGN(level other, make_level(*codecs, shapes_.shape(number), place));
        outer_.push_back(std::move(other));
      }
    }
    outer = next.chunk;
    levels_.push_back(std::move(next));
  }

  // The rest is one cell, possibly a whole shard with a compressor after it.
  PENSTOCK_ASSIGN(std::vector<codec_config> rest, whole_chain(*codecs, rank));
  std::move(rest.begin(), rest.end(), std::back_inserter(chain));
  PENSTOCK_ASSIGN(const shard_codecs with_shards, shard_codecs(metadata, given.external).behind(*codecs));
  codec_chain_options options = given;
  options.external = &with_shards;
  cell_ = outer;
  const std::size_t chains = levels_.empty() ? shapes_.count() : 1;
  for (std::size_t number = 0; number < chains; ++number) {
    PENSTOCK_ASSIGN(
        codec_chain compiled,
        codec_chain::compile(chain, metadata.type, levels_.empty() ? shapes_.shape(number) : cell_, options));
    chains_.push_back(std::move(compiled));
  }
  if (levels_.empty()) return {};
  shards_ = metadata.grid.chunk;
  return measure_levels(largest);
}

// Computes the fields of each level that depend on the levels below it.
result<> zarr_layout::measure_levels(const extents& largest) {
  const auto in_cells = [&](const extents& length) {
    dim_vector<std::uint64_t> out(length.size());
    for (std::size_t d = 0; d < length.size(); ++d) out[d] = length[d] / cell_[d];
    return out;
  };
  std::uint64_t shards = 1;  // of the level, within one object, the largest
  std::uint64_t node = 0;
  for (std::size_t k = 0; k < levels_.size(); ++k) {
    level& at = levels_[k];
    at.first_node = node;
    at.shard_cells = in_cells(k == 0 ? largest : levels_[k - 1].chunk);
    at.entry_cells = in_cells(at.chunk);
    if (!checked_add(node, shards, node) || !checked_mul(shards, at.index.entries(), shards)) {
      return error(errc::unsupported,
                   fmt::format("one shard {} holds more than 2^64 chunks {}", to_string(largest), to_string(cell_)));
    }
  }
  std::uint64_t entry_bytes = chains_[0].max_encoded_bytes();
  const auto bound = [&](const level& at) {
    return saturating_add(saturating_mul(at.index.entries(), entry_bytes), at.index.least_shard_bytes());
  };
  for (std::size_t k = levels_.size(); k-- > 0;) {
    if (k == 0) {
      for (std::size_t number = 0; number < outer_.size(); ++number) {
        level& each = outer_[number];
        each.shard_cells = in_cells(shapes_.shape(number));
        each.entry_cells = levels_[0].entry_cells;
        each.max_shard_bytes = bound(each);
      }
    }
    levels_[k].max_shard_bytes = bound(levels_[k]);
    entry_bytes = levels_[k].max_shard_bytes;
  }
  return {};
}

std::uint16_t zarr_layout::chain_of(cell_id cell) const {
  if (chains_.size() == 1) return 0;
  dim_vector<std::uint64_t> at;
  grid_.coordinates(cell, at);
  return static_cast<std::uint16_t>(shapes_.of(at));
}

const zarr_layout::level& zarr_layout::level_of(std::size_t depth, object_id object) const {
  if (depth != 0 || outer_.empty()) return levels_[depth];
  dim_vector<std::uint64_t> at;
  write_grid_.coordinates(object, at);
  return outer_[shapes_.of(at)];
}

std::uint64_t zarr_layout::entry_of(std::size_t depth, object_id object, const dim_vector<std::uint64_t>& cell) const {
  const level& here = level_of(depth, object);
  dim_vector<std::uint64_t> shard;
  const bool irregular = depth == 0 && !outer_.empty();
  if (irregular) write_grid_.coordinates(object, shard);
  std::uint64_t entry = 0;
  for (std::size_t d = 0; d < cell.size(); ++d) {
    // A shard that does not begin at a multiple of its length still begins at one of each length below it.
    const std::uint64_t within =
        irregular ? cell[d] - write_grid_.axis(d).origin(shard[d]) / cell_[d] : cell[d] % here.shard_cells[d];
    entry += within / here.entry_cells[d] * here.strides[d];
  }
  return entry;
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
  out += keys_.suffix;
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
