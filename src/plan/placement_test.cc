#include "plan/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "codec/codec_chain.h"
#include "plan/cell_lists.h"
#include "plan/indexed_selection.h"
#include "support/random_selection.h"

namespace penstock::inline v0 {
namespace {

// A layout with only a grid and a chain, which is sufficient for placements.
class grid_layout final : public chunk_layout {
 public:
  grid_layout(const extents& shape, const extents& chunk, const char* endian = "little", bool transposed = false,
              dtype type = dtype(dtype_kind::signed_integer, 32))
      : grid_(chunk_grid::regular(shape, chunk).value()) {
    std::vector<codec_config> codecs{{"bytes", json(json::object_t{{"endian", endian}})}};
    if (transposed) {
      json::array_t order;
      for (std::size_t d = chunk.size(); d-- > 0;) order.emplace_back(static_cast<std::uint64_t>(d));
      codecs.insert(codecs.begin(), {"transpose", json(json::object_t{{"order", json(order)}})});
    }
    chains_.push_back(codec_chain::compile(codecs, type, chunk).value());
  }
  const chunk_grid& grid() const override { return grid_; }
  const chunk_grid& write_grid() const override { return grid_; }
  std::span<const codec_chain> chains() const override { return chains_; }
  result<> locate(std::span<const cell_id>, const index_lookup&, std::span<chunk_extent>,
                  std::vector<index_request>&) const override {
    return {};
  }
  result<index_ptr> parse(const index_request&, std::span<const std::byte>, std::uint64_t) const override {
    return index_ptr();
  }
  void key(object_id, std::string& out) const override { out.clear(); }
  std::string describe(cell_id) const override { return {}; }

 private:
  chunk_grid grid_;
  std::vector<codec_chain> chains_;
};

source source_for(const grid_layout& layout, const strided_box& box, std::vector<std::int32_t>& memory) {
  source out;
  out.layout = &layout;
  out.from = box;
  extents shape;
  for (const axis_range& each : box) shape.push_back(each.count);
  out.to_strides = c_order_strides(shape, 4);
  out.to = reinterpret_cast<std::byte*>(memory.data());
  return out;
}

axis_range random_range(std::mt19937_64& random, std::uint64_t size) {
  const auto start = static_cast<std::int64_t>(random() % size);
  const bool down = random() % 2 == 0;
  const auto step = static_cast<std::int64_t>(1 + random() % 3);
  const std::int64_t room = down ? start : static_cast<std::int64_t>(size) - 1 - start;
  return {start, down ? -step : step, 1 + random() % (static_cast<std::uint64_t>(room / step) + 1)};
}

TEST(Gather, IsTheReverseOfAScatter) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 300; ++round) {
    const extents shape{1 + random() % 9, 1 + random() % 9}, chunk{1 + random() % 4, 1 + random() % 4};
    const grid_layout layout(shape, chunk);
    const strided_box box{random_range(random, shape[0]), random_range(random, shape[1])};
    std::vector<std::int32_t> memory(box[0].count * box[1].count, -1);
    const source from = source_for(layout, box, memory);
    const codec_chain& chain = layout.chains()[0];
    worker_scratch scratch;
    placement where;
    std::size_t seen = 0;
    for (cell_id cell = 0; cell < layout.grid().cells(); ++cell) {
      if (!place_cell(from, cell, where)) continue;
      std::vector<std::int32_t> items(chunk[0] * chunk[1]), back(items.size(), -1);
      std::iota(items.begin(), items.end(), static_cast<std::int32_t>(cell * 100));
      ASSERT_TRUE(chain.decode(std::as_bytes(std::span(items)), where.target, scratch).ok());
      gather(from, where, reinterpret_cast<std::byte*>(back.data()), chain);
      std::size_t wanted = 0;
      for (std::size_t i = 0; i < items.size(); ++i) {
        if (back[i] == -1) continue;
        ASSERT_EQ(back[i], items[i]);
        ++wanted;
      }
      ASSERT_EQ(wanted, where.counts[0] * where.counts[1]);
      seen += wanted;
    }
    EXPECT_EQ(seen, memory.size());
  }
}

TEST(Gather, AStrideOfZeroIsOneValueForAll) {
  const grid_layout layout({4, 4}, {2, 2});
  std::vector<std::int32_t> memory{7};
  source from = source_for(layout, {{0, 1, 4}, {1, 1, 3}}, memory);
  from.to_strides = {0, 0};
  placement where;
  ASSERT_TRUE(place_cell(from, 0, where));
  std::vector<std::int32_t> items(4, -1);
  gather(from, where, reinterpret_cast<std::byte*>(items.data()), layout.chains()[0]);
  EXPECT_EQ(items, (std::vector<std::int32_t>{-1, 7, -1, 7}));
}

TEST(WholeCell, CountsOnlyElementsInsideTheArray) {
  const grid_layout layout({5, 5}, {2, 3});
  std::vector<std::int32_t> memory(25);
  const auto whole = [&](const strided_box& box, cell_id cell) {
    const source from = source_for(layout, box, memory);
    placement where;
    EXPECT_TRUE(place_cell(from, cell, where));
    return is_whole_cell(from, cell, where);
  };
  const strided_box all{{0, 1, 5}, {0, 1, 5}};
  for (cell_id cell = 0; cell < 6; ++cell) EXPECT_TRUE(whole(all, cell)) << cell;
  EXPECT_TRUE(whole({{4, -1, 5}, {4, -1, 5}}, 5));  // backwards is also complete
  EXPECT_FALSE(whole({{0, 2, 3}, {0, 1, 5}}, 0));
  EXPECT_TRUE(whole({{0, 2, 3}, {0, 1, 5}}, 4));  // the last row of chunks has one row inside the array
  EXPECT_FALSE(whole({{0, 1, 5}, {1, 1, 4}}, 0));
}

// A result of any layout: C order, Fortran order, backwards, with gaps.
struct result_memory {
  result_memory(std::mt19937_64& random, const extents& shape, std::uint32_t item) : item_bytes(item) {
    counts = shape;
    by.resize(shape.size());
    const bool fortran = random() % 3 == 0;
    auto stride = static_cast<std::int64_t>(item * (1 + random() % 2));
    for (std::size_t k = 0; k < shape.size(); ++k) {
      const std::size_t d = fortran ? k : shape.size() - 1 - k;
      by[d] = stride;
      stride *= static_cast<std::int64_t>(std::max<std::uint64_t>(shape[d], 1));
    }
    bytes.assign(static_cast<std::size_t>(stride) + item, std::byte{0xEE});
    first = bytes.data();
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (random() % 3 != 0 || shape[d] == 0) continue;
      first += by[d] * static_cast<std::int64_t>(shape[d] - 1);
      by[d] = -by[d];
    }
  }
  std::byte* at(std::uint64_t number) const {
    std::byte* out = first;
    for (std::size_t d = counts.size(); d-- > 0; number /= counts[d])
      out += static_cast<std::int64_t>(number % counts[d]) * by[d];
    return out;
  }
  std::uint32_t item_bytes;
  extents counts;
  strides by;
  std::vector<std::byte> bytes;
  std::byte* first;
};

resolved_selection resolve_for(const grid_layout& layout, const extents& shape, const extents& chunk,
                               const selection& which) {
  resolved_selection out;
  if (const auto* basic = std::get_if<basic_selection>(&which)) {
    static_cast<resolved_basic&>(out) = resolve(*basic, shape).value();
  } else if (const auto* blocks = std::get_if<block_selection>(&which)) {
    static_cast<resolved_basic&>(out) = resolve(*blocks, shape, chunk).value();
  } else if (const auto* orthogonal = std::get_if<orthogonal_selection>(&which)) {
    out = select(*orthogonal, layout.grid()).value();
  } else if (const auto* points = std::get_if<coordinate_selection>(&which)) {
    out = select(*points, layout.grid()).value();
  } else {
    out = select(std::get<mask_selection>(which), layout.grid()).value();
  }
  return out;
}

TEST(Placement, EverySelectionScattersFillsAndGathersAsTheReference) {
  std::mt19937_64 random(11);
  const dtype types[] = {dtype(dtype_kind::unsigned_integer, 8), dtype(dtype_kind::unsigned_integer, 16),
                         dtype(dtype_kind::signed_integer, 32),  dtype(dtype_kind::floating, 64),
                         dtype(dtype_kind::complex, 128),        dtype(dtype_kind::raw, 24)};
  for (int round = 0; round < 6000; ++round) {
    const std::size_t rank = random() % 4;
    extents shape(rank), chunk(rank);
    for (std::size_t d = 0; d < rank; ++d) {
      shape[d] = 1 + random() % 11;
      chunk[d] = 1 + random() % 6;
    }
    const dtype type = types[random() % 6];
    const std::uint32_t item = type.item_bytes();
    const grid_layout layout(shape, chunk, random() % 3 == 0 ? "big" : "little", random() % 3 == 0, type);
    const codec_chain& chain = layout.chains()[0];
    const selection which = test::random_any_selection(random, shape, chunk);
    const resolved_selection resolved = resolve_for(layout, shape, chunk, which);
    const std::vector<std::uint64_t> wanted = test::selected_elements(which, shape, chunk);
    std::uint64_t count = 1;
    for (const std::uint64_t each : resolved.shape) count *= each;
    ASSERT_EQ(count, wanted.size()) << test::to_text(which);
    if (count == 0) continue;

    result_memory memory(random, resolved.shape, item);
    std::vector<std::byte> fill_item(item, std::byte{0x5A});
    source from;
    from.layout = &layout;
    from.from = resolved.from;
    from.to = memory.first;
    from.fill = fill_item.data();
    from.indexed = resolved.indexed.get();
    if (resolved.indexed && !resolved.indexed->places_axes()) {
      from.to_strides = memory.by;
    } else {
      for (const std::int8_t axis : resolved.axis)
        from.to_strides.push_back(axis < 0 ? 0 : memory.by[static_cast<std::size_t>(axis)]);
    }

    // The array in memory: the value of each element is its number.
    const auto cells = layout.grid().cells();
    std::uint64_t volume = 1, elements = 1;
    for (std::size_t d = 0; d < rank; ++d) {
      volume *= chunk[d];
      elements *= shape[d];
    }
    const auto value_of = [&](std::uint64_t element, std::byte* out) {
      for (std::uint32_t i = 0; i < item; ++i) out[i] = static_cast<std::byte>((element + 1) * 37 >> 3 * i);
    };
    const auto for_each_inside = [&](cell_id cell, const auto& each) {
      dim_vector<std::uint64_t> at;
      layout.grid().coordinates(cell, at);
      for (std::uint64_t i = 0; i < volume; ++i) {
        std::uint64_t rest = i, element = 0, scale = 1;
        bool inside = true;
        for (std::size_t d = rank; d-- > 0; rest /= chunk[d]) {
          const std::uint64_t position = at[d] * chunk[d] + rest % chunk[d];
          inside = inside && position < shape[d];
          element += position * scale;
          scale *= shape[d];
        }
        if (inside) each(i, element);
      }
    };
    std::vector<int> in_cell(elements, 0);
    for (const std::uint64_t each : wanted) in_cell[each] = 1;

    worker_scratch scratch;
    placement where;
    std::vector<std::byte> items(volume * item), encoded(chain.max_encoded_bytes()), back(volume * item);
    std::uint64_t touched = 0;
    for (cell_id cell = 0; cell < cells; ++cell) {
      std::uint64_t inside = 0, distinct = 0;
      for_each_inside(cell, [&](std::uint64_t i, std::uint64_t element) {
        value_of(element, items.data() + i * item);
        ++inside;
        distinct += static_cast<std::uint64_t>(in_cell[element]);
      });
      const bool placed = place_cell(from, cell, where);
      ASSERT_EQ(placed, distinct != 0) << test::to_text(which);
      if (!placed) continue;
      ++touched;
      ASSERT_EQ(where.region.covers_cell, where.target.covers_cell);
      ASSERT_EQ(is_whole_cell(from, cell, where), distinct == inside) << test::to_text(which);
      const auto used = chain.encode(tensor_view::contiguous(items.data(), type, chunk), encoded, scratch);
      ASSERT_TRUE(used.ok());
      ASSERT_TRUE(chain.decode(std::span(encoded).first(*used), where.target, scratch).ok());
    }
    std::byte expected[16];
    for (std::uint64_t i = 0; i < count; ++i) {
      value_of(wanted[i], expected);
      ASSERT_EQ(std::memcmp(memory.at(i), expected, item), 0) << i << " of " << test::to_text(which);
    }
    if (resolved.indexed) {
      ASSERT_EQ(resolved.indexed->cells(), touched);
      for (std::uint64_t i = 0; i < touched; ++i) {
        ASSERT_TRUE(place_cell(from, resolved.indexed->cell(i), where));
        ASSERT_TRUE(i == 0 || resolved.indexed->cell(i - 1) < resolved.indexed->cell(i));
      }
    }

    // The other direction: the later of two values for one element is stored, and no other element is changed.
    std::vector<std::uint64_t> last(elements, ~std::uint64_t{0});
    for (std::uint64_t i = 0; i < count; ++i) {
      value_of(i + 1000, memory.at(i));
      last[wanted[i]] = i;
    }
    for (cell_id cell = 0; cell < cells; ++cell) {
      if (!place_cell(from, cell, where)) continue;
      std::fill(back.begin(), back.end(), std::byte{0xCC});
      gather(from, where, back.data(), chain);
      for_each_inside(cell, [&](std::uint64_t i, std::uint64_t element) {
        std::fill_n(expected, item, std::byte{0xCC});
        if (last[element] != ~std::uint64_t{0}) value_of(last[element] + 1000, expected);
        ASSERT_EQ(std::memcmp(back.data() + i * item, expected, item), 0) << test::to_text(which);
      });
    }

    for (cell_id cell = 0; cell < cells; ++cell)
      if (place_cell(from, cell, where)) fill(from, where, chain);
    for (std::uint64_t i = 0; i < count; ++i) ASSERT_EQ(std::memcmp(memory.at(i), fill_item.data(), item), 0);
  }
}

// Groups in the simple way, and compares.
template <class Point, class Number = std::uint64_t>
void check_groups(std::uint64_t cells, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Number> cell_of(count), number_of(count);
  for (std::size_t i = 0; i < count; ++i) {
    cell_of[i] = static_cast<Number>(random() % cells);
    number_of[i] = static_cast<Number>(random() % 1000);
  }
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return cell_of[a] < cell_of[b]; });
  std::vector<Point> points;
  const cell_groups groups = group_by_cell<Point, Number>(cell_of, number_of, cells, points);
  std::size_t group = 0;
  for (std::size_t i = 0; i < count; ++i) {
    while (groups.begin[group + 1] <= i) ++group;
    ASSERT_EQ(groups.cells[group], cell_of[order[i]]);
    ASSERT_EQ(points[i].in_result, order[i]);
    ASSERT_EQ(points[i].in_cell, number_of[order[i]]);
  }
  ASSERT_EQ(groups.find(cells), groups.cells.size());
}

TEST(CellGroups, AreSortedAndKeepTheOrderOfTheResult) {
  for (const std::uint64_t cells : {std::uint64_t{1}, std::uint64_t{7}, std::uint64_t{65536}, std::uint64_t{1} << 40,
                                    (std::uint64_t{1} << 63) - 1}) {
    check_groups<cell_point>(cells, 5000, cells);
    check_groups<wide_point>(cells, 5000, cells + 1);
  }
  check_groups<cell_point, std::uint32_t>(9, 1, 1);
  check_groups<cell_point, std::uint32_t>(1000, 5000, 2);
  check_groups<cell_point, std::uint32_t>(1 << 30, 5000, 3);
}

TEST(AxisSplit, DividesAsTheGridDoes) {
  std::mt19937_64 random(5);
  for (const std::uint64_t extent : {std::uint64_t{1}, std::uint64_t{1000}, (std::uint64_t{1} << 32) - 1,
                                     std::uint64_t{1} << 32, (std::uint64_t{1} << 63) - 1}) {
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t length = i == 0 ? 1 : 1 + (random() >> random() % 64) % extent;
      const grid_axis axis = grid_axis::uniform(extent, length);
      const axis_split split(axis);
      for (int k = 0; k < 50; ++k) {
        std::uint64_t at = random() % extent;
        if (k % 2 == 0) at = std::min(extent - 1, at / length * length + (k % 4 == 0 ? 0 : length - 1));
        ASSERT_EQ(split(at).cell, at / length);
        ASSERT_EQ(split(at).in_cell, at % length);
      }
    }
  }
}

TEST(Selection, SlicesOfHugeArraysNextToListsCostNothing) {
  const auto grid = chunk_grid::regular({std::uint64_t{1} << 40, 10}, {1, 5}).value();
  const auto made = select(orthogonal_selection{{slice{}, index_list{1, 0, 7}}}, grid);
  ASSERT_TRUE(made.ok());
  ASSERT_TRUE(made->indexed);
  EXPECT_EQ(made->indexed->cells(), std::uint64_t{2} << 40);
  EXPECT_EQ(made->indexed->cell((std::uint64_t{2} << 40) - 1), (std::uint64_t{2} << 40) - 1);
  EXPECT_EQ(made->indexed->describe(), "1099511627776 x 3 listed positions");
}

TEST(Selection, EvenlySpacedListsAreBoxes) {
  const auto grid = chunk_grid::regular({100, 10}, {7, 5}).value();
  const auto made = select(orthogonal_selection{{index_list{3, 10, 17, 24}, index_list{-1, -2}}}, grid);
  ASSERT_TRUE(made.ok());
  EXPECT_FALSE(made->indexed);
  EXPECT_EQ(made->from, (strided_box{{3, 7, 4}, {9, -1, 2}}));
  EXPECT_EQ(made->shape, (extents{4, 2}));
}

}  // namespace
}  // namespace penstock::inline v0
