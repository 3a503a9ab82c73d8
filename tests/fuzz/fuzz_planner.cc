// Any extents under any selection: the planner plans every touched cell once, from the bytes that its extent names.

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "array/chunk_grid.h"
#include "codec/codec_chain.h"
#include "fuzz/require.h"
#include "plan/indexed_selection.h"
#include "plan/placement.h"
#include "plan/planner.h"

namespace {

using namespace penstock;

// Returns the input's bytes, then zeros.
class input {
 public:
  input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  std::uint64_t below(std::uint64_t limit) {
    const std::uint64_t low = next(), high = limit > 256 ? next() : 0;
    return (low | high << 8) % limit;
  }

 private:
  std::uint8_t next() { return at_ < size_ ? data_[at_++] : 0; }
  const std::uint8_t* data_;
  std::size_t size_, at_ = 0;
};

struct no_index final : index_block {
  std::uint64_t memory_bytes() const noexcept override { return 0; }
};

// Cells with the extents that the input gives them; each object has an index that must be requested first.
class given_layout final : public chunk_layout {
 public:
  given_layout(input& in, const extents& shape, const extents& chunk)
      : grid_(chunk_grid::regular(shape, chunk).value()) {
    const std::vector<codec_config> codecs{{"bytes", json(json::object_t{{"endian", "little"}})}};
    chain_.push_back(codec_chain::compile(codecs, dtype(dtype_kind::unsigned_integer, 8), chunk).value());
    indexed_ = in.below(2) == 0;
    cells_per_object_ = 1 + in.below(7);
    for (cell_id cell = 0; cell < grid_.cells(); ++cell) {
      chunk_extent extent;
      extent.object = indexed_ ? cell / cells_per_object_ : cell;
      if (indexed_) {
        extent.state = in.below(4) == 0 ? presence::absent : presence::present;
        extent.range = {in.below(4096), 1 + in.below(600), false};
      }
      extents_.push_back(extent);
    }
  }
  const chunk_grid& grid() const override { return grid_; }
  const chunk_grid& write_grid() const override { return grid_; }
  std::span<const codec_chain> chains() const override { return chain_; }
  result<> locate(std::span<const cell_id> cells, const index_lookup& known, std::span<chunk_extent> out,
                  std::vector<index_request>& missing) const override {
    std::set<object_id> asked;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      out[i] = extents_[cells[i]];
      if (!indexed_ || known.find({out[i].object, 0}) != nullptr || !asked.insert(out[i].object).second) continue;
      const std::uint64_t cells_of_it = std::min(cells_per_object_, grid_.cells() - out[i].object * cells_per_object_);
      missing.push_back({{out[i].object, 0}, {0, 64, true}, 64, cells_of_it, 10'000});
    }
    return {};
  }
  result<index_ptr> parse(const index_request&, std::span<const std::byte>, std::uint64_t) const override {
    return index_ptr(std::make_shared<no_index>());
  }
  void key(object_id object, std::string& out) const override { out = std::to_string(object); }
  std::string describe(cell_id cell) const override { return std::to_string(cell); }

  const chunk_extent& extent(cell_id cell) const { return extents_[cell]; }
  bool indexed() const { return indexed_; }

 private:
  chunk_grid grid_;
  std::vector<codec_chain> chain_;
  std::vector<chunk_extent> extents_;
  bool indexed_ = false;
  std::uint64_t cells_per_object_ = 1;
};

class some_store final : public store {
 public:
  store_traits traits() const override { return given; }
  void read(std::span<const byte_read>, completion_sink&, std::stop_token) const override { __builtin_trap(); }
  std::string uri() const override { return "none:"; }
  store_traits given;
};

class known_indexes final : public plan_indexes {
 public:
  const index_entry* find(std::uint32_t, const index_key& key) override {
    const auto at = entries.find(key.object);
    return at == entries.end() ? nullptr : &at->second;
  }
  std::map<object_id, index_entry> entries;
};

// Lists, points or a mask; every one of its points is in the cell that is planned for it.
result<resolved_selection> indexed(input& in, const chunk_grid& grid, std::uint64_t kind) {
  const auto position = [&](std::size_t d) {
    const auto size = static_cast<std::int64_t>(grid.axis(d).extent());
    return static_cast<std::int64_t>(in.below(static_cast<std::uint64_t>(2 * size))) - size;
  };
  if (kind == 1) {
    orthogonal_selection which;
    for (std::size_t d = 0; d < grid.rank(); ++d) {
      if (in.below(3) == 0) {
        which.items.emplace_back(slice{position(d), {}, static_cast<std::int64_t>(1 + in.below(5))});
        continue;
      }
      index_list list;
      for (std::uint64_t count = in.below(9); count != 0; --count) list.push_back(position(d));
      which.items.emplace_back(std::move(list));
    }
    auto made = select(which, grid);
    require(made.ok());
    bool empty = false;
    for (const std::uint64_t each : made->shape) empty = empty || each == 0;
    if (empty) return error(errc::invalid_argument, "nothing to plan");
    return made;
  }
  if (kind == 2) {
    coordinate_selection which;
    which.shape = {1 + in.below(12)};
    which.points.resize(grid.rank());
    for (std::size_t d = 0; d < grid.rank(); ++d)
      for (std::uint64_t i = 0; i < which.shape[0]; ++i) which.points[d].push_back(position(d));
    auto made = select(which, grid);
    require(made.ok());
    return made;
  }
  mask_selection which;
  std::uint64_t elements = 1;
  for (std::size_t d = 0; d < grid.rank(); ++d) {
    which.shape.push_back(grid.axis(d).extent());
    elements *= grid.axis(d).extent();
  }
  which.words.resize((elements + 63) / 64);
  for (std::uint64_t& word : which.words)
    for (int byte = 0; byte < 8; ++byte) word = word << 8 | in.below(256);
  auto made = select(which, grid);
  require(made.ok());
  return made;
}

}  // namespace

extern "C" int run_planner(const std::uint8_t* data, std::size_t size) {
  input in(data, size);
  const std::size_t rank = in.below(4);
  extents shape(rank), chunk(rank);
  strided_box from(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    shape[d] = 1 + in.below(12);
    chunk[d] = 1 + in.below(5);
    const auto start = static_cast<std::int64_t>(in.below(shape[d]));
    const bool down = in.below(2) == 1;
    const auto step = static_cast<std::int64_t>(1 + in.below(6));
    const auto room = down ? start : static_cast<std::int64_t>(shape[d]) - 1 - start;
    from[d] = {start, down ? -step : step, 1 + in.below(static_cast<std::uint64_t>(room / step) + 1)};
  }
  const given_layout layout(in, shape, chunk);
  some_store store;
  store.given.max_gap_bytes = in.below(300);
  store.given.max_length_bytes = 1 + in.below(5000);
  known_indexes known;
  const bool cached = in.below(2) == 1;

  source source;
  source.layout = &layout;
  source.store = &store;
  source.from = from;
  source.to_strides.resize(rank, 1);
  resolved_selection listed;
  if (const std::uint64_t kind = in.below(4); kind != 0) {
    auto made = indexed(in, layout.grid(), kind);
    if (made.ok()) listed = std::move(*made);
    if (listed.indexed) {
      source.from.clear();
      source.indexed = listed.indexed.get();
      source.to_strides.resize(source.indexed->places_axes() ? rank : listed.shape.size(), 1);
    }
  }
  plan_limits limits;
  limits.max_cells = 1 + in.below(40);
  limits.max_index_bytes = 64 * (1 + in.below(4));
  store.given.request_bytes = in.below(300);
  limits.whole_objects = in.below(2) == 1;

  std::map<cell_id, int> wanted;
  placement where;
  for (cell_id cell = 0; cell < layout.grid().cells(); ++cell)
    if (place_cell(source, cell, where)) wanted[cell] = 1;
  if (listed.indexed) require(listed.indexed->cells() == wanted.size());

  planner plans;
  plans.start({&source, 1}, limits);
  require(plans.total_cells() >= wanted.size());
  read_plan piece;
  std::vector<index_request> missing;
  std::uint32_t missing_source = 0;
  for (int round = 0;; ++round) {
    require(round < 10'000);
    const auto outcome = plans.next(known, piece, missing, missing_source);
    require(outcome.ok());
    if (*outcome == planner::outcome::finished) break;
    if (*outcome == planner::outcome::needs_indexes) {
      require(!missing.empty());
      for (const index_request& each : missing) {
        index_entry& entry = known.entries[each.key.object];
        entry.block = std::make_shared<no_index>();
        entry.seen.word[0] = 1;
        entry.cached = cached;
      }
      continue;
    }
    std::uint32_t next_decode = 0;
    for (const fetch_op& op : piece.fetches) {
      const plan_object& object = piece.objects[op.object];
      if (op.decode_count != 0) require(op.first_decode == next_decode);
      next_decode += op.decode_count;
      const bool is_object = op.what == request::object;
      require((op.what == request::data || is_object) == (op.decode_count != 0));
      if (is_object) require(limits.whole_objects && op.range.whole() && op.fill_count == 0);
      std::uint64_t useful = 0;
      for (std::uint32_t i = op.first_decode; i < op.first_decode + op.decode_count; ++i) {
        const decode_op& decode = piece.decodes[i];
        const chunk_extent& extent = layout.extent(decode.cell);
        require(--wanted[decode.cell] == 0);
        require(extent.object == object.object);
        if (is_object) continue;  // indexes that the input does not have count as absent
        require(extent.state != presence::absent);
        useful += decode.length;
        if (op.range.whole()) {
          require(op.decode_count == 1 && !layout.indexed());
          continue;
        }
        require(op.range.offset + decode.offset == extent.range.offset && decode.length == extent.range.length);
        require(decode.offset + decode.length <= op.range.length);
      }
      if (op.decode_count > 1 && !is_object) {
        require(op.range.length <= store.given.max_length_bytes);
        const std::uint64_t holes = useful >= op.range.length ? 0 : op.range.length - useful;
        require(holes * 8 <= op.range.length || holes <= store.given.request_bytes * (op.decode_count - 1));
      }
      for (std::uint32_t i = op.first_fill; i < op.first_fill + op.fill_count; ++i) {
        require(--wanted[piece.fills[i].cell] == 0);
        require(layout.extent(piece.fills[i].cell).state == presence::absent);
        require(!cached || op.what != request::none);  // fills that depend on a cached index wait for a request
      }
      if (layout.indexed() && op.what != request::none && !is_object) require(object.expected.known());
    }
    require(next_decode == piece.decodes.size());
  }
  for (const auto& [cell, left] : wanted) require(left == 0);
  return 0;
}
