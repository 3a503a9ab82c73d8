#include "format/hdf5/hdf5_chunk_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "format/hdf5/hdf5_index_forms.h"

namespace penstock::inline v0 {
namespace {

/// The stored bytes of a node.
class node_block final : public index_block {
 public:
  node_block(std::uint64_t asked, std::span<const std::byte> stored)
      : length(asked), bytes(stored.begin(), stored.end()) {}
  std::uint64_t memory_bytes() const noexcept override { return sizeof(*this) + bytes.capacity(); }

  std::uint64_t length;  // as requested
  std::vector<std::byte> bytes;
};

/// The part of a node that begins at byte `at`.
hdf5_cursor from(std::span<const std::byte> node, std::uint64_t at) noexcept {
  return hdf5_cursor(node.subspan(static_cast<std::size_t>(std::min<std::uint64_t>(at, node.size()))));
}

}  // namespace

class hdf5_chunk_index::nodes {
 public:
  nodes(const hdf5_addresses& addresses, const index_lookup& known, index_request& missing) noexcept
      : addresses_(addresses), known_(known), missing_(missing) {}

  /// Whether a search ended at a node that could not be read.
  bool failed() const noexcept { return failed_; }

  /// Returns the bytes of a node. If it is not cached, returns none and records the request for it. Also returns none
  /// if it `failed`.
  /// \param node  Its name; 0: the node where searches begin.
  result<std::optional<std::span<const std::byte>>> find(std::uint64_t node, std::uint64_t address,
                                                         std::uint64_t length) {
    using found = std::optional<std::span<const std::byte>>;
    std::uint64_t begin = 0, end = 0;
    if (!checked_add(addresses_.base, address, begin) || !checked_add(begin, length, end) || end > addresses_.size)
      return hdf5_damaged(fmt::format("{} bytes of its index at address {} exceed the file of {} bytes", length,
                                      address, addresses_.size));
    const index_key key{0, node};
    const index_entry* const entry = known_.find(key);
    if (entry == nullptr) {
      missing_ = {key, {begin, length, false}, length};
      return found();
    }
    failed_ = entry->failed;
    if (failed_) return found();
    if (!entry->block) return error(errc::conflict, "the file was removed since the array was opened");
    const auto& block = static_cast<const node_block&>(*entry->block);
    if (block.length != length)
      return hdf5_damaged(fmt::format("two nodes of {} and {} bytes at address {}", block.length, length, address));
    return found(block.bytes);
  }

  /// As `find`, for a tree's node whose length is stored at its beginning: requests as many bytes as it probably has.
  result<std::optional<std::span<const std::byte>>> find_begin(std::uint64_t node, std::uint64_t address,
                                                               std::uint64_t likely) {
    std::uint64_t begin = 0;
    if (!checked_add(addresses_.base, address, begin) || begin >= addresses_.size)
      return hdf5_damaged(fmt::format("a node of its index at address {} is outside of the file", address));
    return find(node, address, std::min(likely, addresses_.size - begin));
  }

 private:
  const hdf5_addresses& addresses_;
  const index_lookup& known_;
  index_request& missing_;
  bool failed_ = false;
};

namespace {

class btree_1_index final : public hdf5_chunk_index {
 public:
  btree_1_index(const hdf5_file& file, hdf5_chunk_grid grid, std::uint64_t root)
      : hdf5_chunk_index(file, std::move(grid)), form_(file.offset_bytes(), grid_.rank()), root_(root) {}

  result<std::size_t> check(std::uint64_t node, std::span<const std::byte> bytes) const override {
    hdf5_cursor cursor(bytes);
    PENSTOCK_ASSIGN(const auto head, hdf5_btree_1_form::read_prefix(cursor));
    const std::uint64_t length = form_.prefix_bytes + head.used * form_.entry_bytes;
    if (length <= bytes.size()) {
      PENSTOCK_TRY(check_order(bytes, head.used));
      return static_cast<std::size_t>(length);
    }
    if (node == 0 || kind_of(node) == kind::tree) return static_cast<std::size_t>(form_.prefix_bytes);
    return hdf5_damaged("a node of a B-tree is truncated");
  }

 private:
  result<hdf5_lookup> look_up(const hdf5_chunk_coordinates& place, nodes& among, hdf5_search_hint& hint,
                              hdf5_chunk_place& out) const override {
    if (hint.next < hint.entries && compare(hint.node, hint.next, place) == 0) {
      take(hint.node, hint.next++, out);
      return hdf5_lookup::present;
    }
    std::uint64_t node = 0, address = root_;
    std::optional<std::uint64_t> above;
    for (;;) {
      PENSTOCK_ASSIGN(auto bytes, among.find_begin(node, address, form_.likely_bytes()));
      if (!bytes) return hdf5_lookup::waits;
      hdf5_cursor cursor(*bytes);
      PENSTOCK_ASSIGN(const auto head, hdf5_btree_1_form::read_prefix(cursor));
      if (above && head.level + 1 != *above)
        return hdf5_damaged(fmt::format("a node of level {} below one of level {}", head.level, *above));
      const std::uint64_t length = form_.prefix_bytes + head.used * form_.entry_bytes;
      if (length > bytes->size()) {
        PENSTOCK_ASSIGN(bytes, among.find(name_of(kind::long_tree, address), address, length));
        if (!bytes) return hdf5_lookup::waits;
      }
      // The last child that does not begin after the chunk.
      std::uint64_t low = 0, high = head.used;
      while (low != high) {
        const std::uint64_t middle = low + (high - low) / 2;
        if (compare(*bytes, middle, place) <= 0)
          low = middle + 1;
        else
          high = middle;
      }
      if (low == 0) return hdf5_lookup::absent;
      take(*bytes, low - 1, out);
      if (head.level == 0) {
        hint.node = *bytes;
        hint.next = low;
        hint.entries = head.used;
        return compare(*bytes, low - 1, place) == 0 ? hdf5_lookup::present : hdf5_lookup::absent;
      }
      above = head.level;
      address = out.address;
      node = name_of(kind::tree, address);
    }
  }

  void take(std::span<const std::byte> node, std::uint64_t entry, hdf5_chunk_place& out) const noexcept {
    hdf5_cursor cursor = from(node, form_.prefix_bytes + entry * form_.entry_bytes);
    out.length = cursor.number(4);
    out.mask = cursor.number(4);
    cursor.skip(8 * (grid_.rank() + 1));
    out.address = cursor.number(addresses_.offset_bytes);
  }

  std::uint64_t coordinate(std::span<const std::byte> node, std::uint64_t entry, std::size_t d) const noexcept {
    return from(node, form_.prefix_bytes + entry * form_.entry_bytes + 8 + 8 * d).number(8) / grid_.chunk_elements(d);
  }

  // Compares an entry's key with a chunk, like `<=>`.
  int compare(std::span<const std::byte> node, std::uint64_t entry,
              const hdf5_chunk_coordinates& place) const noexcept {
    for (std::size_t d = 0; d < grid_.rank(); ++d) {
      const std::uint64_t key = coordinate(node, entry, d);
      if (key != place[d]) return key < place[d] ? -1 : 1;
    }
    return 0;
  }

  // Nodes do not have a checksum that would detect a damaged key.
  result<> check_order(std::span<const std::byte> node, std::uint64_t used) const {
    hdf5_chunk_coordinates last{};
    for (std::uint64_t i = 0; i < used; ++i) {
      if (i != 0 && compare(node, i, last) <= 0) return hdf5_damaged("a node of a B-tree whose keys do not ascend");
      for (std::size_t d = 0; d < grid_.rank(); ++d) last[d] = coordinate(node, i, d);
    }
    return {};
  }

  hdf5_btree_1_form form_;
  std::uint64_t root_;
};

class btree_2_index final : public hdf5_chunk_index {
 public:
  btree_2_index(const hdf5_file& file, hdf5_chunk_grid grid, hdf5_chunk_record record, hdf5_record_tree tree)
      : hdf5_chunk_index(file, std::move(grid)), record_(record), tree_(std::move(tree)) {}

  result<std::size_t> check(std::uint64_t, std::span<const std::byte> bytes) const override {
    PENSTOCK_TRY(check_hdf5_block(bytes, addresses_.sums, "a B-tree's node"));
    return bytes.size();
  }

 private:
  result<hdf5_lookup> look_up(const hdf5_chunk_coordinates& place, nodes& among, hdf5_search_hint& hint,
                              hdf5_chunk_place& out) const override {
    if (hint.next < hint.entries && compare(hint.node, hint.begin + hint.next * tree_.form().bytes, place) == 0) {
      take(hint.node, hint.begin + hint.next++ * tree_.form().bytes, out);
      return hdf5_lookup::present;
    }
    hdf5_record_tree::child at{tree_.root(), tree_.root_count()};
    std::uint64_t node = 0;
    for (std::uint64_t depth = tree_.depth();; --depth) {
      PENSTOCK_ASSIGN(const std::uint64_t length, tree_.node_bytes(at.count, depth));
      PENSTOCK_ASSIGN(const auto bytes, among.find(node, at.address, length));
      if (!bytes) return hdf5_lookup::waits;
      hdf5_cursor cursor(*bytes);
      PENSTOCK_TRY(tree_.check_prefix(cursor, depth));
      const std::uint64_t begin = bytes->size() - cursor.left();
      // The first record that is not before the chunk.
      std::uint64_t low = 0, high = at.count;
      while (low != high) {
        const std::uint64_t middle = low + (high - low) / 2;
        if (compare(*bytes, begin + middle * tree_.form().bytes, place) < 0)
          low = middle + 1;
        else
          high = middle;
      }
      const std::uint64_t found = begin + low * tree_.form().bytes;
      const bool is_here = low != at.count && compare(*bytes, found, place) == 0;
      if (is_here) take(*bytes, found, out);
      if (depth == 0) hint = {*bytes, is_here ? low + 1 : low, at.count, 0, begin};
      if (is_here) return hdf5_lookup::present;
      if (depth == 0) return hdf5_lookup::absent;
      hdf5_cursor pointers = from(*bytes, begin + at.count * tree_.form().bytes + low * tree_.pointer_bytes(depth));
      at = tree_.take_child(pointers, depth);
      node = name_of(kind::tree, at.address);
    }
  }

  void take(std::span<const std::byte> node, std::uint64_t at, hdf5_chunk_place& out) const noexcept {
    hdf5_cursor cursor = from(node, at);
    out = record_.value.take(cursor, grid_.chunk_bytes());
  }

  int compare(std::span<const std::byte> node, std::uint64_t record,
              const hdf5_chunk_coordinates& place) const noexcept {
    hdf5_cursor cursor = from(node, record + record_.value.bytes);
    for (std::size_t d = 0; d < grid_.rank(); ++d) {
      const std::uint64_t key = cursor.number(8);
      if (key != place[d]) return key < place[d] ? -1 : 1;
    }
    return 0;
  }

  hdf5_chunk_record record_;
  hdf5_record_tree tree_;
};

/// The common part of both kinds of arrays: elements that follow each other in a block.
class array_index : public hdf5_chunk_index {
 protected:
  array_index(const hdf5_file& file, hdf5_chunk_grid grid, const hdf5_array_element& element)
      : hdf5_chunk_index(file, std::move(grid)), element_(element) {}

  // The element with this number, if the last search read its neighbours.
  bool take_near(std::uint64_t number, const hdf5_search_hint& hint, hdf5_chunk_place& out) const noexcept {
    if (number < hint.first || number - hint.first >= hint.entries) return false;
    take(hint.node, hint.begin + (number - hint.first) * element_.bytes, out);
    return true;
  }

  /// \param elements  In `block` from `begin` on; the first one has the number `first`.
  hdf5_lookup take(std::span<const std::byte> block, std::uint64_t begin, std::uint64_t first, std::uint64_t elements,
                   std::uint64_t number, hdf5_search_hint& hint, hdf5_chunk_place& out) const noexcept {
    hint = {block, 0, elements, first, begin};
    take(block, begin + (number - first) * element_.bytes, out);
    return hdf5_lookup::present;
  }

 private:
  void take(std::span<const std::byte> block, std::uint64_t at, hdf5_chunk_place& out) const noexcept {
    hdf5_cursor cursor = from(block, at);
    out = element_.take(cursor, grid_.chunk_bytes());
  }

  hdf5_array_element element_;
};

class fixed_array_index final : public array_index {
 public:
  fixed_array_index(const hdf5_file& file, hdf5_chunk_grid grid, const hdf5_fixed_array& array)
      : array_index(file, std::move(grid), array.element), array_(array) {}

  result<std::size_t> check(std::uint64_t node, std::span<const std::byte> bytes) const override {
    PENSTOCK_TRY(check_hdf5_block(bytes, addresses_.sums, "a part of a fixed array"));
    if (node == 0) PENSTOCK_TRY(array_.check_block(bytes));
    return bytes.size();
  }

 private:
  result<hdf5_lookup> look_up(const hdf5_chunk_coordinates& place, nodes& among, hdf5_search_hint& hint,
                              hdf5_chunk_place& out) const override {
    const std::uint64_t number = grid_.number_of(place);
    if (take_near(number, hint, out)) return hdf5_lookup::present;
    if (number >= array_.count) return hdf5_lookup::absent;
    PENSTOCK_ASSIGN(const auto block, among.find(0, array_.block, array_.block_bytes));
    if (!block) return hdf5_lookup::waits;
    if (array_.pages == 0) return take(*block, array_.prefix_bytes, 0, array_.count, number, hint, out);
    const std::uint64_t page = number >> array_.page_bits;
    if (!hdf5_fixed_array::is_written(block->subspan(static_cast<std::size_t>(array_.prefix_bytes)), page))
      return hdf5_lookup::absent;
    std::uint64_t address = 0;
    if (!array_.find_page(page, address)) return hdf5_damaged("a fixed array exceeds the file");
    const std::uint64_t elements = array_.elements_of(page);
    PENSTOCK_ASSIGN(const auto stored, among.find(name_of(kind::page, address), address,
                                                  elements * array_.element.bytes + kHdf5ChecksumBytes));
    if (!stored) return hdf5_lookup::waits;
    return take(*stored, 0, page << array_.page_bits, elements, number, hint, out);
  }

  hdf5_fixed_array array_;
};

class extensible_array_index final : public array_index {
 public:
  extensible_array_index(const hdf5_file& file, hdf5_chunk_grid grid, const hdf5_extensible_array& array)
      : array_index(file, std::move(grid), array.element), array_(array) {}

  result<std::size_t> check(std::uint64_t node, std::span<const std::byte> bytes) const override {
    PENSTOCK_TRY(check_hdf5_block(bytes, addresses_.sums, "a part of an extensible array"));
    hdf5_cursor cursor(bytes);
    if (node == 0) {
      PENSTOCK_TRY(array_.check_prefix(cursor, "EAIB"));
    } else if (kind_of(node) != kind::page) {
      PENSTOCK_TRY(array_.check_prefix(cursor, kind_of(node) == kind::super_block ? "EASB" : "EADB"));
    }
    return bytes.size();
  }

 private:
  /// The data block of an element.
  struct data_block {
    std::uint64_t u = 0;       ///< number of its super block
    std::uint64_t before = 0;  ///< number of data blocks before it that are listed in the index block
    std::uint64_t which = 0;   ///< number within its super block
    std::uint64_t element = 0;
  };

  std::optional<data_block> block_of(std::uint64_t number) const noexcept {
    data_block out;
    std::uint64_t left = number - array_.index_elements;
    for (; out.u < array_.super_blocks; ++out.u) {
      const std::uint64_t blocks = array_.blocks_of(out.u), elements = array_.elements_of(out.u);
      if (left / elements < blocks) {
        out.which = left / elements;
        out.element = left % elements;
        return out;
      }
      left -= blocks * elements;
      out.before += blocks;
    }
    return std::nullopt;
  }

  result<hdf5_lookup> look_up(const hdf5_chunk_coordinates& place, nodes& among, hdf5_search_hint& hint,
                              hdf5_chunk_place& out) const override {
    const std::uint64_t number = grid_.number_of(place);
    if (take_near(number, hint, out)) return hdf5_lookup::present;
    PENSTOCK_ASSIGN(const auto index, among.find(0, array_.index_block, array_.index_block_bytes()));
    if (!index) return hdf5_lookup::waits;
    if (number < array_.index_elements)
      return take(*index, array_.prefix_bytes, 0, array_.index_elements, number, hint, out);
    const auto block = block_of(number);
    if (!block) return hdf5_lookup::absent;
    const std::uint64_t names = array_.prefix_bytes + array_.index_elements * array_.element.bytes;
    std::uint64_t address = 0;
    std::span<const std::byte> bitmap;
    if (block->u < array_.direct) {
      address = pointer(*index, names + (block->before + block->which) * array_.offset_bytes);
    } else {
      const std::uint64_t direct_blocks = 2 * (array_.pointers - 1);
      const std::uint64_t super =
          pointer(*index, names + (direct_blocks + block->u - array_.direct) * array_.offset_bytes);
      if (addresses_.undefined(super)) return hdf5_lookup::absent;
      PENSTOCK_ASSIGN(const std::uint64_t bytes, array_.super_block_bytes(block->u));
      PENSTOCK_ASSIGN(const auto stored, among.find(name_of(kind::super_block, super), super, bytes));
      if (!stored) return hdf5_lookup::waits;
      const std::uint64_t begin = array_.prefix_bytes + array_.place_bytes;
      const std::uint64_t bits = array_.blocks_of(block->u) * ceil_div(array_.pages_of(block->u), 8);
      bitmap = stored->subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(bits));
      address = pointer(*stored, begin + bits + block->which * array_.offset_bytes);
    }
    if (addresses_.undefined(address)) return hdf5_lookup::absent;
    const std::uint64_t pages = array_.pages_of(block->u);
    if (pages == 0) {
      PENSTOCK_ASSIGN(const auto stored,
                      among.find(name_of(kind::data_block, address), address, array_.data_block_bytes(block->u)));
      if (!stored) return hdf5_lookup::waits;
      return take(*stored, array_.prefix_bytes + array_.place_bytes, number - block->element,
                  array_.elements_of(block->u), number, hint, out);
    }
    const std::uint64_t page = block->element >> array_.page_bits, bit = block->which * pages + page;
    if (bit / 8 >= bitmap.size()) return hdf5_damaged("an extensible array's page that no super block lists");
    if (!hdf5_fixed_array::is_written(bitmap, bit)) return hdf5_lookup::absent;
    const std::uint64_t at = address + array_.data_block_bytes(block->u) + page * array_.page_bytes();
    PENSTOCK_ASSIGN(const auto stored, among.find(name_of(kind::page, at), at, array_.page_bytes()));
    if (!stored) return hdf5_lookup::waits;
    const std::uint64_t elements = std::uint64_t{1} << array_.page_bits;
    return take(*stored, 0, number - block->element + page * elements, elements, number, hint, out);
  }

  std::uint64_t pointer(std::span<const std::byte> block, std::uint64_t at) const noexcept {
    return from(block, at).number(array_.offset_bytes);
  }

  hdf5_extensible_array array_;
};

/// Chunks that follow each other: nothing has to be read.
class implicit_index final : public hdf5_chunk_index {
 public:
  implicit_index(const hdf5_file& file, hdf5_chunk_grid grid, std::uint64_t first)
      : hdf5_chunk_index(file, std::move(grid)), first_(first) {}

  result<std::size_t> check(std::uint64_t, std::span<const std::byte>) const override {
    return error(errc::internal, "implicit places of chunks have no index");
  }

 private:
  result<hdf5_lookup> look_up(const hdf5_chunk_coordinates& place, nodes&, hdf5_search_hint&,
                              hdf5_chunk_place& out) const override {
    const std::uint64_t number = grid_.number_of(place);
    if (number >= grid_.numbers()) return hdf5_lookup::absent;
    out = {first_ + number * grid_.chunk_bytes(), grid_.chunk_bytes(), 0};
    return hdf5_lookup::present;
  }

  std::uint64_t first_;
};

result<std::shared_ptr<hdf5_chunk_index>> open_by(hdf5_file& file, const hdf5_layout& layout, hdf5_chunk_grid grid) {
  using made = std::shared_ptr<hdf5_chunk_index>;
  switch (layout.by) {
    case hdf5_layout::index::btree_1:
      return made(std::make_shared<btree_1_index>(file, std::move(grid), layout.address));
    case hdf5_layout::index::btree_2: {
      hdf5_chunk_record record;
      const auto check = [&](const hdf5_record_form& form) {
        return record.check(form, file.offset_bytes(), grid.rank());
      };
      PENSTOCK_ASSIGN(hdf5_record_tree tree, hdf5_record_tree::read(file, layout.address, check));
      if (file.undefined(tree.root())) return made();
      return made(std::make_shared<btree_2_index>(file, std::move(grid), record, std::move(tree)));
    }
    case hdf5_layout::index::fixed_array: {
      PENSTOCK_ASSIGN(const hdf5_fixed_array array, hdf5_fixed_array::read(file, layout.address, grid.numbers()));
      if (file.undefined(array.block)) return made();
      return made(std::make_shared<fixed_array_index>(file, std::move(grid), array));
    }
    case hdf5_layout::index::extensible_array: {
      PENSTOCK_ASSIGN(const hdf5_extensible_array array, hdf5_extensible_array::read(file, layout.address));
      if (file.undefined(array.index_block)) return made();
      return made(std::make_shared<extensible_array_index>(file, std::move(grid), array));
    }
    case hdf5_layout::index::implicit:
      PENSTOCK_TRY(check_implicit_chunks(file, layout.address, grid));
      return made(std::make_shared<implicit_index>(file, std::move(grid), layout.address));
    case hdf5_layout::index::single:
      return made();
  }
  return made();
}

}  // namespace

result<std::shared_ptr<const hdf5_chunk_index>> hdf5_chunk_index::open(hdf5_file& file, const hdf5_shape& shape,
                                                                       const hdf5_layout& layout, std::size_t filters) {
  using made = std::shared_ptr<const hdf5_chunk_index>;
  // The nodes of an index are read from the stored bytes.
  if (file.undefined(layout.address) || file.size() >> kAddressBits != 0 || file.has_cache_image()) return made();
  PENSTOCK_ASSIGN(hdf5_chunk_grid grid, hdf5_chunk_grid::make(shape, layout, true));
  auto opened = open_by(file, layout, std::move(grid));
  if (!opened.ok())
    return std::move(opened).error().note(fmt::format("in the chunk index at address {}", layout.address));
  if (!*opened) return made();
  (*opened)->address_ = layout.address;
  (*opened)->all_filters_ = (std::uint64_t{1} << filters) - 1;  // at most 32
  (*opened)->raw_edges_ = layout.raw_edges;
  return made(std::move(*opened));
}

result<hdf5_lookup> hdf5_chunk_index::find(cell_id cell, const index_lookup& known, hdf5_search_hint& hint,
                                           hdf5_chunk_place& out, index_request& missing) const {
  hdf5_chunk_coordinates place{};
  grid_.coordinates(cell, place);
  nodes among(addresses_, known, missing);
  auto found = look_up(place, among, hint, out);
  if (!found.ok()) return std::move(found).error().note(fmt::format("in the chunk index at address {}", address_));
  if (among.failed()) return hdf5_lookup::absent;
  if (*found != hdf5_lookup::present) return found;
  if (addresses_.undefined(out.address) || out.length == 0) return hdf5_lookup::absent;
  std::uint64_t end = 0;
  if (!checked_add(addresses_.base, out.address, out.address) || !checked_add(out.address, out.length, end) ||
      end > addresses_.size) {
    return hdf5_damaged(fmt::format("{} bytes of a chunk at byte {} exceed the file of {} bytes", out.length,
                                    out.address, addresses_.size));
  }
  out.mask = raw_edges_ && grid_.is_cut(place) ? all_filters_ : out.mask & all_filters_;
  return found;
}

result<index_ptr> hdf5_chunk_index::parse(const index_request& request, std::span<const std::byte> bytes,
                                          std::uint64_t file_size) const {
  if (file_size != byte_range::kAll && file_size != addresses_.size)
    return hdf5_damaged(fmt::format("the file has {} bytes, and had {}", file_size, addresses_.size));
  if (bytes.size() != request.range.length)
    return hdf5_damaged(fmt::format("{} bytes of its chunk index are {}", request.range.length, bytes.size()));
  PENSTOCK_ASSIGN(const std::size_t kept, check(request.key.node, bytes));
  return index_ptr(std::make_shared<node_block>(request.range.length, bytes.first(kept)));
}

}  // namespace penstock::inline v0
