#include "driver/hdf5_heap_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "array/chunk_grid.h"
#include "array/list_items.h"
#include "base/checked.h"
#include "codec/codec_chain.h"
#include "codec/worker_scratch.h"
#include "format/hdf5/hdf5_heaps.h"

namespace penstock::inline v0 {
namespace {

/// The most bytes for one cell. A damaged chunk shape may require any number of bytes, whatever the file's size.
constexpr std::uint64_t kMostReferenceBytes = std::uint64_t{1} << 26;
/// For elements that were never written: the file's size does not bound their number.
constexpr std::uint64_t kMostFillBytes = std::uint64_t{1} << 26;

constexpr bool kKeepsLong = false;

using outside = hdf5_element::outside;

}  // namespace

/// Reads elements in one pass over the file: a heap collection that several cells share is read once.
class hdf5_heap_values::operation {
 public:
  operation(const hdf5_heap_values& of, hdf5_file& file)
      : of_(of),
        file_(file),
        top_{of.of_.variable->what, of.of_.variable->items.get()},
        heap_(file, kKeepsLong),
        regions_(file),
        nodes_(of) {}

  result<cell_bytes> cell(const hdf5_cell_request& wanted) {
    auto made = read_cell(wanted);
    if (made.ok()) return made;
    return std::move(made).error().note(fmt::format("reading {}", of_.references_->describe(wanted.cell)));
  }

  result<std::string> value(std::span<const std::byte> reference) {
    cell_bytes bytes;
    PENSTOCK_TRY(append(top_, reference, bytes));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

 private:
  result<cell_bytes> read_cell(const hdf5_cell_request& wanted) {
    PENSTOCK_ASSIGN(const std::vector<std::byte> references, read_references(wanted.cell));
    if (file_.waiting() && references.empty()) return cell_bytes();
    const hdf5_array::variable_elements& elements = *of_.of_.variable;
    const std::size_t item = elements.stored_bytes;
    cell_bytes out;
    std::uint64_t filled = 0;
    out.reserve(likely_bytes(wanted, references));
    append_cell_number(out, references.size() / item);
    for (std::size_t at = 0; at < references.size(); at += item) {
      const std::size_t begin = out.size();
      append_cell_number(out, 0);
      if (!wanted.needs(at / item)) continue;
      const std::span<const std::byte> reference = elements.reference(std::span(references).subspan(at, item));
      PENSTOCK_TRY(is_fill(reference) ? append_fill(filled, out) : append(top_, reference, out));
      PENSTOCK_TRY(set_length(out, begin));
    }
    return out;
  }

  bool is_fill(std::span<const std::byte> reference) const {
    const hdf5_array::variable_elements& elements = *of_.of_.variable;
    return !elements.fill.empty() && std::ranges::equal(reference, elements.reference(elements.fill));
  }

  // Few bytes of the file are the value of any number of elements.
  result<> append_fill(std::uint64_t& filled, cell_bytes& out) {
    const hdf5_array::variable_elements& elements = *of_.of_.variable;
    if (!fill_) {
      cell_bytes made;
      PENSTOCK_TRY(append(top_, elements.reference(elements.fill), made));
      if (file_.waiting()) return {};
      fill_ = std::move(made);
    }
    filled += fill_->size();
    if (filled > kMostFillBytes)
      return error(errc::unsupported,
                   fmt::format("cells of more than {} bytes of the fill value are not readable", kMostFillBytes));
    out.insert(out.end(), fill_->begin(), fill_->end());
    return {};
  }

  /// An element, or an item of a list, that is stored elsewhere.
  struct kind_of_item {
    outside what = outside::nothing;
    const hdf5_list_item* items = nullptr;  // of lists
  };

  // Replaces the length before bytes that were appended.
  result<> set_length(cell_bytes& out, std::size_t begin) const {
    const std::uint64_t length = out.size() - begin - kListLengthBytes;
    if (length > kMostListItemBytes)
      return error(errc::unsupported, fmt::format("a value of variable length has {} bytes, at most {} are readable",
                                                  length, kMostListItemBytes));
    store_list_length(length, out.data() + begin);
    return {};
  }

  // Appends the value that a reference leads to. While bytes of the file are missing, it appends less.
  result<> append(const kind_of_item& kind, std::span<const std::byte> reference, cell_bytes& out) {
    auto found = find(kind, reference);
    if (!found.ok() && file_.waiting()) return {};
    if (!found.ok()) return std::move(found).error();
    const std::span<const std::byte> bytes = *found;
    // Many elements may refer to one object of the heap. Paths are not bytes of the file, and there are as many as
    // references.
    const bool in_heap = kind.what == outside::text || kind.what == outside::list;
    if (in_heap) PENSTOCK_TRY(file_.spend(bytes.size()));
    if (kind.items == nullptr || kind.items->is_plain()) {
      PENSTOCK_TRY(check_size(out.size() + bytes.size()));
      out.insert(out.end(), bytes.begin(), bytes.end());
      return {};
    }
    if (!kind.items->is_elsewhere()) return append_converted(*kind.items, bytes, out);
    const std::vector<std::byte> copied(bytes.begin(), bytes.end());  // the heap may drop the object
    const kind_of_item inner{kind.items->elsewhere, kind.items->items.get()};
    const std::size_t item = kind.items->stored_bytes;
    for (std::size_t at = 0; at + item <= copied.size(); at += item) {
      const std::size_t begin = out.size();
      append_cell_number(out, 0);
      PENSTOCK_TRY(append(inner, std::span(copied).subspan(at, item), out));
      PENSTOCK_TRY(set_length(out, begin));
    }
    return check_size(out.size());
  }

  // The cell may be larger than the file, because elements can be paths and many can have one value, but not without
  // limit.
  result<> check_size(std::uint64_t bytes) const {
    constexpr std::uint64_t kMostTimes = 4;  // numbers become at most that much longer
    const std::uint64_t most = std::max(kMostHdf5CellBytes, saturating_mul(file_.size(), kMostTimes));
    if (bytes > most)
      return error(errc::unsupported,
                   fmt::format("cells of more than {} bytes of variable length in a file of {} are not readable", most,
                               file_.size()));
    if (bytes <= of_.memory_limit_) return {};
    return error(errc::resource_exhausted,
                 fmt::format("a cell of variable length has more bytes than the memory limit of {}: select fewer "
                             "elements of it, or raise memory_limit",
                             of_.memory_limit_));
  }

  result<> append_converted(const hdf5_list_item& items, std::span<const std::byte> stored, cell_bytes& out) {
    std::shared_ptr<const byte_codec>& codec = codecs_[&items];
    if (!codec) {
      PENSTOCK_ASSIGN(const codec_config config, codec_of_v2(items.codec));
      PENSTOCK_ASSIGN(codec, make_byte_codec(config, items.item_bytes));
    }
    const std::size_t begin = out.size(), bytes = stored.size() / items.stored_bytes * items.item_bytes;
    PENSTOCK_TRY(check_size(begin + bytes));
    out.resize(begin + bytes);
    auto made = codec->decode(stored, std::span(out).subspan(begin), scratch_);
    if (!made.ok()) return std::move(made).error();
    if (made->size() != bytes) return hdf5_damaged(fmt::format("a list of {} bytes became {}", bytes, made->size()));
    return {};
  }

  // The size of a cell if its references are valid. Reserved in advance, so that the bytes are rarely copied while they
  // grow.
  std::size_t likely_bytes(const hdf5_cell_request& wanted, std::span<const std::byte> references) const {
    const hdf5_array::variable_elements& elements = *of_.of_.variable;
    const std::size_t item = elements.stored_bytes;
    std::uint64_t out = 4 * (references.size() / item + 1);
    if (elements.what != outside::text && elements.what != outside::list) return static_cast<std::size_t>(out);
    for (std::size_t at = 0; at < references.size(); at += item) {
      hdf5_cursor cursor(elements.reference(references.subspan(at, item)));
      if (wanted.needs(at / item)) out = saturating_add(out, saturating_mul(cursor.number(4), item_bytes(top_)));
    }
    return static_cast<std::size_t>(std::min(out, file_.size()));
  }

  // The bytes in the heap of one item of text or of a list.
  static std::uint64_t item_bytes(const kind_of_item& kind) noexcept {
    return kind.items == nullptr ? 1 : kind.items->stored_bytes;
  }

  // The stored elements of a cell, in C order; zeros after the end of the array.
  result<std::vector<std::byte>> read_references(std::uint64_t number) {
    const chunk_grid& grid = of_.grid();
    const hdf5_array& from = of_.of_;
    const std::uint64_t item = from.variable->stored_bytes;
    std::uint64_t bytes = item;
    strides steps(grid.rank());
    for (std::size_t d = grid.rank(); d-- > 0;) {
      steps[d] = static_cast<std::int64_t>(bytes);
      bytes = saturating_mul(bytes, of_.cell_shape_[d]);
      if (bytes > kMostReferenceBytes)
        return error(errc::unsupported,
                     fmt::format("cells of more than {} elements of variable length are not readable",
                                 kMostReferenceBytes / item));
    }
    dim_vector<std::uint64_t> at;
    grid.coordinates(number, at);
    strided_box whole;
    for (std::size_t d = 0; d < grid.rank(); ++d) whole.push_back({0, 1, grid.axis(d).extent()});
    cell_region region;
    std::vector<std::byte> out(static_cast<std::size_t>(bytes));
    if (!intersect(grid, at, whole, region)) return out;
    if (!from.variable->fill.empty()) fill_region(region, steps, out);

    auto found = find_chunk(number);
    if (!found.ok() && file_.waiting()) return std::vector<std::byte>();
    if (!found.ok()) return std::move(found).error();
    if (!*found) return out;
    const stored_chunk& chunk = **found;
    std::span<const std::byte> encoded;
    if (from.inline_bytes) {
      encoded = std::span(*from.inline_bytes)
                    .subspan(static_cast<std::size_t>(chunk.offset), static_cast<std::size_t>(chunk.length));
    } else {
      auto read = file_.at(chunk.offset - file_.base(), chunk.length);
      if (!read.ok() && file_.waiting()) return std::vector<std::byte>();
      if (!read.ok()) return std::move(read).error();
      encoded = *read;
    }
    decode_target target;
    target.data = out.data();
    target.strides = steps;
    target.in_cell = &region.in_cell;
    target.covers_cell = region.covers_cell;
    PENSTOCK_TRY(of_.references_->chains()[chunk.chain].decode(encoded, target, scratch_));
    return out;
  }

  // The chunk of a cell; none: it was never written.
  result<std::optional<stored_chunk>> find_chunk(std::uint64_t cell) {
    if (!of_.of_.index) return of_.listed_chunk(cell);
    const hdf5_chunk_index& index = *of_.of_.index;
    for (;;) {
      hdf5_chunk_place at;
      index_request missing;
      PENSTOCK_ASSIGN(const hdf5_lookup outcome, index.find(cell, nodes_, hint_, at, missing));
      if (outcome == hdf5_lookup::absent) return std::optional<stored_chunk>();
      if (outcome == hdf5_lookup::waits) {
        PENSTOCK_TRY(nodes_.read(missing, file_));
        continue;
      }
      const std::span<const codec_chain> chains = of_.references_->chains();
      if (at.mask >= chains.size())
        return hdf5_damaged(
            fmt::format("a chunk skips filters {:#x}, there are {} ways to decode", at.mask, chains.size()));
      if (at.length > chains[at.mask].max_encoded_bytes())
        return hdf5_damaged(fmt::format("the index gives {} bytes to a chunk whose codecs make at most {}", at.length,
                                        chains[at.mask].max_encoded_bytes()));
      return std::optional(stored_chunk{at.address, at.length, static_cast<std::size_t>(at.mask)});
    }
  }

  /// The nodes of the chunk index that this operation has used. They are also cached for later ones.
  class known_nodes final : public index_lookup {
   public:
    explicit known_nodes(const hdf5_heap_values& of) noexcept : of_(of) {}

    const index_entry* find(const index_key& key) const override {
      if (const auto known = used_.find(key.node); known != used_.end()) return &known->second;
      const std::lock_guard lock(of_.mutex_);
      const auto cached = of_.nodes_.find(key.node);
      return cached == of_.nodes_.end() ? nullptr : &used_.emplace(*cached).first->second;
    }

    result<> read(const index_request& wanted, hdf5_file& file) {
      constexpr std::uint64_t kMostCached = std::uint64_t{4} << 20;
      PENSTOCK_ASSIGN(const auto bytes, file.at(wanted.range.offset - file.base(), wanted.range.length));
      index_entry made;
      PENSTOCK_ASSIGN(made.block, of_.of_.index->parse(wanted, bytes, byte_range::kAll));
      const std::uint64_t size = made.block->memory_bytes();
      used_.emplace(wanted.key.node, made);
      const std::lock_guard lock(of_.mutex_);
      if (of_.node_bytes_ + size > kMostCached) {
        of_.nodes_.clear();
        of_.node_bytes_ = 0;
      }
      if (size <= kMostCached && of_.nodes_.emplace(wanted.key.node, std::move(made)).second) of_.node_bytes_ += size;
      return {};
    }

   private:
    const hdf5_heap_values& of_;
    mutable std::map<std::uint64_t, index_entry> used_;
  };

  void fill_region(const cell_region& region, const strides& steps, std::vector<std::byte>& out) const {
    const std::vector<std::byte>& fill = of_.of_.variable->fill;
    std::uint64_t count = 1;
    for (const axis_range& each : region.in_cell) count *= each.count;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t left = i;
      std::size_t to = 0;
      for (std::size_t d = steps.size(); d-- > 0; left /= region.in_cell[d].count)
        to += static_cast<std::size_t>(left % region.in_cell[d].count) * static_cast<std::size_t>(steps[d]);
      std::copy(fill.begin(), fill.end(), out.begin() + static_cast<std::ptrdiff_t>(to));
    }
  }

  // The stored bytes, or the path, that a reference leads to; valid until the next call.
  result<std::span<const std::byte>> find(const kind_of_item& kind, std::span<const std::byte> reference) {
    hdf5_cursor cursor(reference);
    if (kind.what == outside::object) return in_bytes(path_of(cursor.number(file_.offset_bytes())));
    if (kind.what == outside::region) return region(cursor);
    if (kind.what == outside::any) return any_target(reference);
    const std::uint64_t length = saturating_mul(cursor.number(4), item_bytes(kind));
    if (length == 0) return std::span<const std::byte>();
    PENSTOCK_ASSIGN(auto object, in_heap(heap_, cursor));
    if (object.size() < length && !object.empty())
      return hdf5_damaged(fmt::format("a value of {} bytes in an object of {}", length, object.size()));
    object = object.first(static_cast<std::size_t>(std::min<std::uint64_t>(length, object.size())));
    if (kind.what == outside::list) return object;
    const auto end = std::find(object.begin(), object.end(), std::byte{0});
    return object.first(static_cast<std::size_t>(end - object.begin()));
  }

  result<std::span<const std::byte>> in_heap(hdf5_global_heap& heap, hdf5_cursor& cursor) {
    const std::uint64_t collection = cursor.number(file_.offset_bytes()), index = cursor.number(4);
    return heap.object(collection, index);
  }

  result<std::span<const std::byte>> region(hdf5_cursor& cursor) {
    PENSTOCK_ASSIGN(const auto stored, in_heap(regions_, cursor));
    if (stored.empty()) return stored;
    const auto path = [this](std::uint64_t object) { return path_of(object); };
    PENSTOCK_ASSIGN(std::string text, hdf5_region_text(file_, stored, path));
    return in_bytes(made_.emplace_back(std::move(text)));
  }

  result<std::span<const std::byte>> any_target(std::span<const std::byte> reference) {
    const auto path = [this](std::uint64_t object) { return path_of(object); };
    PENSTOCK_ASSIGN(std::string text, hdf5_reference_text(file_, regions_, reference, path));
    return in_bytes(made_.emplace_back(std::move(text)));
  }

  // Empty for the null reference.
  const std::string& path_of(std::uint64_t object) {
    static const std::string kNone;
    if (object == 0 || file_.undefined(object)) return kNone;
    if (!paths_) {
      hdf5_tree tree(file_);
      paths_ = of_.paths(file_, tree);
    }
    if (const auto found = paths_->find(object); found != paths_->end()) return found->second;
    return made_.emplace_back(hdf5_path_of(*paths_, object));
  }

  static std::span<const std::byte> in_bytes(const std::string& text) noexcept {
    return std::as_bytes(std::span(text));
  }

  std::shared_ptr<const hdf5_paths> paths_;
  std::deque<std::string> made_;  // texts of references, which must not move
  std::optional<cell_bytes> fill_;
  std::map<const hdf5_list_item*, std::shared_ptr<const byte_codec>> codecs_;
  const hdf5_heap_values& of_;
  hdf5_file& file_;
  const kind_of_item top_;
  hdf5_global_heap heap_;
  hdf5_global_heap regions_;  // of references: their paths are read while objects are in use
  known_nodes nodes_;
  hdf5_search_hint hint_;
  worker_scratch scratch_;
};

hdf5_heap_values::hdf5_heap_values(std::shared_ptr<hdf5_reader> from, hdf5_array of,
                                   std::shared_ptr<const chunk_layout> references, std::uint64_t memory_limit)
    : from_(std::move(from)), of_(std::move(of)), references_(std::move(references)), memory_limit_(memory_limit) {
  for (std::size_t d = 0; d < grid().rank(); ++d)
    cell_shape_.push_back(grid().axis(d).cells() == 0 ? 1 : grid().axis(d).codec_length(0));
}

// The chunk of a cell in a list of all chunks; nullopt: it was never written.
std::optional<hdf5_heap_values::stored_chunk> hdf5_heap_values::listed_chunk(std::uint64_t cell) const {
  std::size_t at = static_cast<std::size_t>(cell);
  if (!of_.cells.empty()) {
    const auto found = std::lower_bound(of_.cells.begin(), of_.cells.end(), cell);
    if (found == of_.cells.end() || *found != cell) return std::nullopt;
    at = static_cast<std::size_t>(found - of_.cells.begin());
  } else if (cell >= of_.offsets.size()) {
    return std::nullopt;
  }
  return stored_chunk{of_.offsets[at], of_.lengths[at], of_.chains.empty() ? std::size_t{0} : of_.chains[at]};
}

// The paths of the file's objects, which are searched once.
std::shared_ptr<const hdf5_paths> hdf5_heap_values::paths(hdf5_file& file, hdf5_tree& tree) const {
  const std::lock_guard lock(mutex_);
  if (paths_) return paths_;
  auto made = std::make_shared<const hdf5_paths>(find_hdf5_paths(file, tree));
  if (!file.waiting()) paths_ = made;
  return made;
}

bool hdf5_heap_values::has(std::uint64_t cell) const {
  if (cell >= grid().cells()) return false;
  return of_.index || !of_.variable->fill.empty() || listed_chunk(cell).has_value();
}

result<std::vector<std::uint64_t>> hdf5_heap_values::cells() const {
  if (of_.index || !of_.variable->fill.empty()) return all_hdf5_cells(grid().cells());
  if (!of_.cells.empty()) return of_.cells;
  return all_hdf5_cells(of_.offsets.size());
}

std::vector<result<hdf5_heap_values::cell_bytes>> hdf5_heap_values::read(
    std::span<const hdf5_cell_request> cells) const {
  auto made = from_->parse([&](hdf5_file& file) -> result<std::vector<result<cell_bytes>>> {
    operation reading(*this, file);
    std::vector<result<cell_bytes>> out;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < cells.size() && bytes < kHdf5BytesTogether; ++i) {
      out.push_back(reading.cell(cells[i]));
      if (out.back().ok()) bytes += out.back()->size();
    }
    return out;
  });
  if (made.ok()) return std::move(*made);
  std::vector<result<cell_bytes>> out;
  for (std::size_t i = 0; i < cells.size(); ++i) out.emplace_back(made.error().clone());
  return out;
}

result<std::string> hdf5_heap_values::fill() const {
  if (of_.variable->fill.empty()) return std::string();
  return from_->parse(
      [&](hdf5_file& file) { return operation(*this, file).value(of_.variable->reference(of_.variable->fill)); });
}

}  // namespace penstock::inline v0
