#include "format/raw/raw_layout.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock::inline v0 {
namespace {

class no_indexes final : public index_lookup {
 public:
  const index_entry* find(const index_key&) const override { return nullptr; }
};

std::shared_ptr<const raw_layout> make(const extents& shape, std::size_t axis, std::vector<raw_part> parts,
                                       storage_order order, std::uint64_t block_bytes) {
  return raw_layout::make({*dtype::from_name("uint8"), {}, order, shape, axis}, std::move(parts), block_bytes).value();
}

// For each byte of the files, whether a cell names it: every one must be named once.
void expect_each_byte_once(const raw_layout& layout, std::uint64_t header) {
  std::vector<std::vector<int>> seen;
  std::uint64_t row = 1;
  for (std::size_t d = 0; d < layout.grid().rank(); ++d) row *= layout.grid().axis(d).extent();
  std::uint64_t rows = 0;
  for (const raw_part& one : layout.parts()) rows += one.length;
  row /= rows;
  for (const raw_part& one : layout.parts()) seen.emplace_back(static_cast<std::size_t>(header + one.length * row), 0);
  std::vector<index_request> missing;
  for (cell_id cell = 0; cell < layout.grid().cells(); ++cell) {
    chunk_extent found;
    ASSERT_TRUE(layout.locate({&cell, 1}, no_indexes(), {&found, 1}, missing).ok());
    ASSERT_EQ(found.range.length, layout.chains()[found.chain].decoded_bytes());
    std::vector<int>& file = seen[static_cast<std::size_t>(found.object)];
    ASSERT_LE(found.range.offset + found.range.length, file.size());
    for (std::uint64_t i = 0; i < found.range.length; ++i) ++file[static_cast<std::size_t>(found.range.offset + i)];
  }
  for (const auto& file : seen)
    for (std::size_t i = 0; i < file.size(); ++i) ASSERT_EQ(file[i], i < header ? 0 : 1) << i;
}

TEST(RawLayout, NamesEachByteOfEachFileOnce) {
  const std::vector<std::uint64_t> lengths{5, 1, 0, 9, 8, 17, 3};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    for (const storage_order order : {storage_order::c, storage_order::fortran}) {
      for (const std::uint64_t block : {1U, 7U, 40U, 100U, 100000U}) {
        extents shape{4, 6, 5};
        shape[axis] = 43;
        std::vector<raw_part> parts;
        for (const std::uint64_t length : lengths) parts.push_back({"f", length, 10, {}});
        expect_each_byte_once(*make(shape, axis, parts, order, block), 10);
      }
    }
  }
}

TEST(RawLayout, OfManyLengthsHasFewChains) {
  std::vector<raw_part> parts;
  std::uint64_t total = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    parts.push_back({"f", i + 1, 0, {}});
    total += i + 1;
  }
  const auto layout = make({total, 3}, 0, parts, storage_order::c, std::uint64_t{1} << 30);
  EXPECT_LE(layout->chains().size(), 64U);
  EXPECT_EQ(layout->write_grid().cells(), 20000U);
}

TEST(RawLayout, NamesTheVersionThatAFileHad) {
  version seen;
  seen.word[0] = 7;
  const auto layout = make({3}, 0, {{"empty", 0, 0, {}}, {"full", 3, 0, seen}}, storage_order::c, 0);
  EXPECT_EQ(layout->expected(0), seen);
  std::string key;
  layout->key(0, key);
  EXPECT_EQ(key, "full");
}

TEST(RawLayout, HasFinerCellsOfTheSameFilesWhereItsOwnAreLong) {
  const std::vector<raw_part> parts{{"a", 1'000'000, 10, {}}, {"b", 2'000'000, 10, {}}};
  for (const storage_order order : {storage_order::c, storage_order::fortran}) {
    const auto layout = make({3'000'000, 2}, 0, parts, order, 0);
    const auto* const finer = dynamic_cast<const raw_layout*>(layout->finer());
    ASSERT_NE(finer, nullptr);
    EXPECT_EQ(layout->finer(), finer) << "it is made once";
    EXPECT_GE(finer->grid().cells(), 100 * layout->grid().cells());
    EXPECT_EQ(finer->write_grid(), layout->write_grid());
    expect_each_byte_once(*finer, 10);
  }
  EXPECT_EQ(make({3'000'000, 2}, 0, parts, storage_order::c, 8192)->finer(), nullptr) << "they are short already";
}

TEST(RawLayout, OfNoElementsHasNoCell) {
  const auto layout = make({0, 3}, 0, {{"empty", 0, 0, {}}}, storage_order::c, 0);
  EXPECT_EQ(layout->grid().cells(), 0U);
}

TEST(RawLayout, RefusesSizesThatOverflow) {
  const std::uint64_t big = std::uint64_t{1} << 62;
  const dtype byte = *dtype::from_name("uint8");
  const auto make_one = [&](const extents& shape, std::uint64_t offset) {
    return raw_layout::make({byte, {}, storage_order::c, shape, 0}, {{"f", shape[0], offset, {}}}).error().code();
  };
  EXPECT_EQ(make_one({big, 4}, 0), errc::unsupported);
  EXPECT_EQ(make_one({big}, big), errc::unsupported);
  EXPECT_EQ(raw_layout::make({byte, {}, storage_order::c, {3}, 0}, {{"f", 2, 0, {}}}).error().code(),
            errc::invalid_argument);
}

}  // namespace
}  // namespace penstock::inline v0
