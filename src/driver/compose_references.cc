#include "driver/compose_references.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include <penstock/open.h>
#include "array/chunk_grid.h"
#include "base/checked.h"
#include "codec/hdf5/hdf5_cast.h"
#include "driver/chunk_codecs.h"
#include "driver/zarr_nodes.h"
#include "format/zarr/zarr_grid.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kMostEdges = std::uint64_t{1} << 22;   // along one dimension
constexpr std::uint64_t kMostChunks = std::uint64_t{1} << 24;  // with references
/// The limit for small files. A file may have one chunk more for each byte of the sources' chunks, because a few bytes
/// can describe many chunks.
constexpr std::uint64_t kFewChunks = std::uint64_t{1} << 20;
constexpr std::size_t kMostChains = 60000;
constexpr std::uint32_t kNoChain = ~std::uint32_t{0};  // for a chunk that does not exist
constexpr std::string_view kZarray = ".zarray";

error too_many(std::string_view of) {
  return {errc::unsupported, fmt::format("virtual HDF5 datasets of too many {} are not readable", of)};
}

json list_json(const std::vector<std::uint64_t>& numbers) {
  return json(json::array_t(numbers.begin(), numbers.end()));
}

// The bytes of objects between the first and the last that a table refers to. The result is at most the size of the
// objects, even if references overlap. For a run over several objects it is the sum of the lengths of its references,
// because the objects may be too many to visit: overlapping references can then exceed the size of the objects.
std::uint64_t referenced_bytes(const reference_table& table) {
  struct span_of_object {
    std::uint64_t begin = ~std::uint64_t{0}, end = 0;
  };
  std::map<std::uint32_t, span_of_object> spans;
  std::uint64_t out = 0;
  const auto add = [&](const cell_reference& each) {
    span_of_object& known = spans[each.object];
    known.begin = std::min(known.begin, each.offset);
    known.end = std::max(known.end, each.length == byte_range::kAll ? each.length : each.offset + each.length);
  };
  for (const reference_table::record& record : table.records()) {
    if (!record.is_run()) {
      for (std::uint64_t i = 0; i < record.count; ++i) add(table.at(record, i));
    } else if (record.object_step != 0 || record.object_outer != 0) {
      out = saturating_add(out, saturating_mul(record.count, record.length));
    } else {
      for (const std::uint64_t i : {std::uint64_t{0}, record.inner - 1, record.count - record.inner, record.count - 1})
        add(table.at(record, i));
    }
  }
  for (const auto& [object, span] : spans) out = saturating_add(out, span.end - std::min(span.begin, span.end));
  return out;
}

// A type in this machine's byte order.
json native_type(const json& dtype) {
  constexpr char kOther = std::endian::native == std::endian::little ? '>' : '<';
  if (const std::string* const name = dtype.as_string()) {
    std::string out = *name;
    if (!out.empty() && out.front() == kOther) out.front() = kOther == '>' ? '<' : '>';
    return json(std::move(out));
  }
  const json::array_t* const fields = dtype.as_array();
  if (fields == nullptr) return dtype;
  json::array_t out;
  for (const json& field : *fields) {
    json::array_t parts = field.as_array() != nullptr ? *field.as_array() : json::array_t();
    if (parts.size() > 1) parts[1] = native_type(parts[1]);
    out.emplace_back(std::move(parts));
  }
  return json(std::move(out));
}

/// The part of a source's chunk along one dimension of the result.
struct segment {
  std::uint64_t cell = 0;    // cell of the result
  std::uint64_t source = 0;  // the source's chunk
  std::uint64_t start = 0;   // first element in that chunk
};

/// A source, and the properties of it that the composer needs.
struct source_facts {
  chunk_grid grid;
  std::vector<chunk_codecs> chains;  ///< 0: the usual size
  bool has_short_chunks = false;     ///< some chunks are stored shorter than the others
  std::vector<std::byte> fill;       ///< the fill value as an item of the result
  bool other_fill = false;           ///< whether the source's type differs from the result's
  json cast;                         ///< the codec that converts its numbers to the result's type; null: none
};

class composer {
 public:
  composer(referenced_array like, std::span<const shown_part> parts) noexcept
      : out_(std::move(like)),
        parts_(parts),
        rank_(out_.metadata.shape.size()),
        item_(out_.metadata.type.item_bytes()) {}

  result<referenced_array> compose() && {
    out_.objects.clear();
    for (const shown_part& each : parts_) PENSTOCK_TRY(learn(each));
    for (std::size_t d = 0; d < rank_; ++d) PENSTOCK_TRY(cut(d));
    PENSTOCK_ASSIGN(grid_, chunk_grid::make(axes_));
    for (const shown_part& each : parts_) PENSTOCK_TRY(place(each));
    return finish();
  }

 private:
  struct entry {
    std::uint64_t cell = 0;
    std::uint64_t offset = 0, length = 0;
    std::uint32_t object = 0;
    std::uint32_t chain = 0;
  };

  result<> learn(const shown_part& part) {
    const referenced_array& source = *part.source;
    const auto [at, added] = sources_.try_emplace(part.source.get());
    if (!added) return {};
    source_facts& facts = at->second;
    PENSTOCK_ASSIGN(chunk_codecs usual, usual_codecs(source));
    if (!(source.metadata.type == out_.metadata.type)) {
      PENSTOCK_ASSIGN(facts.cast, cast_of(usual.dtype));
    }
    if (!(source.metadata.type == out_.metadata.type) && facts.cast.is_null())
      return error(errc::unsupported, fmt::format("virtual HDF5 datasets of {} that show {} of {} are not readable",
                                                  out_.metadata.type.name(), source.metadata.type.name(), part.name));
    if (source.metadata.type.variable_length() || source.metadata.zarr_format != 2 || source.metadata.f_order)
      return error(errc::unsupported,
                   fmt::format("virtual HDF5 datasets that show {} are not readable: its elements have no fixed size",
                               part.name));
    PENSTOCK_ASSIGN(facts.grid, grid_of(source));
    facts.chains.push_back(usual);
    for (const chain_variant& each : source.variants) {
      facts.chains.push_back(codecs_of(each, usual));
      facts.has_short_chunks = facts.has_short_chunks || each.shape.has_value();
    }
    facts.fill = fill_of(source, facts.cast);
    facts.other_fill = facts.fill != out_.metadata.fill_value;
    most_chunks_ = std::min(kMostChunks, saturating_add(most_chunks_, referenced_bytes(*source.table)));
    return {};
  }

  // The codec that converts a source's numbers to the result's type; null: none.
  result<json> cast_of(const json& from) const {
    PENSTOCK_ASSIGN(const chunk_codecs ours, usual_codecs(out_));
    const json to = native_type(ours.dtype);
    if (!cast_type(from) || !cast_type(to)) return json();
    const hdf5_cast_type made = *cast_type(to);
    if (made.kind == 'f' && made.bytes == 2) return json();
    return json(json::object_t{{"id", "hdf5.cast"}, {"from", from}, {"to", to}});
  }

  static std::optional<hdf5_cast_type> cast_type(const json& dtype) {
    return dtype.as_string() == nullptr ? std::nullopt : hdf5_cast_type::of(*dtype.as_string());
  }

  // The fill value of a source as an item of the result.
  std::vector<std::byte> fill_of(const referenced_array& source, const json& cast) const {
    const std::vector<std::byte>& theirs = source.metadata.fill_value;
    if (cast.is_null()) return theirs;
    const auto from = cast_type(native_type(*cast.find("from"))), to = cast_type(*cast.find("to"));
    std::vector<std::byte> out(item_);
    if (from && to && theirs.size() == from->bytes) hdf5_cast(*from, theirs, *to, out);
    return out;
  }

  // The length of a source's chunk; a chunk of the result may have that length even if the source ends inside it.
  static std::uint64_t reach(const source_facts& facts, const grid_axis& axis, std::uint64_t chunk, std::uint64_t start,
                             std::uint64_t length) {
    const bool ends = start == 0 && length == axis.valid_length(chunk) && !facts.has_short_chunks;
    return ends ? axis.codec_length(chunk) : length;
  }

  // The ends of the result's chunks along one dimension.
  result<> cut(std::size_t d) {
    const std::uint64_t extent = out_.metadata.shape[d];
    std::vector<std::uint64_t> edges{0, extent};
    const std::uint64_t most = std::min(kMostEdges, most_chunks_);
    const auto are_few = [&] {
      std::sort(edges.begin(), edges.end());
      edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
      return edges.size() <= most;
    };
    const std::uint64_t most_cuts = 2 * most;  // before duplicates are removed
    for (const shown_part& part : parts_) {
      const grid_axis* const axis = axis_of(part, d);
      for (const hdf5_run& run : part.where.runs[d]) {
        edges.push_back(run.to);
        edges.push_back(run.to + run.count);
        if (axis == nullptr) continue;
        const std::uint64_t last = axis->cell_of(run.from + run.count - 1);
        for (std::uint64_t chunk = axis->cell_of(run.from) + 1; chunk <= last; ++chunk) {
          edges.push_back(run.to + (axis->origin(chunk) - run.from));
          if (edges.size() > most_cuts && !are_few()) return too_many("chunks along one dimension");
        }
        if (edges.size() > most_cuts && !are_few()) return too_many("chunks along one dimension");
      }
    }
    if (!are_few()) return too_many("chunks along one dimension");
    if (extent == 0) edges = {0};
    const std::size_t cells = edges.size() - 1;
    PENSTOCK_ASSIGN(std::vector<std::uint64_t> decoded, decoded_lengths(d, edges));
    edges_.push_back(edges);
    const bool alike = cells != 0 && std::all_of(decoded.begin(), decoded.end(),
                                                 [&](std::uint64_t each) { return each == decoded.front(); });
    bool uniform = alike;
    for (std::size_t i = 0; uniform && i + 1 < cells; ++i) uniform = edges[i + 1] - edges[i] == decoded[i];
    if (cells == 0 || uniform) {
      axes_.push_back(grid_axis::uniform(extent, cells == 0 ? 1 : decoded.front()));
      return {};
    }
    PENSTOCK_ASSIGN(grid_axis made, grid_axis::edges(extent, edges, decoded));
    axes_.push_back(std::move(made));
    joined_axis joined;
    joined.axis = d;
    joined.edges = std::move(edges);
    joined.decoded = std::move(decoded);
    out_.joined.push_back(std::move(joined));
    return {};
  }

  // The decoded lengths of the result's chunks along a dimension. A chunk decodes to more than its own length if
  // everything that it shows has the same, longer codec length.
  result<std::vector<std::uint64_t>> decoded_lengths(std::size_t d, const std::vector<std::uint64_t>& edges) const {
    std::vector<std::uint64_t> out(edges.size() - 1, 0);
    for (const shown_part& part : parts_) {
      const grid_axis* const axis = axis_of(part, d);
      const source_facts& facts = sources_.at(part.source.get());
      for (const segment& each : segments_of(part, d, edges)) {
        const std::uint64_t length = edges[each.cell + 1] - edges[each.cell];
        const std::uint64_t wanted = axis == nullptr ? length : reach(facts, *axis, each.source, each.start, length);
        std::uint64_t& known = out[each.cell];
        known = known == 0 || known == wanted ? wanted : length;
      }
    }
    for (std::size_t i = 0; i < out.size(); ++i)
      if (out[i] == 0) out[i] = edges[i + 1] - edges[i];
    return out;
  }

  std::vector<segment> segments_of(const shown_part& part, std::size_t d,
                                   const std::vector<std::uint64_t>& edges) const {
    std::vector<segment> out;
    const grid_axis* const axis = axis_of(part, d);
    for (const hdf5_run& run : part.where.runs[d]) {
      auto cell = static_cast<std::uint64_t>(std::lower_bound(edges.begin(), edges.end(), run.to) - edges.begin());
      for (; edges[cell] < run.to + run.count; ++cell) {
        segment made;
        made.cell = cell;
        if (axis != nullptr) {
          const std::uint64_t from = run.from + (edges[cell] - run.to);
          made.source = axis->cell_of(from);
          made.start = from - axis->origin(made.source);
        }
        out.push_back(made);
      }
    }
    return out;
  }

  const grid_axis* axis_of(const shown_part& part, std::size_t d) const {
    const auto& source = part.where.axes[d];
    return source ? &sources_.at(part.source.get()).grid.axis(*source) : nullptr;
  }

  // References for all chunks of a part.
  result<> place(const shown_part& part) {
    const source_facts& facts = sources_.at(part.source.get());
    std::vector<std::vector<segment>> along;
    std::uint64_t count = 1;
    for (std::size_t d = 0; d < rank_; ++d) {
      along.push_back(segments_of(part, d, edges_[d]));
      count = saturating_mul(count, along.back().size());
    }
    if (count > most_chunks_ - std::min<std::uint64_t>(entries_.size(), most_chunks_)) return too_many("chunks");
    dim_vector<std::uint64_t> chunk(part.where.origin.size()), start(part.where.origin.size()), cell(rank_);
    for (std::size_t s = 0; s < chunk.size(); ++s) {
      const grid_axis& axis = facts.grid.axis(s);
      chunk[s] = axis.cell_of(part.where.origin[s]);
      start[s] = part.where.origin[s] - axis.origin(chunk[s]);
    }
    std::vector<std::size_t> at(rank_, 0);
    std::size_t hint = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      for (std::size_t d = 0; d < rank_; ++d) {
        const segment& each = along[d][at[d]];
        cell[d] = each.cell;
        if (!part.where.axes[d]) continue;
        chunk[*part.where.axes[d]] = each.source;
        start[*part.where.axes[d]] = each.start;
      }
      PENSTOCK_TRY(refer(part, facts, cell, chunk, start, hint));
      for (std::size_t d = rank_; d-- > 0;) {
        if (++at[d] < along[d].size()) break;
        at[d] = 0;
      }
    }
    return {};
  }

  result<> refer(const shown_part& part, const source_facts& facts, const dim_vector<std::uint64_t>& cell,
                 const dim_vector<std::uint64_t>& chunk, const dim_vector<std::uint64_t>& start, std::size_t& hint) {
    cell_reference found;
    entry made;
    made.cell = grid_.id(cell);
    chunk_codecs codecs;
    codecs.shape.resize(rank_);
    for (std::size_t d = 0; d < rank_; ++d) codecs.shape[d] = axes_[d].codec_length(cell[d]);
    if (!part.source->table->find(facts.grid.id(chunk), hint, found)) {
      if (!facts.other_fill) {
        made.chain = kNoChain;
        entries_.push_back(made);
        return {};
      }
      PENSTOCK_ASSIGN(made.object, fill_object(facts.fill));
      made.length = item_;
      codecs.dtype = facts.cast.is_null() ? native_type(facts.chains[0].dtype) : *facts.cast.find("to");
      codecs.filters.push_back(window(item_, 0, codecs.shape, std::vector<std::uint64_t>(rank_, 0)));
      PENSTOCK_ASSIGN(made.chain, chain_number(codecs));
      entries_.push_back(made);
      return {};
    }
    PENSTOCK_ASSIGN(made.object, object_number(*part.source, found.object));
    made.offset = found.offset;
    made.length = found.length;
    std::string box = name_of_box(part, facts, found.chain, start, codecs.shape);
    if (const auto known = boxes_.find(box); known != boxes_.end()) {
      made.chain = known->second;
      ++uses_[made.chain];
      entries_.push_back(made);
      return {};
    }
    const chunk_codecs& stored = facts.chains[found.chain];
    codecs.dtype = facts.cast.is_null() ? stored.dtype : *facts.cast.find("to");
    add_window(part, stored.shape, start, codecs);
    if (!facts.cast.is_null()) codecs.filters.push_back(facts.cast);
    codecs.filters.insert(codecs.filters.end(), stored.filters.begin(), stored.filters.end());
    PENSTOCK_ASSIGN(made.chain, chain_number(codecs));
    if (boxes_.size() >= kMostChains) boxes_.clear();
    boxes_.emplace(std::move(box), made.chain);
    entries_.push_back(made);
    return {};
  }

  // Returns equal text for equal codecs of a chunk of the result. The text is much shorter than the codecs.
  static std::string name_of_box(const shown_part& part, const source_facts& facts, std::uint16_t chain,
                                 const dim_vector<std::uint64_t>& start, const std::vector<std::uint64_t>& shape) {
    std::string out;
    const auto add = [&out](const auto& number) { out.append(reinterpret_cast<const char*>(&number), sizeof(number)); };
    const source_facts* const source = &facts;
    add(source);
    add(chain);
    for (const std::uint64_t each : start) add(each);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      add(shape[d]);
      add(part.where.axes[d].value_or(~std::size_t{0}));
    }
    return out;
  }

  // A box of a chunk, unless the whole chunk is shown.
  void add_window(const shown_part& part, const std::vector<std::uint64_t>& stored,
                  const dim_vector<std::uint64_t>& start, chunk_codecs& codecs) const {
    std::vector<std::uint64_t> steps(stored.size()), by(rank_, 0);
    std::uint64_t step = item_, offset = 0, shown = 1, all = 1;
    for (std::size_t s = stored.size(); s-- > 0; step *= stored[s]) {
      steps[s] = step;
      offset += start[s] * step;
      all *= stored[s];
    }
    for (std::size_t d = 0; d < rank_; ++d) {
      shown *= codecs.shape[d];
      if (part.where.axes[d]) by[d] = steps[*part.where.axes[d]];
    }
    if (shown != all) codecs.filters.push_back(window(step, offset, codecs.shape, by));
  }

  static json window(std::uint64_t chunk, std::uint64_t offset, const std::vector<std::uint64_t>& shape,
                     const std::vector<std::uint64_t>& steps) {
    return json(json::object_t{{"id", "reference.window"},
                               {"chunk", chunk},
                               {"offset", offset},
                               {"shape", list_json(shape)},
                               {"strides", list_json(steps)}});
  }

  result<std::uint32_t> chain_number(const chunk_codecs& codecs) {
    const auto [at, added] = numbers_.try_emplace(codecs.key(), static_cast<std::uint32_t>(chains_.size()));
    if (added) {
      if (chains_.size() >= kMostChains) return too_many("different boxes of chunks");
      chains_.push_back(codecs);
      uses_.push_back(0);
    }
    ++uses_[at->second];
    return at->second;
  }

  result<std::uint32_t> object_number(const referenced_array& source, std::uint32_t object) {
    if (&source != last_source_) {
      last_source_ = &source;
      of_last_.assign(source.objects.size(), std::nullopt);
    }
    std::optional<std::uint32_t>& known = of_last_[object];
    if (known) return *known;
    const referenced_object& each = source.objects[object];
    // A local file may be open several times.
    const store* const from = each.path.empty() ? each.from.get() : nullptr;
    const auto [at, added] = objects_.try_emplace({from, from == nullptr ? each.path : each.key},
                                                  static_cast<std::uint32_t>(out_.objects.size()));
    if (added) add_object(each);
    known = at->second;
    return at->second;
  }

  result<std::uint32_t> fill_object(const std::vector<std::byte>& item) {
    const std::string key(reinterpret_cast<const char*>(item.data()), item.size());
    const auto [at, added] = fills_.try_emplace(key, static_cast<std::uint32_t>(out_.objects.size()));
    if (!added) return at->second;
    const std::shared_ptr<store> values = make_memory_store();
    const part bytes(item);
    auto put = values->put("fill", {&bytes, 1}, {});
    if (!put.ok()) return std::move(put).error();
    referenced_object made;
    made.name = made.key = "fill";
    made.from = values;
    made.inlined = true;
    add_object(std::move(made));
    return at->second;
  }

  // Names of objects in memory describe them, and are made unique here.
  void add_object(referenced_object made) {
    if (made.inlined && !names_.insert(made.name).second) {
      made.name += fmt::format(" {}", out_.objects.size());
      names_.insert(made.name);
    }
    out_.objects.push_back(std::move(made));
  }

  // Chain 0 is the most frequent one, if it decodes to the array's own type.
  void number_chains(const json& dtype, std::vector<std::uint16_t>& to, chunk_codecs& usual) {
    std::size_t most = chains_.size();
    for (std::size_t i = 0; i < chains_.size(); ++i)
      if (chains_[i].dtype == dtype && (most == chains_.size() || uses_[i] > uses_[most])) most = i;
    if (most != chains_.size()) usual = chains_[most];
    for (std::size_t i = 0; i < chains_.size(); ++i) {
      if (i == most) {
        to.push_back(0);
        continue;
      }
      chain_variant made;
      made.shape.emplace();
      for (const std::uint64_t each : chains_[i].shape) made.shape->push_back(each);
      made.own = chains_[i].own();
      out_.variants.push_back(std::move(made));
      to.push_back(static_cast<std::uint16_t>(out_.variants.size()));
    }
  }

  result<referenced_array> finish() {
    std::stable_sort(entries_.begin(), entries_.end(), [](const entry& a, const entry& b) { return a.cell < b.cell; });
    PENSTOCK_ASSIGN(chunk_codecs usual, usual_codecs(out_));
    usual.filters.clear();
    usual.shape.clear();
    for (std::size_t d = 0; d < rank_; ++d) usual.shape.push_back(axes_[d].cells() == 0 ? 1 : axes_[d].codec_length(0));
    std::vector<std::uint16_t> chains;
    number_chains(usual.dtype, chains, usual);
    PENSTOCK_TRY(write_document(usual));
    reference_table_builder table(grid_.cells());
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const entry& each = entries_[i];
      if (i + 1 < entries_.size() && entries_[i + 1].cell == each.cell) continue;  // a later part hides it
      if (each.chain == kNoChain) continue;
      table.add(each.cell, {each.offset, each.length, each.object, chains[each.chain]});
    }
    PENSTOCK_ASSIGN(out_.table, std::move(table).finish());
    return std::move(out_);
  }

  result<> write_document(const chunk_codecs& usual) {
    for (auto& [name, text] : out_.documents) {
      if (name != kZarray) continue;
      PENSTOCK_ASSIGN(const json document, json::parse(text));
      json::object_t made;
      for (const auto& [member, value] : *document.as_object()) {
        if (member == "chunks")
          made.emplace_back(member, list_json(usual.shape));
        else if (member == "filters")
          made.emplace_back(member, usual.filters.empty() ? json() : json(usual.filters));
        else
          made.emplace_back(member, value);
      }
      text = json(std::move(made)).dump();
    }
    PENSTOCK_ASSIGN(out_.metadata, parse_array_documents(out_.documents));
    return {};
  }

  referenced_array out_;
  std::span<const shown_part> parts_;
  std::size_t rank_;
  std::uint32_t item_;
  std::map<const referenced_array*, source_facts> sources_;
  std::vector<std::vector<std::uint64_t>> edges_;
  std::vector<grid_axis> axes_;
  chunk_grid grid_;
  std::uint64_t most_chunks_ = kFewChunks;
  std::unordered_map<std::string, std::uint32_t> boxes_;  // the chains of the last boxes of chunks
  std::vector<entry> entries_;
  std::vector<chunk_codecs> chains_;
  std::vector<std::uint64_t> uses_;
  std::map<std::string, std::uint32_t> numbers_;
  std::map<std::pair<const store*, std::string>, std::uint32_t> objects_;
  std::map<std::string, std::uint32_t> fills_;  // by the bytes of the item
  std::set<std::string> names_;                 // of objects in memory
  const referenced_array* last_source_ = nullptr;
  std::vector<std::optional<std::uint32_t>> of_last_;
};

}  // namespace

result<referenced_array> compose_references(referenced_array like, std::span<const shown_part> parts) {
  return composer(std::move(like), parts).compose();
}

}  // namespace penstock::inline v0
