// Arrays whose encoding changes: read and written in blocks of whole objects of the destination.

#include <fmt/format.h>
#include <penstock/create.h>
#include <penstock/open.h>
#include <penstock/stream.h>
#include <penstock/variable.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>

#include <penstock/extend/json.h>
#include "api/copy/array_copy.h"
#include "api/copy/copy_blocks.h"
#include "array/packed_fields.h"
#include "array/utf8.h"
#include "base/checked.h"
#include "base/counted.h"
#include "driver/check_create.h"
#include "driver/metadata_edit.h"
#include "driver/missing_value.h"
#include "driver/open_hdf5.h"
#include "engine/array_state.h"
#include "format/zarr/zarr_defaults.h"

namespace penstock::inline v0 {
namespace {

/// A block is extended to the source's chunks, so that they are decoded once, but not beyond this.
constexpr std::uint64_t kMaxPieceBytes = std::uint64_t{64} << 20;

// The codecs within shards, if there are any: create_options specifies shards separately.
result<std::string> inner_codecs(const std::string& text) {
  PENSTOCK_ASSIGN(const json codecs, json::parse(text));
  if (const json::array_t* list = codecs.as_array()) {
    for (const json& each : *list) {
      const json* const name = each.find("name");
      if (name == nullptr || name->as_string() == nullptr || *name->as_string() != "sharding_indexed") continue;
      const json* const configuration = each.find("configuration");
      const json* const inner = configuration != nullptr ? configuration->find("codecs") : nullptr;
      if (inner != nullptr) return inner->dump();
    }
  }
  return text;
}

// The configuration of a codec that is given by name only.
json default_settings(const std::string& name, const dtype& type) {
  const std::int64_t automatic = 0;
  if (name == "zstd") return json::object_t{{"level", automatic}, {"checksum", false}};
  if (name == "gzip") return json::object_t{{"level", std::int64_t{5}}};
  if (name == "blosc") {
    return json::object_t{{"cname", "lz4"},
                          {"clevel", std::int64_t{5}},
                          {"shuffle", "shuffle"},
                          {"typesize", static_cast<std::int64_t>(type.item_bytes())},
                          {"blocksize", automatic}};
  }
  return json();
}

json with_settings(const json& codec, const dtype& type) {
  const json* const named = codec.find("name");
  const std::string* const name = codec.as_string() != nullptr ? codec.as_string()
                                  : named != nullptr           ? named->as_string()
                                                               : nullptr;
  if (name == nullptr || codec.find("configuration") != nullptr) return codec;
  json settings = default_settings(*name, type);
  if (settings.as_object() == nullptr) return codec;
  return json::object_t{{"name", *name}, {"configuration", std::move(settings)}};
}

// Version 2 has filters and one compressor: the last of a list of names.
json in_version_2(const json::array_t& names) {
  json::array_t filters;
  for (const json& each : names) {
    const std::string* const name = each.as_string();
    json::object_t codec{{"id", name != nullptr ? json(*name) : each}};
    if (name != nullptr && *name == "zstd") codec.insert(codec.end(), {"level", json(std::int64_t{0})});
    if (name != nullptr && *name == "gzip") codec.insert(codec.end(), {"level", json(std::int64_t{5})});
    filters.push_back(name != nullptr ? json(std::move(codec)) : each);
  }
  json compressor;
  if (!filters.empty()) {
    compressor = std::move(filters.back());
    filters.pop_back();
  }
  json listed = filters.empty() ? json() : json(std::move(filters));
  return json::object_t{{"filters", std::move(listed)}, {"compressor", std::move(compressor)}};
}

result<std::string> complete_codecs(const std::string& text, const dtype& type, int zarr_format) {
  if (text.empty() || text == "auto") return text;
  auto given = json::parse(text);
  if (!given.ok())
    return error(errc::invalid_argument, fmt::format("codecs are not JSON: {}", given.error().message()));
  const json::array_t* const list = given->as_array();
  if (list == nullptr) return text;
  if (zarr_format == 2) return in_version_2(*list).dump();
  json::array_t out;
  for (const json& each : *list) out.push_back(with_settings(each, type));
  return json(std::move(out)).dump();
}

/// The object with filters and compressor: only the metadata states which of the codecs is the compressor.
result<std::string> codecs_of_version_2(const array_state& state) {
  PENSTOCK_ASSIGN(const stored_metadata stored, read_stored_metadata(state));
  json::object_t out;
  for (const char* const name : {"filters", "compressor"}) {
    const json* const member = stored.document.find(name);
    out.emplace_back(name, member != nullptr ? *member : json());
  }
  return json(std::move(out)).dump();
}

/// Whether the chunks of another format are suitable for Zarr: not single rows, not a whole large array.
bool suits_as_chunk(const array_state& from) {
  constexpr std::uint64_t kLeast = std::uint64_t{16} << 10, kMost = std::uint64_t{32} << 20;
  std::uint64_t bytes = from.type.item_bytes();
  bool whole = true;
  for (std::size_t d = 0; d < from.chunks.size(); ++d) {
    if (from.chunks[d] == 0 || !checked_mul(bytes, from.chunks[d], bytes)) return false;
    whole = whole && from.chunks[d] >= from.shape[d];
  }
  return bytes <= kMost && (whole || bytes >= kLeast);
}

/// Whether an array has shards that are multiples of `chunks`: those of other formats are files of any length.
bool are_shards_of(const std::optional<extents>& shards, const extents& chunks) {
  if (!shards) return false;
  for (std::size_t d = 0; d < chunks.size(); ++d)
    if (chunks[d] == 0 || (*shards)[d] % chunks[d] != 0) return false;
  return true;
}

result<create_options> options_for(const array_copy& what) {
  const array_state& state = what.from.state();
  const copy_options& wanted = what.options;
  create_options out;
  out.context = state.context;
  out.path = what.prefix;
  const int source_format = state.format == "zarr2" ? 2 : 3;
  out.zarr_format = wanted.zarr_format != 0 ? wanted.zarr_format : source_format;
  out.attributes_json = state.attributes_json;
  out.shape = state.shape;
  PENSTOCK_ASSIGN(out.type, without_gaps(state.type));
  if (what.as_text) out.type = dtype::variable_utf8();
  const auto check_rank = [&](const char* name, const extents& given) -> result<> {
    if (given.size() == state.shape.size()) return {};
    return error(errc::invalid_argument, fmt::format("{} {} are for {}, the array has {}", name, to_string(given),
                                                     counted(given.size(), "dimension"), state.shape.size()));
  };
  // Other formats have chunks of one row, or of the whole array.
  const bool is_zarr = state.format == "zarr2" || state.format == "zarr3";
  out.chunks = wanted.chunks                      ? *wanted.chunks
               : is_zarr || suits_as_chunk(state) ? state.chunks
                                                  : default_chunks(state.shape, state.type.item_bytes());
  PENSTOCK_TRY(check_rank("chunks", *out.chunks));
  out.auto_shards = wanted.auto_shards;
  if (wanted.shards) {
    PENSTOCK_TRY(check_rank("shards", *wanted.shards));
    out.shards = wanted.shards;
  } else if (!wanted.no_shards && !wanted.auto_shards && !wanted.chunks && out.zarr_format == 3 &&
             are_shards_of(state.shards, *out.chunks)) {
    out.shards = state.shards;
  }
  if (!wanted.codecs_json.empty()) {
    PENSTOCK_ASSIGN(out.codecs_json, complete_codecs(wanted.codecs_json, out.type, out.zarr_format));
  } else if (is_zarr && out.zarr_format == source_format) {
    PENSTOCK_ASSIGN(out.codecs_json, source_format == 2 ? codecs_of_version_2(state) : inner_codecs(state.codecs_json));
  }
  if (what.from.fill_value_json() == "null") {
    out.fill_is_undefined = out.zarr_format == 2;
  } else if (state.type.variable_length()) {
    out.fill_value_json = what.from.fill_value_json();
  } else {
    out.fill_value = state.fill_value;
    if (has_gaps(state.type) && !state.fill_value.empty()) {
      out.fill_value.resize(out.type.item_bytes());
      pack_items(state.type, state.fill_value.data(), out.fill_value.data(), 1);
    }
  }
  if (out.zarr_format == 3) out.dimension_names = state.dimension_names;
  if (!is_zarr || out.zarr_format != source_format) PENSTOCK_TRY(keep_meaning(state, out));
  return out;
}

// Whether an array is the one that the copy would have created.
bool is_same(const array& made, const create_options& wanted) {
  const array_state& state = made.state();
  if (!(state.shape == wanted.shape) || !(state.type == wanted.type)) return false;
  if (!(state.chunks == *wanted.chunks)) return false;
  if (wanted.shards && !(state.shards && *state.shards == *wanted.shards)) return false;
  return state.format == (wanted.zarr_format == 2 ? "zarr2" : "zarr3");
}

result<array> make_destination(const array_copy& what) {
  PENSTOCK_ASSIGN(create_options wanted, options_for(what));
  if (what.options.resume) {
    open_options where;
    where.context = wanted.context;
    where.path = wanted.path;
    where.use_consolidated = consolidation::never;
    auto there = open_array(std::shared_ptr<const store>(what.to), where);
    if (there.ok() && is_same(*there, wanted)) return there;
    if (there.ok()) {
      return error(
          errc::invalid_argument,
          fmt::format("'{}' differs from what the copy makes: it is not the one that was interrupted", there->uri()));
    }
    if (there.error().code() != errc::not_found) return there;
    if (what.stage() != copy_stage::whole && what.stage() != copy_stage::prepare)
      return error(errc::conflict,
                   fmt::format("the array '{}' does not exist: the copy was not prepared", what.prefix));
  }
  return create_array(what.to, wanted);
}

class key_set final : public key_sink {
 public:
  bool key(std::string_view key, std::uint64_t) override {
    keys.emplace(key);
    return true;
  }
  std::unordered_set<std::string> keys;
};

/// Whether complete blocks are written, or compared with what was written.
enum class block_use : std::uint8_t { write, compare };

// Whole objects of the destination, more of them if the source's chunks are longer: chunks may be in several blocks.
result<rechunk_plan> plan_pieces(const array_state& from, const extents& object, unsigned workers, std::uint64_t memory,
                                 block_use use) {
  const std::uint64_t copies = use == block_use::compare ? 2 : 1;
  const std::uint64_t most = std::min(kMaxPieceBytes, memory / copies / std::max(workers, 1U));
  extents piece = object;
  const auto bytes_of = [&](const extents& of) {
    std::uint64_t bytes = from.type.item_bytes();
    for (std::size_t d = 0; d < of.size(); ++d)
      if (!checked_mul(bytes, std::min(of[d], std::max<std::uint64_t>(from.shape[d], 1)), bytes))
        return ~std::uint64_t{0};
    return bytes;
  };
  for (std::size_t d = piece.size(); d-- > 0;) {
    extents longer = piece;
    longer[d] = object[d] * std::max<std::uint64_t>(1, ceil_div(from.chunks[d], object[d]));
    if (bytes_of(longer) <= most) piece = longer;
  }
  // Small objects are taken several at a time.
  for (std::size_t d = piece.size(); d-- > 0;) {
    while (piece[d] < from.shape[d] && bytes_of(piece) < most / 8) {
      extents longer = piece;
      if (!checked_mul(piece[d], 2, longer[d]) || bytes_of(longer) > most / 4) break;
      piece = longer;
    }
  }
  rechunk_plan out;
  PENSTOCK_ASSIGN(out.reads, chunk_grid::regular(from.shape, piece));
  out.writes = out.reads;
  const std::uint64_t each = std::max<std::uint64_t>(bytes_of(piece), 1), together = memory / copies / each;
  out.workers = static_cast<unsigned>(std::clamp<std::uint64_t>(together, 1, std::max(workers, 1U)));
  if (!checked_mul(each, out.workers * copies, out.memory_bytes)) out.memory_bytes = ~std::uint64_t{0};
  return out;
}

/// \param object  The unit of a write: a shard, or a chunk.
result<rechunk_plan> plan_for(const array_copy& what, const extents& object, block_use use) {
  const array_state& from = what.from.state();
  const unsigned workers = what.threads();
  const std::uint64_t given = what.options.memory_bytes;
  const std::uint64_t memory = given != 0 ? given : from.context->state().accounts().memory_limit() / 2;
  // Bytes of elements of variable length are stored elsewhere: they cannot go through a file.
  if (from.type.variable_length()) return plan_pieces(from, object, workers, memory, use);
  PENSTOCK_ASSIGN(const chunk_grid to, chunk_grid::regular(from.shape, object));
  // Blocks that wait in memory would wait for other processes: these use a file.
  const bool gathers = what.stage() == copy_stage::whole;
  const bool compares = use == block_use::compare, has_rule = what.options.decode_once && !compares;
  auto plan = plan_rechunk({from.layout->grid(), to, from.type.item_bytes(), memory, workers, gathers, compares});
  if (has_rule && !plan.ok()) return plan;
  // Both passes of a comparison are one stage: several processes do not share a file for it.
  const bool has_file = !what.options.scratch.empty() && (what.stage() == copy_stage::whole || !compares);
  const bool lacks_file = plan.ok() && plan->way == rechunk_way::spilled && !has_file;
  if (lacks_file && has_rule)
    return error(errc::invalid_argument,
                 fmt::format("{} of memory is too little to decode each chunk once without a scratch folder, for a "
                             "file of {}",
                             counted(memory, "byte"), counted(plan->file_bytes, "byte")));
  if (!plan.ok() || lacks_file) return plan_pieces(from, object, workers, memory, use);
  return plan;
}

copy_step step_of(const array_copy& what, const rechunk_plan& plan) {
  copy_step out;
  out.path = what.path;
  out.plan = to_string(plan, what.from.type().item_bytes());
  out.passes = plan.way == rechunk_way::spilled ? 2 : 1;
  out.memory_bytes = plan.memory_bytes;
  out.scratch_bytes = plan.file_bytes;
  return out;
}

}  // namespace

result<bool> array_copy::is_text() const {
  const array_state& source = from.state();
  const bool may_be = source.format == kHdf5Format && source.type.kind() == dtype_kind::variable_bytes &&
                      options.codecs_json.find("vlen-bytes") == std::string::npos;
  if (!may_be) return false;
  stream_options how;
  how.depth = 1;
  how.threads = options.threads;
  PENSTOCK_ASSIGN(array_stream blocks, array_stream::make(from, std::move(how)));
  for (;;) {
    PENSTOCK_ASSIGN(const std::optional<stream_tile> block, blocks.next());
    if (!block) return true;
    PENSTOCK_ASSIGN(const std::uint64_t count, element_count(block->where.size));
    const std::byte* at = block->values.view.data;
    for (std::uint64_t i = 0; i < count; ++i, at += sizeof(variable_item)) {
      variable_item item;
      std::memcpy(&item, at, sizeof item);
      if (!is_utf8({item.data, static_cast<std::size_t>(item.size)})) return false;
    }
  }
}

result<> array_copy::check_elements() const {
  const array_state& source = from.state();
  if (source.type.kind() == dtype_kind::object) {
    return error(errc::unsupported, "arrays of Python objects can only be copied unchanged")
        .note(fmt::format("array '{}'", source.uri));
  }
  PENSTOCK_ASSIGN(const create_options wanted, options_for(*this));
  PENSTOCK_TRY(check_create(to, wanted));
  PENSTOCK_ASSIGN(const std::uint64_t elements, element_count(source.shape));
  // Automatic shards are known when the array is created.
  if (elements == 0 || wanted.auto_shards) return {};
  PENSTOCK_ASSIGN(const rechunk_plan plan,
                  plan_for(*this, wanted.shards ? *wanted.shards : *wanted.chunks, block_use::write));
  report.steps.push_back(step_of(*this, plan));
  // A copy that is resumed has its file already.
  if (plan.way == rechunk_way::spilled && !options.check_only)
    return scratch_file::check_folder(options.scratch, options.resume ? 0 : plan.file_bytes);
  return {};
}

result<> array_copy::copy_elements() const {
  const array_state& source = from.state();
  PENSTOCK_ASSIGN(const array target, make_destination(*this));
  PENSTOCK_ASSIGN(const std::uint64_t elements, element_count(source.shape));
  if (elements == 0) return {};
  const array_state& made = target.state();
  PENSTOCK_ASSIGN(const rechunk_plan plan, plan_for(*this, made.shards ? *made.shards : made.chunks, block_use::write));
  report.steps.push_back(step_of(*this, plan));
  if (plan.way != rechunk_way::spilled && stage() != copy_stage::whole && stage() != copy_stage::first) return {};
  key_set there;
  if (options.resume) PENSTOCK_TRY(to->list(prefix, listing::objects, there));
  const chunk_layout& layout = *made.layout;
  block_copier::settings with{options, path, threads(), {}, false};
  if (options.resume) {
    with.is_there = [&](const box& block) {
      bool all = true;
      std::string key;
      for_each_part(layout.write_grid(), block, [&](chunk_id id, const box&) {
        layout.key(id, key);
        all = all && there.keys.contains(prefix + key);
      });
      return all;
    };
  }
  block_copier blocks(from, target, plan, std::move(with));
  auto done = blocks.run();
  report.objects_written += blocks.written_objects();
  report.objects_skipped += blocks.skipped_objects();
  report.bytes += blocks.written_bytes();
  return done;
}

result<> array_copy::compare() const {
  open_options where;
  where.context = from.state().context;
  where.path = prefix;
  where.use_consolidated = consolidation::never;
  PENSTOCK_ASSIGN(const array made, open_array(std::shared_ptr<const store>(to), where));
  PENSTOCK_ASSIGN(const std::uint64_t elements, element_count(from.shape()));
  if (elements == 0) return {};
  const array_state& state = made.state();
  PENSTOCK_ASSIGN(const rechunk_plan plan,
                  plan_for(*this, state.shards ? *state.shards : state.chunks, block_use::compare));
  return block_copier(from, made, plan, {options, path, threads(), {}, true}).run();
}

}  // namespace penstock::inline v0
