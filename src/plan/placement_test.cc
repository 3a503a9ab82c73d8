#include "plan/placement.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "codec/codec_chain.h"

namespace penstock::inline v0 {
namespace {

// A layout that only has a grid and a chain: placing needs no more.
class grid_layout final : public chunk_layout {
 public:
  grid_layout(const extents& shape, const extents& chunk) : grid_(chunk_grid::regular(shape, chunk).value()) {
    const std::vector<codec_config> codecs{{"bytes", json(json::object_t{{"endian", "little"}})}};
    chains_.push_back(codec_chain::compile(codecs, dtype(dtype_kind::signed_integer, 32), chunk).value());
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

TEST(Gather, PutsBackWhatADecodeScattered) {
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
      if (!place(from, cell, where)) continue;
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
  ASSERT_TRUE(place(from, 0, where));
  std::vector<std::int32_t> items(4, -1);
  gather(from, where, reinterpret_cast<std::byte*>(items.data()), layout.chains()[0]);
  EXPECT_EQ(items, (std::vector<std::int32_t>{-1, 7, -1, 7}));
}

TEST(WholeCell, CountsOnlyWhatLiesInsideTheArray) {
  const grid_layout layout({5, 5}, {2, 3});
  std::vector<std::int32_t> memory(25);
  const auto whole = [&](const strided_box& box, cell_id cell) {
    const source from = source_for(layout, box, memory);
    placement where;
    EXPECT_TRUE(place(from, cell, where));
    return is_whole_cell(from, cell, where);
  };
  const strided_box all{{0, 1, 5}, {0, 1, 5}};
  for (cell_id cell = 0; cell < 6; ++cell) EXPECT_TRUE(whole(all, cell)) << cell;
  EXPECT_TRUE(whole({{4, -1, 5}, {4, -1, 5}}, 5));  // backwards is whole too
  EXPECT_FALSE(whole({{0, 2, 3}, {0, 1, 5}}, 0));
  EXPECT_TRUE(whole({{0, 2, 3}, {0, 1, 5}}, 4));  // the last row of chunks has one row inside the array
  EXPECT_FALSE(whole({{0, 1, 5}, {1, 1, 4}}, 0));
}

}  // namespace
}  // namespace penstock::inline v0
