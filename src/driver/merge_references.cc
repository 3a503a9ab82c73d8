#include "driver/merge_references.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "driver/zarr_nodes.h"

namespace penstock::inline v0 {
namespace {

/// Edges are listed: 16 bytes each. As in joined_layout.
constexpr std::uint64_t kMaxEdges = std::uint64_t{1} << 22;
constexpr std::size_t kMaxChains = 60000;
/// The most references that are visited one by one.
constexpr std::uint64_t kMaxVisits = std::uint64_t{1} << 28;

/// The position of a part in the joined array.
struct placed_part {
  std::uint64_t rows = 0, first_row = 0;  // elements along the axis
  std::uint64_t step = 0;                 // length of its chunks along the axis
  const joined_axis* edges = nullptr;     // of cells of unequal lengths; null: all have the length `step`
  std::uint64_t cells = 0, first_cell = 0;
  std::vector<std::uint32_t> objects;  // the number of each of its objects in the joined table
  bool in_order = true;                // whether each is one more than the one before
  std::vector<std::uint16_t> chains;   // the number of each of its chains in the joined table
};

bool has_references(const reference_part& part) { return part.table && part.table->entries() != 0; }

class merger {
 public:
  merger(const referenced_array& like, std::span<reference_part* const> parts, std::size_t axis)
      : like_(like), parts_(parts), axis_(axis) {}

  result<std::optional<referenced_array>> merge() {
    if (like_.metadata.zarr_format != 2) return std::optional<referenced_array>();
    PENSTOCK_ASSIGN(const bool alike, place());
    if (!alike || !find_decoded()) return std::optional<referenced_array>();
    PENSTOCK_ASSIGN(auto table, merged_table());
    if (!table) return std::optional<referenced_array>();
    referenced_array out;
    PENSTOCK_ASSIGN(out.documents, documents());
    PENSTOCK_ASSIGN(out.metadata, parse_array_documents(out.documents));
    out.table = std::move(table);
    out.variants = std::move(variants_);
    out.objects = move_objects();
    out.format = like_.format;
    out.dimension_names = like_.dimension_names;
    out.missing_is_fill = like_.missing_is_fill;
    out.opened_for_reading = true;
    out.hdf5 = like_.hdf5;
    if (!is_uniform()) out.joined = {joined()};
    return std::optional(std::move(out));
  }

 private:
  // Sets the positions, chains and objects of parts. Returns false if they differ.
  result<bool> place() {
    const auto first =
        std::find_if(parts_.begin(), parts_.end(), [](const auto* each) { return has_references(*each); });
    chunks_ = extents_of((first == parts_.end() ? parts_.front() : *first)->chunks);
    const std::size_t rank = chunks_.size();
    for (std::size_t d = 0; d < rank; ++d) {
      const std::uint64_t count = ceil_div(parts_.front()->shape[d], std::max<std::uint64_t>(chunks_[d], 1));
      if (d < axis_ && !checked_mul(outer_, count, outer_)) return too_large();
      if (d > axis_ && !checked_mul(inner_, count, inner_)) return too_large();
    }
    chains_.emplace(chain_key{{}, chunks_, {}}, std::uint16_t{0});
    std::uint64_t rows = 0, cells = 0;
    for (reference_part* const part : parts_) {
      reference_part& each = *part;
      placed_part& at = placed_.emplace_back();
      at.rows = each.shape[axis_];
      at.first_row = rows;
      at.first_cell = cells;
      at.step = has_references(each) ? each.chunks[axis_] : chunks_[axis_];
      if (at.step == 0) return false;
      if (has_references(each) && each.edges) {
        at.edges = each.edges.get();
        if (!are_edges_of(*at.edges, at.rows)) return false;
      }
      at.cells = at.edges != nullptr ? at.edges->decoded.size() : ceil_div(at.rows, at.step);
      if (!checked_add(rows, at.rows, rows) || !checked_add(cells, at.cells, cells)) return too_large();
      if (!has_references(each)) continue;
      for (std::size_t d = 0; d < rank; ++d)
        if (d != axis_ && each.chunks[d] != chunks_[d]) return false;
      if (!take_chains(each, at) || !take_objects(each, at)) return false;
    }
    rows_ = rows;
    cells_ = cells;
    std::uint64_t all = 0;
    if (!checked_mul(cells_, inner_, all) || !checked_mul(all, outer_, all)) return too_large();
    return true;
  }

  bool are_edges_of(const joined_axis& of, std::uint64_t rows) const {
    return of.axis == axis_ && of.edges.size() == of.decoded.size() + 1 && of.edges.back() == rows;
  }

  static error too_large() { return {errc::unsupported, "the joined arrays have more than 2^64 chunks or elements"}; }

  bool take_chains(const reference_part& part, placed_part& at) {
    const auto number = [&](std::vector<std::uint32_t> skipped, const extents& shape, json own) {
      const auto [found, added] = chains_.try_emplace(chain_key{skipped, shape, own.is_null() ? "" : own.dump()},
                                                      static_cast<std::uint16_t>(variants_.size() + 1));
      if (added) variants_.push_back({std::move(skipped), shape, std::move(own)});
      at.chains.push_back(found->second);
    };
    const extents chunks = extents_of(part.chunks);
    number({}, chunks, part.codecs ? part.codecs->own() : json());
    for (const chain_variant& each : part.variants) {
      const extents& shape = each.shape ? *each.shape : chunks;
      if (part.codecs)
        number({}, shape, codecs_of(each, *part.codecs).own());
      else
        number(each.skipped, shape, each.own);
      if (variants_.size() >= kMaxChains) return false;
    }
    return variants_.size() < kMaxChains;
  }

  // A file to which several parts refer becomes one object.
  bool take_objects(reference_part& part, placed_part& at) {
    if (objects_.size() + part.objects.size() > ~std::uint32_t{0}) return false;
    at.objects.reserve(part.objects.size());
    for (referenced_object& each : part.objects) {
      const auto next = static_cast<std::uint32_t>(objects_.size());
      if (!each.inlined) {
        const store* const from = each.path.empty() ? each.from.get() : nullptr;
        const auto [known, added] = files_.try_emplace({from, from == nullptr ? each.path : each.key}, next);
        at.objects.push_back(known->second);
        if (!added) continue;
      } else {
        at.objects.push_back(next);
      }
      objects_.push_back(&each);
    }
    for (std::size_t i = 1; i < at.objects.size(); ++i)
      at.in_order = at.in_order && at.objects[i] == at.objects[i - 1] + 1;
    return true;
  }

  // The objects with unique names.
  std::vector<referenced_object> move_objects() {
    files_.clear();  // its keys are names of these
    std::vector<referenced_object> out;
    out.reserve(objects_.size());
    for (referenced_object* const from : objects_) {
      referenced_object& each = out.emplace_back(std::move(*from));
      if (each.inlined) {
        each.name = fmt::format("{} {}", each.name, out.size() - 1);
      } else if (each.path.empty() && each.name.find("://") == std::string::npos) {
        // A manifest finds remote objects by name.
        each.name = child_uri(each.from->uri(), each.key + "/");
        while (each.name.ends_with('/')) each.name.pop_back();
      }
    }
    return out;
  }

  bool is_uniform() const {
    for (std::size_t i = 0; i < placed_.size(); ++i) {
      const placed_part& each = placed_[i];
      if (each.edges != nullptr || each.step != chunks_[axis_]) return false;
      if (i + 1 != placed_.size() && each.rows % each.step != 0) return false;
    }
    return decoded_.empty();
  }

  // Lengths along the axis of cells that are stored shorter than the chunks of their part.
  bool find_decoded() {
    std::uint64_t visits = 0;
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      const reference_part& part = *parts_[k];
      const placed_part& at = placed_[k];
      if (!has_references(part) || at.edges != nullptr) continue;
      const auto length_of = [&](std::uint16_t chain) -> std::uint64_t {
        const auto& variants = part.variants;
        if (chain == 0 || chain > variants.size() || !variants[chain - 1u].shape) return at.step;
        return (*variants[chain - 1u].shape)[axis_];
      };
      const bool all_whole = std::all_of(part.variants.begin(), part.variants.end(), [&](const auto& each) {
        return !each.shape || (*each.shape)[axis_] == at.step;
      });
      if (all_whole) continue;
      const reference_table& table = *part.table;
      for (const auto& record : table.records()) {
        if (record.is_run() && length_of(record.chain) == at.step) continue;
        if (record.count > kMaxVisits - visits) return false;
        visits += record.count;
        for (std::uint64_t i = 0; i < record.count; ++i) {
          const std::uint64_t length = length_of(table.at(record, i).chain);
          if (length != at.step) decoded_[at.first_cell + table.cell(record, i) / inner_ % at.cells] = length;
        }
      }
    }
    return is_uniform() || cells_ <= kMaxEdges;
  }

  joined_axis joined() const {
    joined_axis out;
    out.axis = axis_;
    if (cells_ == 0) return out;
    out.edges.push_back(0);
    for (const placed_part& each : placed_) {
      for (std::uint64_t i = 0; i < each.cells; ++i) {
        if (each.edges != nullptr) {
          out.edges.push_back(each.first_row + each.edges->edges[i + 1]);
          out.decoded.push_back(each.edges->decoded[i]);
          continue;
        }
        out.edges.push_back(each.first_row + std::min((i + 1) * each.step, each.rows));
        const auto shorter = decoded_.find(each.first_cell + i);
        out.decoded.push_back(shorter == decoded_.end() ? each.step : shorter->second);
      }
    }
    return out;
  }

  // Null if there are too many references to visit.
  result<std::shared_ptr<const reference_table>> merged_table() const {
    reference_table_builder builder(outer_ * cells_ * inner_);
    if (outer_ == 1) {
      for (std::size_t k = 0; k < parts_.size(); ++k) append_all(k, builder);
      return std::move(builder).finish();
    }
    std::uint64_t entries = 0;
    for (const reference_part* const each : parts_)
      if (has_references(*each)) entries = saturating_add(entries, each->table->entries());
    if (entries > kMaxVisits) return std::shared_ptr<const reference_table>();
    std::vector<std::pair<std::size_t, std::uint64_t>> next(parts_.size());  // record and entry of each part
    for (std::uint64_t row = 0; row < outer_; ++row) {
      for (std::size_t k = 0; k < parts_.size(); ++k) append_row(k, row, next[k], builder);
    }
    return std::move(builder).finish();
  }

  cell_reference translated(std::size_t k, cell_reference of) const {
    of.object = placed_[k].objects[of.object];
    of.chain = placed_[k].chains[of.chain];
    return of;
  }

  void append_all(std::size_t k, reference_table_builder& builder) const {
    if (!has_references(*parts_[k])) return;
    const reference_table& table = *parts_[k]->table;
    const std::uint64_t first = placed_[k].first_cell * inner_;
    for (const auto& record : table.records()) {
      if (!record.is_run() || !placed_[k].in_order) {
        for (std::uint64_t i = 0; i < record.count; ++i)
          builder.add(first + table.cell(record, i), translated(k, table.at(record, i)));
        continue;
      }
      reference_run run = record;
      run.cell += first;
      run.object += placed_[k].objects.empty() ? 0 : placed_[k].objects.front();
      run.chain = placed_[k].chains[run.chain];
      builder.add(run);
    }
  }

  void append_row(std::size_t k, std::uint64_t row, std::pair<std::size_t, std::uint64_t>& next,
                  reference_table_builder& builder) const {
    if (!has_references(*parts_[k])) return;
    const reference_table& table = *parts_[k]->table;
    const std::uint64_t own = placed_[k].cells * inner_, end = (row + 1) * own;
    const std::uint64_t first = (row * cells_ + placed_[k].first_cell) * inner_;
    while (next.first < table.records().size()) {
      const auto& record = table.records()[next.first];
      for (; next.second < record.count; ++next.second) {
        const cell_id cell = table.cell(record, next.second);
        if (cell >= end) return;
        builder.add(first + (cell - row * own), translated(k, table.at(record, next.second)));
      }
      ++next.first;
      next.second = 0;
    }
  }

  // The .zarray with the joined shape; the other documents unchanged.
  result<std::vector<std::pair<std::string, std::string>>> documents() const {
    std::vector<std::pair<std::string, std::string>> out;
    for (const auto& [name, text] : like_.documents) {
      if (name != ".zarray") {
        out.emplace_back(name, text);
        continue;
      }
      PENSTOCK_ASSIGN(const json parsed, json::parse(text));
      json::array_t shape, chunks;
      for (std::size_t d = 0; d < chunks_.size(); ++d) {
        shape.emplace_back(d == axis_ ? rows_ : parts_.front()->shape[d]);
        chunks.emplace_back(chunks_[d]);
      }
      json::object_t made;
      if (parsed.as_object() == nullptr) return error(errc::internal, "metadata of an array that is not an object");
      for (const auto& [member, value] : *parsed.as_object())
        made.emplace_back(member, member == "shape" ? json(shape) : member == "chunks" ? json(chunks) : value);
      out.emplace_back(name, json(std::move(made)).dump());
    }
    return out;
  }

  struct chain_key {
    std::vector<std::uint32_t> skipped;
    extents shape;
    std::string own;
  };
  struct less {
    bool operator()(const chain_key& a, const chain_key& b) const {
      if (a.skipped != b.skipped) return a.skipped < b.skipped;
      if (a.own != b.own) return a.own < b.own;
      return std::lexicographical_compare(a.shape.begin(), a.shape.end(), b.shape.begin(), b.shape.end());
    }
  };

  const referenced_array& like_;
  const std::span<reference_part* const> parts_;
  const std::size_t axis_;
  extents chunks_;
  std::uint64_t outer_ = 1, inner_ = 1;  // chunks before and after the axis
  std::uint64_t rows_ = 0, cells_ = 0;   // along the axis
  std::vector<placed_part> placed_;
  std::map<chain_key, std::uint16_t, less> chains_;
  std::vector<chain_variant> variants_;
  std::vector<referenced_object*> objects_;
  std::map<std::pair<const store*, std::string_view>, std::uint32_t> files_;
  std::map<std::uint64_t, std::uint64_t> decoded_;  // by cell along the axis
};

}  // namespace

result<std::optional<referenced_array>> merge_references(const referenced_array& like,
                                                         std::span<reference_part* const> parts, std::size_t axis) {
  if (parts.empty() || axis >= parts.front()->shape.size()) return std::optional<referenced_array>();
  return merger(like, parts, axis).merge();
}

}  // namespace penstock::inline v0
