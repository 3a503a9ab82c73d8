#include "format/hdf5/hdf5_array.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "array/contiguous_blocks.h"
#include "base/checked.h"
#include "format/hdf5/hdf5_chunks.h"
#include "format/hdf5/hdf5_filter_names.h"
#include "format/hdf5/hdf5_pages.h"
#include "format/hdf5/hdf5_values.h"

namespace penstock::inline v0 {
namespace {

constexpr std::size_t kMostChains = 1000;
/// If a dataset has at most this many chunks, its whole index is read with its header. It then needs no round trip of
/// its own, and many datasets share one.
constexpr std::uint64_t kMostListed = 4096;
/// For datasets whose chunks are found when needed: the chains for all masks are created in advance.
constexpr std::size_t kMostMaskedFilters = 6;
/// The largest element for files that are shorter than that, and for datasets without values. (A damaged type may have
/// up to 4 GiB, and a fill value is as long as an element.)
constexpr std::uint64_t kMostUnstoredBytes = std::uint64_t{1} << 20;
/// Values in other files are divided into at most about this many cells: their sizes are known only from this file.
constexpr std::uint64_t kMostExternalCells = std::uint64_t{1} << 16;

json list_json(const std::vector<std::uint64_t>& numbers) {
  return json(json::array_t(numbers.begin(), numbers.end()));
}

/// Collects what an array needs. While pages of the file are missing, the parts that need them are skipped, so that the
/// pages of all parts are recorded together.
class array_reader {
 public:
  array_reader(hdf5_file& file, hdf5_tree& tree, const hdf5_place& at, hdf5_chunk_listing listing,
               const hdf5_field* field) noexcept
      : file_(file), tree_(tree), at_(at), listing_(listing), field_(field) {}

  result<hdf5_array> read() {
    PENSTOCK_ASSIGN(header_, tree_.header(at_.object));
    if (find_message(*header_, hdf5_message::data_layout) == nullptr)
      return hdf5_damaged("the dataset has no data layout");
    std::optional<error> failed;
    const auto take = [&](result<> part) {
      if (!part.ok() && !failed) failed = std::move(part).error();
    };
    take(describe());
    take(attributes());
    take(names());
    if (failed) return std::move(*failed);
    return std::move(out_);
  }

 private:
  // Attributes of a compound belong to the group of its members.
  result<> attributes() {
    out_.attributes = json(json::object_t());
    if (field_ != nullptr) return {};
    PENSTOCK_ASSIGN(out_.attributes, tree_.attributes_json(at_.object));
    PENSTOCK_ASSIGN(out_.typed_attributes, tree_.typed_attributes(at_.object));
    return {};
  }

  result<> names() {
    const hdf5_message* const found = find_message(*header_, hdf5_message::dataspace);
    if (found == nullptr) return {};  // `describe` returns this error
    PENSTOCK_ASSIGN(const hdf5_dataspace space, parse_hdf5_dataspace(file_, found->body));
    PENSTOCK_ASSIGN(out_.dimension_names, tree_.dimension_names(at_, space.shape.extents.size()));
    if (!out_.dimension_names.empty()) out_.dimension_names.resize(space.shape.extents.size() + element_.shape.size());
    return {};
  }

  result<> describe() {
    PENSTOCK_ASSIGN(shape_, parse_hdf5_shape(file_, *header_));
    const hdf5_message* const message = find_message(*header_, hdf5_message::datatype);
    if (message == nullptr) return hdf5_damaged("the dataset has no datatype");
    hdf5_cursor cursor(message->body);
    PENSTOCK_ASSIGN(const hdf5_type stored, parse_hdf5_type(cursor));
    element_bytes_ = stored.bytes;
    if (stored.bytes > std::max(kMostUnstoredBytes, file_.size()))
      return error(errc::unsupported,
                   fmt::format("elements of {} bytes in a file of {} are not readable", stored.bytes, file_.size()));
    const hdf5_type& type = field_ == nullptr ? stored : field_->type;
    PENSTOCK_ASSIGN(element_, hdf5_element_of(type));
    const json dtype = element_.dtype;
    if (element_.is_elsewhere()) {
      const hdf5_type* item = &type;
      while (item->what == hdf5_type::kind::array) item = &item->base[0];
      PENSTOCK_TRY(take_variable(*item));
    }
    PENSTOCK_ASSIGN(hdf5_fill fill, parse_hdf5_fill(*header_));
    json fill_value;
    if (!out_.variable) {
      if (field_ != nullptr) PENSTOCK_TRY(take_field(fill));
      PENSTOCK_ASSIGN(fill_value, hdf5_fill_json(fill, type, element_));
    } else if (fill.what == hdf5_fill::kind::value) {
      if (fill.bytes.size() != element_bytes_)
        return hdf5_damaged(
            fmt::format("a fill value of {} bytes, elements have {}", fill.bytes.size(), element_bytes_));
      PENSTOCK_TRY(take_variable_fill(fill));
    }
    PENSTOCK_ASSIGN(layout_, parse_hdf5_layout(file_, *header_));

    filters_ = element_.codecs();
    if (field_ != nullptr && (!out_.variable || !element_.shape.empty())) {
      for (std::size_t i = field_->parts.size(); i-- != 0;) filters_.emplace_back(part_codec(field_->parts[i]));
      element_.stored_bytes = static_cast<std::uint32_t>(element_bytes_);
    }
    PENSTOCK_ASSIGN(const extents whole, with_inner_axes(shape_.extents));
    extents chunks;
    switch (layout_.what) {
      case hdf5_layout::kind::mapped: {
        PENSTOCK_ASSIGN(chunks, mapped(whole));
        break;
      }
      case hdf5_layout::kind::chunked: {
        PENSTOCK_ASSIGN(chunks, chunked());
        break;
      }
      case hdf5_layout::kind::compact:
      case hdf5_layout::kind::contiguous: {
        // A cell has whole elements, and therefore all of each member.
        const bool is_field = field_ != nullptr;
        PENSTOCK_ASSIGN(chunks, in_one_place(is_field ? extents(std::span(std::as_const(shape_.extents))) : whole));
        if (is_field) add_inner_axes(chunks);
        for (hdf5_array::variant& each : out_.variants)
          if (is_field && each.shape) add_inner_axes(*each.shape);
        break;
      }
    }
    json::object_t zarray;
    zarray.emplace_back("zarr_format", std::uint64_t{2});
    zarray.emplace_back("shape", list_json({whole.begin(), whole.end()}));
    zarray.emplace_back("chunks", list_json({chunks.begin(), chunks.end()}));
    zarray.emplace_back("dtype", element_.dtype);
    zarray.emplace_back("order", "C");
    zarray.emplace_back("compressor", json());
    zarray.emplace_back("filters", filters_.empty() ? json() : json(filters_));
    zarray.emplace_back("fill_value", std::move(fill_value));
    out_.zarray = json(std::move(zarray));
    return describe_storage(type, dtype);
  }

  result<> describe_storage(const hdf5_type& type, const json& dtype) {
    json::object_t out;
    out.push_back({"chunks", layout_.what == hdf5_layout::kind::chunked ? list_json(layout_.chunk) : json()});
    json::array_t most, filters;
    for (const std::uint64_t each : shape_.most) most.push_back(each == byte_range::kAll ? json() : json(each));
    out.push_back({"maxshape", std::move(most)});
    for (const hdf5_filter& each : pipeline_) {
      json::array_t values;
      for (const std::uint32_t value : each.values) values.emplace_back(std::uint64_t{value});
      const std::string_view name = hdf5_filter_name(each.id);
      filters.emplace_back(json::array_t{name.empty() ? json(std::uint64_t{each.id}) : json(std::string(name)),
                                         json(std::move(values))});
    }
    out.push_back({"filters", std::move(filters)});
    out.push_back({"dtype", dtype});
    out.push_back({"shape", list_json(element_.shape)});
    if (out_.variable && !out_.variable->items)
      out.push_back({"text", out_.variable->utf8 ? "utf-8" : "ascii"});
    else if (out_.variable)
      out.push_back({"list", out_.variable->items->type});
    if (element_.is_reference()) out.push_back({"reference", json(true)});
    const auto has_axes = [](const auto& level) { return !level.empty(); };
    if (field_ != nullptr && std::any_of(field_->levels.begin(), field_->levels.end(), has_axes)) {
      json::array_t levels;
      for (const auto& each : field_->levels) levels.emplace_back(list_json(each));
      out.push_back({"levels", json(std::move(levels))});
    }
    if (type.what == hdf5_type::kind::enumeration && dtype != json("|b1")) PENSTOCK_TRY(name_values(type, out));
    out_.storage = json(std::move(out));
    return {};
  }

  // Reduces a fill value to the bytes of the member.
  result<> take_field(hdf5_fill& fill) const {
    if (fill.what != hdf5_fill::kind::value || fill.bytes.empty()) return {};
    if (fill.bytes.size() != element_bytes_)
      return hdf5_damaged(fmt::format("a fill value of {} bytes, elements have {}", fill.bytes.size(), element_bytes_));
    for (const hdf5_field::part& each : field_->parts) {
      std::vector<std::byte> taken;
      for (std::size_t at = 0; each.item_bytes != 0 && at < fill.bytes.size(); at += each.item_bytes) {
        const auto begin = fill.bytes.begin() + static_cast<std::ptrdiff_t>(at + each.offset);
        taken.insert(taken.end(), begin, begin + static_cast<std::ptrdiff_t>(each.bytes));
      }
      fill.bytes = std::move(taken);
    }
    return {};
  }

  // The stored element; of arrays, the one reference that all of their elements have.
  result<> take_variable_fill(hdf5_fill& fill) {
    if (!element_.shape.empty()) {
      if (field_ != nullptr) PENSTOCK_TRY(take_field(fill));
      const std::size_t item = out_.variable->stored_bytes;
      for (std::size_t at = item; at < fill.bytes.size(); ++at)
        if (fill.bytes[at] != fill.bytes[at - item])
          return error(errc::unsupported,
                       "arrays of references with a fill value whose elements differ are not readable");
      fill.bytes.resize(std::min(fill.bytes.size(), item));
    }
    out_.variable->fill = fill.bytes;
    return {};
  }

  static json part_codec(const hdf5_field::part& of) {
    json::object_t out;
    out.emplace_back("id", "hdf5.field");
    out.emplace_back("elementsize", of.item_bytes);
    out.emplace_back("offset", of.offset);
    out.emplace_back("bytes", of.bytes);
    return json(std::move(out));
  }

  void add_inner_axes(extents& to) const {
    for (const std::uint64_t each : element_.shape) to.push_back(std::max<std::uint64_t>(each, 1));
  }

  result<> name_values(const hdf5_type& type, json::object_t& to) {
    PENSTOCK_ASSIGN(const std::string name, tree_.enumeration_name(at_, type));
    if (name.empty()) return {};
    hdf5_global_heap heap(file_);
    json::array_t values;
    for (const auto& [each, stored] : type.values) {
      PENSTOCK_ASSIGN(json number, hdf5_element_json(file_, heap, type.base[0], stored));
      values.emplace_back(json::array_t{json(hdf5_text(each)), std::move(number)});
    }
    to.emplace_back("enum_name", name);
    to.emplace_back("enum", std::move(values));
    return {};
  }

  result<> take_variable(const hdf5_type& type) {
    using outside = hdf5_element::outside;
    PENSTOCK_TRY(check_hdf5_reference(element_.elsewhere, type, file_.offset_bytes()));
    const bool utf8 = element_.elsewhere != outside::text || type.utf8;
    out_.variable = hdf5_array::variable_elements{element_.elsewhere, type.bytes, utf8, element_.items};
    // One reference of an array has no fixed position in an element, so a codec extracts members.
    const bool is_array = !element_.shape.empty();
    const auto stored = is_array ? type.bytes : static_cast<std::uint32_t>(element_bytes_);
    out_.variable->stored_bytes = stored;
    out_.variable->offset = field_ == nullptr || is_array ? 0 : static_cast<std::uint32_t>(field_->offset);
    element_.dtype = json(fmt::format("|V{}", stored));
    element_.item_bytes = element_.stored_bytes = stored;
    return {};
  }

  // An array type adds its axes after those of the dataset.
  result<extents> with_inner_axes(const std::vector<std::uint64_t>& outer) const {
    const std::size_t rank = outer.size() + element_.shape.size();
    if (rank > kMaxRank)
      return error(errc::unsupported, fmt::format("arrays of {} dimensions, at most {} are readable", rank, kMaxRank));
    extents out;
    for (const std::uint64_t each : outer) out.push_back(each);
    for (const std::uint64_t each : element_.shape) out.push_back(each);
    return out;
  }

  result<extents> mapped(const extents& whole) {
    out_.mapped.emplace();
    out_.mapped->shape = shape_;
    PENSTOCK_ASSIGN(out_.mapped->mappings, read_hdf5_mappings(file_, layout_));
    for (hdf5_mapping& each : out_.mapped->mappings)
      if (field_ != nullptr) each.dataset += "/" + as_pattern(field_->path);
    extents chunks;
    for (const std::uint64_t each : whole) chunks.push_back(std::max<std::uint64_t>(each, 1));
    return chunks;
  }

  // The name as a pattern without wildcards.
  static std::string as_pattern(const std::string& name) {
    std::string out;
    for (const char each : name) out += each == '%' ? "%%" : std::string(1, each);
    return out;
  }

  // Values in C order, in one file after the other. A cell also ends where a file ends.
  result<extents> in_other_files(const extents& whole, std::uint64_t bytes) {
    PENSTOCK_ASSIGN(const auto parts, read_hdf5_external(file_, *header_));
    if (out_.variable)
      return error(errc::unsupported, "HDF5 text of variable length whose values are in other files is not readable");
    if (bytes >> 63 != 0)
      return error(errc::unsupported, "datasets of 2^63 bytes or more in external files are not readable");
    std::uint64_t found = 0;
    for (const hdf5_external_part& each : parts) {
      if (found == bytes) break;
      const std::uint64_t count = std::min(each.bytes, bytes - found);
      if (count == 0) continue;
      out_.external.push_back({each.file, each.offset, count});
      found += count;
    }
    if (found != bytes)
      return hdf5_damaged(fmt::format("the dataset's external files have {} bytes, its shape needs {}", found, bytes));
    const std::uint32_t item = element_.stored_bytes;
    extents chunks;
    for (const std::uint64_t each : whole) chunks.push_back(std::max<std::uint64_t>(each, 1));
    if (bytes == 0) return chunks;
    if (out_.external.size() == 1) {
      PENSTOCK_ASSIGN(chunks, cut(whole, item, out_.external[0].offset));
      out_.files.assign(out_.offsets.size(), 0);
      return chunks;
    }
    const std::uint64_t row = whole.empty() ? bytes : bytes / whole[0];
    const auto ends_inside = [&](const hdf5_array::external_file& each) { return each.bytes % row != 0; };
    if (std::none_of(out_.external.begin(), out_.external.end(), ends_inside)) return rows_of_files(whole, row);
    PENSTOCK_ASSIGN(chunks, cut(whole, item, 0));
    out_.external_is_one = true;
    return chunks;
  }

  result<extents> rows_of_files(const extents& whole, std::uint64_t row) {
    std::vector<std::uint64_t> lengths;
    for (const hdf5_array::external_file& each : out_.external) lengths.push_back(each.bytes / row);
    const std::uint64_t block = external_block_bytes(saturating_mul(whole[0], row));
    PENSTOCK_ASSIGN(part_cuts cuts, cut_parts(lengths, std::max<std::uint64_t>(block / row, 1)));
    extents chunks = whole;
    chunks[0] = cuts.edges[1];
    out_.cell_count = cuts.parts.size();
    std::uint64_t at = 0;  // position in the current file
    for (std::size_t i = 0; i < cuts.parts.size(); ++i) {
      const std::uint64_t count = cuts.edges[i + 1] - cuts.edges[i];
      if (i != 0 && cuts.parts[i] != cuts.parts[i - 1]) at = 0;
      out_.offsets.push_back(out_.external[cuts.parts[i]].offset + at);
      out_.lengths.push_back(count * row);
      out_.files.push_back(cuts.parts[i]);
      out_.chains.push_back(0);
      at += count * row;
      if (count == chunks[0]) continue;
      extents cell = chunks;
      cell[0] = count;
      const auto same = std::find_if(out_.variants.begin(), out_.variants.end(),
                                     [&](const hdf5_array::variant& each) { return each.shape == cell; });
      out_.chains.back() = static_cast<std::uint16_t>(same - out_.variants.begin() + 1);
      if (same == out_.variants.end()) out_.variants.push_back({{}, std::move(cell)});
    }
    out_.edges = std::move(cuts.edges);
    return chunks;
  }

  result<extents> chunked() {
    if (layout_.element_bytes != element_bytes_ && layout_.element_bytes != 0) {
      return hdf5_damaged(
          fmt::format("chunks of elements of {} bytes, the type has {}", layout_.element_bytes, element_bytes_));
    }
    PENSTOCK_ASSIGN(pipeline_, parse_hdf5_filters(*header_));
    std::vector<std::optional<std::uint32_t>> used;  // for each filter, the number of its codec in the list
    for (const hdf5_filter& each : pipeline_) {
      PENSTOCK_ASSIGN(json codec, hdf5_codec_of(each, element_bytes_));
      used.emplace_back();
      if (codec.is_null()) continue;
      used.back() = static_cast<std::uint32_t>(filters_.size());
      filters_.push_back(std::move(codec));
    }
    PENSTOCK_ASSIGN(const hdf5_chunk_grid grid, hdf5_chunk_grid::make(shape_, layout_, false));
    out_.cell_count = grid.cells();
    const bool no_items = std::find(element_.shape.begin(), element_.shape.end(), 0) != element_.shape.end();
    if (is_by_need() && !no_items && used.size() <= kMostMaskedFilters) {
      PENSTOCK_ASSIGN(out_.index, hdf5_chunk_index::open(file_, shape_, layout_, used.size()));
      if (out_.index) {
        for (std::uint64_t mask = 1; mask >> used.size() == 0; ++mask) add_variant(mask, used);
        return with_inner_axes(layout_.chunk);
      }
    }
    PENSTOCK_ASSIGN(hdf5_chunks found, list_hdf5_chunks(file_, shape_, layout_));
    if (no_items) {
      found = {};
      out_.cell_count = 0;
    }
    PENSTOCK_TRY(choose_chains(found, grid, used));
    out_.cells = std::move(found.cells);
    out_.offsets = std::move(found.offsets);
    out_.lengths = std::move(found.lengths);
    return with_inner_axes(layout_.chunk);
  }

  bool is_by_need() const {
    if (listing_ == hdf5_chunk_listing::whole) return false;
    if (out_.cell_count > kMostListed) return true;
    if (listing_ == hdf5_chunk_listing::by_need) return false;
    hdf5_held held(file_.source());
    hdf5_file file = file_.over(held);
    static_cast<void>(list_hdf5_chunks(file, shape_, layout_));
    return held.waiting();
  }

  static bool is_cut(std::uint64_t cell, const hdf5_chunk_grid& grid) noexcept {
    hdf5_chunk_coordinates place{};
    grid.coordinates(cell, place);
    return grid.is_cut(place);
  }

  void add_variant(std::uint64_t mask, const std::vector<std::optional<std::uint32_t>>& used) {
    hdf5_array::variant made;
    for (std::size_t i = 0; i < used.size(); ++i)
      if ((mask >> i & 1) != 0 && used[i]) made.skipped.push_back(*used[i]);
    out_.variants.push_back(std::move(made));
  }

  // Bits beyond the pipeline have no meaning. A filter whose codec does nothing counts as skipped.
  result<> choose_chains(hdf5_chunks& found, const hdf5_chunk_grid& grid,
                         const std::vector<std::optional<std::uint32_t>>& used) {
    if (used.empty()) return {};
    const std::uint64_t all = (std::uint64_t{1} << used.size()) - 1;  // at most 32 filters
    std::set<std::uint64_t> different;
    for (std::size_t i = 0; i < found.masks.size(); ++i) {
      std::uint64_t& mask = found.masks[i];
      mask = layout_.raw_edges && is_cut(found.cells[i], grid) ? all : mask & all;
      if (mask != 0 && different.insert(mask).second && different.size() > kMostChains)
        return error(errc::unsupported,
                     fmt::format("more than {} different filter masks are not readable", kMostChains));
    }
    if (different.empty()) return {};
    for (const std::uint64_t mask : different) add_variant(mask, used);
    for (const std::uint64_t mask : found.masks) {
      const auto place = std::distance(different.begin(), different.find(mask));
      out_.chains.push_back(mask == 0 ? std::uint16_t{0} : static_cast<std::uint16_t>(place + 1));
    }
    return {};
  }

  // C-order bytes without chunks, divided into cells of one run each.
  result<extents> in_one_place(const extents& whole) {
    const std::uint64_t item = element_.stored_bytes;
    std::uint64_t bytes = item;
    extents chunks;
    for (const std::uint64_t each : whole) {
      bytes = saturating_mul(bytes, each);
      chunks.push_back(std::max<std::uint64_t>(each, 1));
    }
    out_.cell_count = bytes == 0 ? 0 : 1;
    if (find_message(*header_, hdf5_message::external_files) != nullptr) return in_other_files(whole, bytes);
    const bool compact = layout_.what == hdf5_layout::kind::compact;
    const bool written = compact || !file_.undefined(layout_.address);
    if (!written || bytes == 0) return chunks;

    const std::uint64_t stored = compact                             ? layout_.inline_bytes.size()
                                 : layout_.bytes == byte_range::kAll ? bytes
                                                                     : layout_.bytes;
    if (stored < bytes)
      return hdf5_damaged(fmt::format("the dataset has {} bytes of values, its shape needs {}", stored, bytes));
    std::uint64_t begin = 0, end = 0;
    if (!compact) {
      const bool inside =
          checked_add(file_.base(), layout_.address, begin) && checked_add(begin, bytes, end) && end <= file_.size();
      if (!inside) {
        return hdf5_damaged(fmt::format("{} bytes of values at address {} exceed the file of {} bytes", bytes,
                                        layout_.address, file_.size()));
      }
    } else {
      out_.inline_bytes = layout_.inline_bytes;
    }
    return cut(whole, static_cast<std::uint32_t>(item), begin);
  }

  static std::uint64_t external_block_bytes(std::uint64_t bytes) noexcept {
    return std::max(kBlockBytes, bytes / kMostExternalCells);
  }

  // 0: cut like contiguous values of a fixed size. Elements in heaps are many times as long as their references.
  std::uint64_t block_bytes(const extents& whole, std::uint32_t item) const {
    constexpr std::uint64_t kReferenceBytes = std::uint64_t{16} << 10, kMostBlocks = std::uint64_t{1} << 16;
    std::uint64_t all = item;
    for (const std::uint64_t each : whole) all = saturating_mul(all, each);
    if (!out_.external.empty()) return external_block_bytes(all);
    if (!out_.variable) return 0;
    return std::max(kReferenceBytes, all / kMostBlocks);
  }

  result<extents> cut(const extents& whole, std::uint32_t item, std::uint64_t begin) {
    const extents block = contiguous_block(whole, item, storage_order::c, block_bytes(whole, item));
    std::size_t axis = 0;  // the axis that is divided: cells have length 1 before it, and are whole after it
    while (axis + 1 < whole.size() && block[axis] == 1) ++axis;
    if (whole.empty()) {
      out_.offsets = {begin};
      out_.lengths = {item};
      return block;
    }
    std::uint64_t run = item, rows = 1;  // bytes of one step along the axis
    for (std::size_t d = axis + 1; d < whole.size(); ++d) {
      if (block[d] != whole[d]) return error(errc::unsupported, "contiguous values whose cells are not runs of bytes");
      run *= whole[d];
    }
    for (std::size_t d = 0; d < axis; ++d) rows *= whole[d];
    const std::uint64_t blocks = ceil_div(whole[axis], block[axis]), rest = whole[axis] % block[axis];
    out_.cell_count = rows * blocks;
    for (std::uint64_t row = 0; row < rows; ++row) {
      for (std::uint64_t i = 0; i < blocks; ++i) {
        const bool last = rest != 0 && i + 1 == blocks;
        out_.offsets.push_back(begin + (row * whole[axis] + i * block[axis]) * run);
        out_.lengths.push_back((last ? rest : block[axis]) * run);
        if (rest != 0) out_.chains.push_back(last ? 1 : 0);
      }
    }
    if (rest != 0) {
      extents short_cell = block;
      short_cell[axis] = rest;
      out_.variants.push_back({{}, std::move(short_cell)});
    }
    return block;
  }

  hdf5_file& file_;
  hdf5_tree& tree_;
  const hdf5_place& at_;
  hdf5_chunk_listing listing_;
  const hdf5_field* field_;
  const std::vector<hdf5_message>* header_ = nullptr;
  hdf5_shape shape_;
  hdf5_element element_;
  hdf5_layout layout_;
  std::vector<hdf5_filter> pipeline_;
  std::uint64_t element_bytes_ = 0;
  json::array_t filters_;
  hdf5_array out_;
};

}  // namespace

result<hdf5_array> read_hdf5_array(hdf5_file& file, hdf5_tree& tree, const hdf5_place& at, hdf5_chunk_listing listing,
                                   const hdf5_field* field) {
  return array_reader(file, tree, at, listing, field).read();
}

}  // namespace penstock::inline v0
