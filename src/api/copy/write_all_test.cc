#include <penstock/save.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <penstock/create.h>
#include <penstock/open.h>
#include <penstock/tiff_writer.h>
#include "store/memory_store.h"

namespace penstock::inline v0 {
namespace {

const dtype kType(dtype_kind::unsigned_integer, 16);

std::vector<std::uint16_t> numbers(const extents& shape) {
  std::vector<std::uint16_t> out(element_count(shape).value());
  std::iota(out.begin(), out.end(), std::uint16_t{1});
  return out;
}

/// Records boxes; stores what is written in C order.
class recorder final : public array_writer {
 public:
  explicit recorder(extents shape, extents block = {}) : shape_(std::move(shape)), block_(std::move(block)) {
    values.resize(element_count(shape_).value());
  }
  extents block() const override { return block_; }
  result<> write(std::span<const std::uint64_t> origin, const tensor_view& from) override {
    boxes.push_back({extents(origin), from.extents});
    type = from.type;
    const std::size_t rank = shape_.size();
    for (extents at(rank, 0);;) {
      std::uint64_t to = 0;
      std::int64_t offset = 0;
      for (std::size_t d = 0; d < rank; ++d) {
        to = to * shape_[d] + origin[d] + at[d];
        offset += static_cast<std::int64_t>(at[d]) * from.strides[d];
      }
      std::memcpy(&values[to], from.data + offset, sizeof values[to]);
      ++written;
      std::size_t d = rank;
      while (d > 0 && ++at[d - 1] == from.extents[d - 1]) at[--d] = 0;
      if (d == 0) return {};
    }
  }
  result<> close() override { return {}; }
  void discard() noexcept override {}
  bool closed() const noexcept override { return false; }

  std::vector<box> boxes;
  std::vector<std::uint16_t> values;
  dtype type;
  std::uint64_t written = 0;

 private:
  extents shape_, block_;
};

array zarr_of(const extents& shape, const extents& chunks) {
  create_options how;
  how.context = context::make().value();
  how.path = "a";
  how.shape = shape;
  how.chunks = chunks;
  how.type = kType;
  const array made = create_array(std::make_shared<memory_store>(), how).value();
  std::vector<std::uint16_t> values = numbers(shape);
  EXPECT_TRUE(
      made.write(basic_selection(), tensor_view::contiguous(reinterpret_cast<std::byte*>(values.data()), kType, shape))
          .ok());
  return made;
}

TEST(WriteAll, WritesEachElementOnceWithinTheMemory) {
  const extents shape{7, 30, 41};
  for (const extents& chunks : {extents{1, 30, 41}, extents{7, 4, 5}, extents{3, 11, 41}, extents{7, 30, 41}}) {
    for (const extents& block : {extents{}, extents{1, 8, 41}, extents{7, 16, 41}, extents{16, 41}}) {
      for (const std::uint64_t memory : {1U, 6000U, 20'000U, 0U}) {
        recorder to(shape, block);
        save_options how;
        how.memory_bytes = memory;
        std::uint64_t last = 0;
        how.progress = [&](const read_progress& now) {
          EXPECT_GT(now.done_bytes, last);
          last = now.done_bytes;
          return now.total_bytes == 2 * 7 * 30 * 41;
        };
        const auto done = write_all(zarr_of(shape, chunks), to, how);
        ASSERT_TRUE(done.ok()) << done.error().to_string();
        EXPECT_EQ(to.values, numbers(shape));
        EXPECT_EQ(to.written, to.values.size());
        EXPECT_EQ(last, 2 * to.values.size());
        const extents unit = block.empty() ? extents{1, 1, 1} : block.size() == 2 ? extents{1, 16, 41} : block;
        const std::uint64_t least = 2 * unit[0] * unit[1] * unit[2];
        for (const box& each : to.boxes) {
          for (std::size_t d = 0; d < 3; ++d) {
            EXPECT_EQ(each.origin[d] % unit[d], 0U);
            const std::uint64_t end = each.origin[d] + each.size[d];
            EXPECT_TRUE(end % unit[d] == 0 || end == shape[d]);
          }
          const std::uint64_t bytes = 2 * element_count(each.size).value();
          const bool all = block.empty() && 2 * to.values.size() <= memory;
          if (memory != 0 && !all) {
            EXPECT_LE(bytes, std::max(least, memory / 3));
          }
        }
      }
    }
  }
}

TEST(WriteAll, ReadsWholeChunksIfTheMemorySuffices) {
  const extents shape{40, 40};
  recorder to(shape, {6, 40});
  save_options how;
  how.memory_bytes = 3 * 2 * 40 * 30;  // three blocks of 30 rows
  ASSERT_TRUE(write_all(zarr_of(shape, {10, 40}), to, how).ok());
  ASSERT_EQ(to.boxes.size(), 2U);
  EXPECT_EQ(to.boxes[0].size, (extents{30, 40}));
}

TEST(WriteAll, PassesAllAtOnceToAFormatThatStoresAnyBox) {
  const extents shape{40, 40};
  recorder to(shape);
  ASSERT_TRUE(write_all(zarr_of(shape, {10, 40}), to).ok());
  EXPECT_EQ(to.boxes.size(), 1U);
}

TEST(WriteAll, StopsWhenProgressReturnsFalse) {
  const extents shape{40, 40};
  recorder to(shape, {1, 40});
  save_options how;
  how.memory_bytes = 1000;
  how.progress = [](const read_progress& now) { return now.done_bytes < 500; };
  const auto done = write_all(zarr_of(shape, {10, 40}), to, how);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), errc::cancelled);
  EXPECT_LT(to.written, 40U * 40);
}

TEST(WriteAll, HasNoBlocksForEmptyArraysAndOneForASingleElement) {
  recorder none({0, 5});
  ASSERT_TRUE(write_all(zarr_of({0, 5}, {1, 5}), none).ok());
  EXPECT_TRUE(none.boxes.empty());
  recorder one(extents{});
  ASSERT_TRUE(write_all(zarr_of(extents{}, extents{}), one).ok());
  EXPECT_EQ(one.written, 1U);
}

TEST(WriteAll, WritesRawBytesOfTheSameSizeOnly) {
  recorder to({4});
  save_options how;
  how.type = *dtype::from_name("r16");
  ASSERT_TRUE(write_all(zarr_of({4}, {4}), to, how).ok());
  EXPECT_EQ(to.type, *how.type);
  EXPECT_EQ(to.values, numbers({4}));
  how.type = *dtype::from_name("r32");
  const auto refused = write_all(zarr_of({4}, {4}), to, how);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), errc::unsupported);
}

TEST(WriteAll, WritesMemoryOfAnyStridesInBlocks) {
  const extents shape{3, 20, 10};
  std::vector<std::uint16_t> values = numbers(shape), reversed = values;
  std::reverse(reversed.begin(), reversed.end());
  tensor_view view = tensor_view::contiguous(reinterpret_cast<std::byte*>(&values.back()), kType, shape);
  for (std::int64_t& each : view.strides) each = -each;
  recorder to(shape, {1, 8, 10});
  save_options how;
  how.memory_bytes = 320;
  ASSERT_TRUE(write_all(view, to, how).ok());
  EXPECT_EQ(to.boxes.size(), 6U);
  EXPECT_EQ(to.boxes.front().size, (extents{1, 16, 10}));
  EXPECT_EQ(to.values, reversed);
  EXPECT_EQ(to.written, values.size());
}

TEST(WriteAll, MakesATiffOfAnotherType) {
  const extents shape{2, 50, 33};
  const std::shared_ptr<store> in = std::make_shared<memory_store>();
  for (const bool planar : {false, true}) {
    tiff_create_options tiff;
    tiff.tile_height = tiff.tile_width = 16;
    tiff.planar = planar;
    create_options how;
    how.path = "x.tif";
    how.shape = shape;
    how.type = dtype(dtype_kind::floating, 32);
    how.overwrite = true;
    how.tiff = std::make_shared<const tiff_create_options>(tiff);
    const auto writer = begin_array(in, how).value();
    save_options as;
    as.type = how.type;
    as.memory_bytes = 20'000;
    const auto done = write_all(zarr_of(shape, {1, 20, 33}), *writer, as);
    ASSERT_TRUE(done.ok()) << done.error().to_string();
    ASSERT_TRUE(writer->close().ok());
    open_options where;
    where.path = "x.tif";
    const array made = open_array(std::shared_ptr<const store>(in), where).value();
    std::vector<float> read(2 * 50 * 33);
    ASSERT_TRUE(made.read(tensor_view::contiguous(reinterpret_cast<std::byte*>(read.data()), how.type, shape)).ok());
    const std::vector<std::uint16_t> wanted = numbers(shape);
    EXPECT_TRUE(std::equal(read.begin(), read.end(), wanted.begin(), wanted.end()));
  }
}

}  // namespace
}  // namespace penstock::inline v0
