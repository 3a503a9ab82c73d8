#include "format/reference/reference_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/counted.h"

namespace penstock::inline v0 {
namespace {

/// The most references of runs that are checked one by one, because their cells differ.
constexpr std::uint64_t kMostVisits = std::uint64_t{1} << 24;

/// A layout without indexes requests none.
class no_indexes final : public index_lookup {
 public:
  const index_entry* find(const index_key&) const override { return nullptr; }
};

}  // namespace

result<std::shared_ptr<const reference_layout>> reference_layout::make(std::shared_ptr<const chunk_layout> cells,
                                                                       std::shared_ptr<const reference_table> table,
                                                                       settings with) {
  std::shared_ptr<reference_layout> out(new reference_layout);
  out->cells_ = std::move(cells);
  out->table_ = std::move(table);
  const auto own = out->cells_->chains();
  out->chains_.assign(own.begin(), own.end());
  out->own_chains_ = own.size();
  for (codec_chain& each : with.more_chains) out->chains_.push_back(std::move(each));
  out->objects_ = std::move(with.objects);
  out->missing_is_fill_ = with.missing_is_fill;
  out->grid_ = std::move(with.grid);
  PENSTOCK_TRY(out->check());
  return std::shared_ptr<const reference_layout>(std::move(out));
}

result<> reference_layout::check() const {
  if (!(cells_->grid() == cells_->write_grid())) {
    return error(errc::unsupported, "references to the shards of a sharded array are not readable");
  }
  if (grid_ && own_chains_ != 1) {
    return error(errc::unsupported, "arrays of several chunk shapes are not joined by references");
  }
  if (table_->cells() != grid().cells()) {
    return error(errc::corrupt_data, fmt::format("the reference table is one of {}, the array has {}",
                                                 counted(table_->cells(), "chunk"), grid().cells()));
  }
  if (objects_.size() > std::max<std::uint64_t>(grid().cells(), 1)) {
    return error(errc::corrupt_data,
                 fmt::format("references name {} objects for {} chunks", objects_.size(), grid().cells()));
  }
  for (const codec_chain& each : chains_) {
    if (each.cell().size() != grid().rank())
      return error(errc::corrupt_data, fmt::format("a reference's codecs make {}, the array has {}",
                                                   to_string(each.cell()), counted(grid().rank(), "dimension")));
  }
  const std::vector<bool> fits = fitting_chains();
  std::uint64_t visits = kMostVisits;
  for (const reference_table::record& each : table_->records()) {
    // A run has one length and one chain. Its smallest and largest object numbers are at its beginning and its end.
    const std::size_t chain = each.chain == 0 ? 0 : own_chains_ + each.chain - 1;
    const bool alike = each.chain == 0 ? own_chains_ == 1 && (!grid_ || fits[0]) : chain < fits.size() && fits[chain];
    if (each.is_run() && alike) {
      for (const std::uint64_t i : {std::uint64_t{0}, each.inner - 1, each.count - each.inner, each.count - 1})
        PENSTOCK_TRY(check(table_->cell(each, i), table_->at(each, i), fits));
      continue;
    }
    if (each.is_run() && each.count > visits) {
      return error(errc::unsupported,
                   fmt::format("a run of {} references whose chunks differ from others is not readable", each.count));
    }
    if (each.is_run()) visits -= each.count;
    for (std::uint64_t i = 0; i < each.count; ++i)
      PENSTOCK_TRY(check(table_->cell(each, i), table_->at(each, i), fits));
  }
  return {};
}

// Returns for each chain whether its output has the grid's shape in every cell.
std::vector<bool> reference_layout::fitting_chains() const {
  std::vector<std::optional<std::uint64_t>> only;  // for each dimension the one length of its cells
  for (std::size_t d = 0; d < grid().rank(); ++d) {
    const grid_axis& axis = grid().axis(d);
    std::optional<std::uint64_t> length = axis.cells() == 0 ? 0 : axis.codec_length(0);
    for (std::uint64_t i = 1; !axis.is_uniform() && length && i < axis.cells(); ++i)
      if (axis.codec_length(i) != *length) length.reset();
    only.push_back(length);
  }
  std::vector<bool> out;
  for (const codec_chain& chain : chains_) {
    bool all = chain.cell().size() == only.size();
    for (std::size_t d = 0; all && d < only.size(); ++d) all = only[d] == chain.cell()[d];
    out.push_back(all);
  }
  return out;
}

result<> reference_layout::check(cell_id cell, const cell_reference& each, const std::vector<bool>& fits) const {
  if (each.object >= objects_.size()) {
    return error(errc::corrupt_data, fmt::format("a reference names object {} of {}", each.object, objects_.size()))
        .note(describe(cell));
  }
  if (each.chain > chains_.size() - own_chains_) {
    return error(errc::corrupt_data,
                 fmt::format("a reference names codecs {} of {}", each.chain, chains_.size() - own_chains_ + 1))
        .note(describe(cell));
  }
  std::uint16_t chain = each.chain == 0 ? std::uint16_t{0} : static_cast<std::uint16_t>(own_chains_ + each.chain - 1);
  if ((each.chain != 0 || grid_) && !fits[chain]) PENSTOCK_TRY(check_shape(cell, chains_[chain]));
  if (each.length == byte_range::kAll) return {};
  if (each.chain == 0 && own_chains_ > 1) {
    PENSTOCK_ASSIGN(chain, own_chain(cell));
  }
  if (each.length > chains_[chain].max_encoded_bytes()) {
    return error(errc::corrupt_data, fmt::format("a reference has {} bytes for a chunk whose codecs make at most {}",
                                                 each.length, chains_[chain].max_encoded_bytes()))
        .note(describe(cell))
        .note(fmt::format("'{}', {}", objects_[each.object], to_string(byte_range{each.offset, each.length, false})));
  }
  return {};
}

// A chain's output is copied by its own shape, and elements are numbered by the grid's: they may differ only at the
// array's edge, along the one dimension in which such a cell is truncated.
result<> reference_layout::check_shape(cell_id cell, const codec_chain& chain) const {
  dim_vector<std::uint64_t> at;
  grid().coordinates(cell, at);
  bool outermost = true;
  for (std::size_t d = 0; d < at.size(); ++d) {
    const grid_axis& axis = grid().axis(d);
    const std::uint64_t made = chain.cell()[d], whole = axis.codec_length(at[d]);
    const bool cut_off = outermost && made < whole && made >= axis.valid_length(at[d]);
    if (made != whole && !cut_off) {
      return error(errc::corrupt_data, fmt::format("a reference's codecs make {}, {} along dimension {} of a "
                                                   "chunk that has {}",
                                                   to_string(chain.cell()), counted(made, "element"), d, whole))
          .note(describe(cell));
    }
    outermost = outermost && whole == 1;
  }
  return {};
}

result<std::uint16_t> reference_layout::own_chain(cell_id cell) const {
  chunk_extent extent;
  std::vector<index_request> missing;
  PENSTOCK_TRY(cells_->locate({&cell, 1}, no_indexes(), {&extent, 1}, missing));
  return extent.chain;
}

result<> reference_layout::locate(std::span<const cell_id> cells, const index_lookup& known,
                                  std::span<chunk_extent> out, std::vector<index_request>& missing) const {
  // `locate` returns the chain of each cell. Whole objects need no index, so it does not request any.
  if (own_chains_ > 1) PENSTOCK_TRY(cells_->locate(cells, known, out, missing));
  std::size_t hint = 0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    cell_reference found;
    if (!table_->find(cells[i], hint, found)) {
      out[i] = {presence::absent, 0, 0, {}};
      continue;
    }
    const std::uint16_t own = own_chains_ > 1 ? out[i].chain : std::uint16_t{0};
    const std::uint16_t chain = found.chain == 0 ? own : static_cast<std::uint16_t>(own_chains_ + found.chain - 1);
    // Present: an object that is named here must exist.
    out[i] = {missing_is_fill_ ? presence::unknown : presence::present,
              chain,
              found.object,
              {found.offset, found.length, false}};
  }
  return {};
}

result<index_ptr> reference_layout::parse(const index_request&, std::span<const std::byte>, std::uint64_t) const {
  return error(errc::internal, "an array of references has no index in storage");
}

std::string reference_layout::describe(cell_id cell) const {
  if (!grid_) return cells_->describe(cell);
  dim_vector<std::uint64_t> at;
  grid_->coordinates(cell, at);
  return "chunk " + to_string(at);
}

void reference_layout::key(object_id object, std::string& out) const {
  out.clear();
  if (object < objects_.size()) out = objects_[static_cast<std::size_t>(object)];
}

}  // namespace penstock::inline v0
