#include "driver/hdf5_heap_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "array/chunk_grid.h"
#include "base/checked.h"
#include "codec/codec_chain.h"
#include "codec/worker_scratch.h"
#include "format/hdf5/hdf5_heaps.h"

namespace penstock::inline v0 {
namespace {

/// The most bytes for one cell. A damaged chunk shape may ask for any number, whatever the file's size.
constexpr std::uint64_t kMostReferenceBytes = std::uint64_t{1} << 26;
/// For elements that were never written: the file's size does not bound their number.
constexpr std::uint64_t kMostFillBytes = std::uint64_t{1} << 26;

using outside = hdf5_element::outside;

}  // namespace

/// Reads elements in one pass over the file: a heap collection that several cells share is read once.
class hdf5_heap_values::operation {
 public:
  operation(const hdf5_heap_values& of, hdf5_file& file) : of_(of), file_(file), heap_(file) {}

  result<cell_bytes> cell(std::uint64_t number) {
    auto made = read_cell(number);
    if (made.ok()) return made;
    return std::move(made).error().note(fmt::format("reading {}", of_.references_->describe(number)));
  }

  result<std::string> value(std::span<const std::byte> reference) {
    PENSTOCK_ASSIGN(const auto bytes, find(reference));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

 private:
  result<cell_bytes> read_cell(std::uint64_t number) {
    PENSTOCK_ASSIGN(const std::vector<std::byte> references, read_references(number));
    if (file_.waiting() && references.empty()) return cell_bytes();
    const hdf5_array::variable_elements& elements = *of_.of_.variable;
    const std::size_t item = elements.stored_bytes;
    const std::vector<std::byte>& fill = elements.fill;
    cell_bytes out;
    std::uint64_t filled = 0;
    append_cell_number(out, references.size() / item);
    for (std::size_t at = 0; at < references.size(); at += item) {
      const std::span<const std::byte> reference = elements.reference(std::span(references).subspan(at, item));
      auto found = find(reference);
      if (!found.ok() && file_.waiting()) continue;
      if (!found.ok()) return std::move(found).error();
      if (out.size() + found->size() > kMostHdf5CellBytes)
        return error(errc::unsupported, fmt::format("cells of more than {} bytes of variable length are not readable",
                                                    kMostHdf5CellBytes));
      const bool is_fill = !fill.empty() && std::ranges::equal(reference, elements.reference(fill));
      PENSTOCK_TRY(count(found->size(), is_fill, filled));
      append_cell_number(out, found->size());
      out.insert(out.end(), found->begin(), found->end());
    }
    return out;
  }

  // Many elements may refer to one object of the heap, or to none. Paths are not bytes of the file, and there are as
  // many as references, so the limit of a cell bounds them.
  result<> count(std::uint64_t bytes, bool is_fill, std::uint64_t& filled) {
    const outside what = of_.of_.variable->what;
    if (what == outside::object || what == outside::region) return {};
    if (!is_fill) return file_.spend(bytes);
    filled += bytes;
    if (filled <= kMostFillBytes) return {};
    return error(errc::unsupported,
                 fmt::format("cells of more than {} bytes of the fill value are not readable", kMostFillBytes));
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

    const std::optional<std::size_t> entry = of_.entry_of(number);
    if (!entry) return out;
    std::span<const std::byte> encoded;
    if (from.inline_bytes) {
      encoded =
          std::span(*from.inline_bytes)
              .subspan(static_cast<std::size_t>(from.offsets[*entry]), static_cast<std::size_t>(from.lengths[*entry]));
    } else {
      auto read = file_.at(from.offsets[*entry] - file_.base(), from.lengths[*entry]);
      if (!read.ok() && file_.waiting()) return std::vector<std::byte>();
      if (!read.ok()) return std::move(read).error();
      encoded = *read;
    }
    decode_target target;
    target.data = out.data();
    target.strides = steps;
    target.in_cell = &region.in_cell;
    target.covers_cell = region.covers_cell;
    const std::size_t chain = from.chains.empty() ? 0 : from.chains[*entry];
    PENSTOCK_TRY(of_.references_->chains()[chain].decode(encoded, target, scratch_));
    return out;
  }

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

  // The path that a reference leads to; valid until the operation ends.
  result<std::span<const std::byte>> find(std::span<const std::byte> reference) {
    const hdf5_array::variable_elements& elements = *of_.of_.variable;
    hdf5_cursor cursor(reference);
    if (elements.what == outside::object) return in_bytes(path_of(cursor.number(file_.offset_bytes())));
    if (elements.what == outside::region) return region(cursor);
    const std::uint64_t length = cursor.number(4) * elements.item_bytes;
    if (length == 0) return std::span<const std::byte>();
    PENSTOCK_ASSIGN(auto object, in_heap(cursor));
    if (object.size() < length && !object.empty())
      return hdf5_damaged(fmt::format("a value of {} bytes in an object of {}", length, object.size()));
    object = object.first(static_cast<std::size_t>(std::min<std::uint64_t>(length, object.size())));
    if (elements.what == outside::list) return object;
    const auto end = std::find(object.begin(), object.end(), std::byte{0});
    return object.first(static_cast<std::size_t>(end - object.begin()));
  }

  result<std::span<const std::byte>> in_heap(hdf5_cursor& cursor) {
    const std::uint64_t collection = cursor.number(file_.offset_bytes()), index = cursor.number(4);
    return heap_.object(collection, index);
  }

  result<std::span<const std::byte>> region(hdf5_cursor& cursor) {
    PENSTOCK_ASSIGN(const auto stored, in_heap(cursor));
    if (stored.empty()) return stored;
    const auto path = [this](std::uint64_t object) { return path_of(object); };
    PENSTOCK_ASSIGN(std::string text, hdf5_region_text(file_, stored, path));
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
  const hdf5_heap_values& of_;
  hdf5_file& file_;
  hdf5_global_heap heap_;
  worker_scratch scratch_;
};

hdf5_heap_values::hdf5_heap_values(std::shared_ptr<hdf5_reader> from, hdf5_array of,
                                   std::shared_ptr<const chunk_layout> references)
    : from_(std::move(from)), of_(std::move(of)), references_(std::move(references)) {
  for (std::size_t d = 0; d < grid().rank(); ++d)
    cell_shape_.push_back(grid().axis(d).cells() == 0 ? 1 : grid().axis(d).codec_length(0));
}

// The index of a cell in the columns of the dataset; nullopt: it was never written.
std::optional<std::size_t> hdf5_heap_values::entry_of(std::uint64_t cell) const {
  if (of_.cells.empty())
    return cell < of_.offsets.size() ? std::optional(static_cast<std::size_t>(cell)) : std::nullopt;
  const auto at = std::lower_bound(of_.cells.begin(), of_.cells.end(), cell);
  if (at == of_.cells.end() || *at != cell) return std::nullopt;
  return static_cast<std::size_t>(at - of_.cells.begin());
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
  return cell < grid().cells() && (!of_.variable->fill.empty() || entry_of(cell).has_value());
}

result<std::vector<std::uint64_t>> hdf5_heap_values::cells() const {
  if (of_.variable->fill.empty() && !of_.cells.empty()) return of_.cells;
  return all_hdf5_cells(of_.variable->fill.empty() ? of_.offsets.size() : grid().cells());
}

std::vector<result<hdf5_heap_values::cell_bytes>> hdf5_heap_values::read(std::span<const std::uint64_t> cells) const {
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
