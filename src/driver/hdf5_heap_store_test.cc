#include "driver/hdf5_heap_store.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace penstock::inline v0 {
namespace {

/// Cells with one text, of which `read` returns only as many as it has to.
class large_cells final : public hdf5_variable_cells {
 public:
  const chunk_grid& grid() const override { return grid_; }
  result<std::vector<std::uint64_t>> cells() const override { return all_hdf5_cells(grid_.cells()); }
  bool has(std::uint64_t cell) const override { return cell < grid_.cells(); }
  std::vector<result<cell_bytes>> read(std::span<const hdf5_cell_request> cells) const override {
    std::vector<result<cell_bytes>> out;
    for (std::size_t i = 0; i < std::min<std::size_t>(cells.size(), 1 + calls % 3); ++i) {
      cell_bytes& made = out.emplace_back(cell_bytes()).value();
      append_cell_number(made, cells[i].cell);
      for (std::uint64_t item = 0; item < 70; ++item) needed[cells[i].cell] += cells[i].needs(item) ? 1 : 0;
    }
    ++calls;
    return out;
  }
  store_traits traits() const override {
    store_traits out;
    out.inline_completion = true;
    return out;
  }
  std::string uri() const override { return "memory:"; }

  mutable std::size_t calls = 0;
  mutable std::map<std::uint64_t, std::uint64_t> needed;  // of 70 items, by cell

 private:
  chunk_grid grid_ = chunk_grid::regular({40}, {1}).value();
};

struct all_answers final : completion_sink {
  void complete(std::uint64_t tag, result<read_done> done) override {
    EXPECT_FALSE(found.contains(tag));
    std::uint64_t number = ~std::uint64_t{0};
    if (done.ok()) {
      std::span<const std::byte> bytes = done->bytes;
      number = take_cell_number(bytes);
    }
    found[tag] = number;
  }
  std::map<std::uint64_t, std::uint64_t> found;
};

TEST(Hdf5HeapStore, AnswersEveryReadInSmallBatches) {
  const auto cells = std::make_shared<const large_cells>();
  const hdf5_heap_store store(cells, context::make().value());
  std::vector<std::string> keys;
  for (int i = 0; i < 41; ++i) keys.push_back(std::to_string(i));
  std::vector<byte_read> reads(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    reads[i].key = keys[i];
    reads[i].tag = i;
  }
  all_answers answers;
  store.read(reads, answers, {});
  ASSERT_EQ(answers.found.size(), 41U);
  for (std::uint64_t i = 0; i < 40; ++i) EXPECT_EQ(answers.found[i], i);
  EXPECT_EQ(answers.found[40], ~std::uint64_t{0}) << "not a cell";
  EXPECT_GT(cells->calls, 15U);
}

TEST(Hdf5HeapStore, PassesTheItemsThatAreNeeded) {
  const auto cells = std::make_shared<const large_cells>();
  const hdf5_heap_store store(cells, context::make().value());
  const std::vector<std::uint64_t> some = {5, 1};
  item_read reads[2];
  reads[0].read.key = "7";
  reads[0].items = some;
  reads[1].read.key = "9";
  reads[1].read.tag = 1;
  all_answers answers;
  store.read_items(reads, answers, {});
  EXPECT_EQ(answers.found[0], 7U);
  EXPECT_EQ(answers.found[1], 9U);
  EXPECT_EQ(cells->needed[7], 3U);
  EXPECT_EQ(cells->needed[9], 70U);
}

TEST(Hdf5HeapStore, CancelledReadsAreNotRead) {
  const auto cells = std::make_shared<const large_cells>();
  const hdf5_heap_store store(cells, context::make().value());
  std::stop_source stop;
  stop.request_stop();
  byte_read read;
  read.key = "3";
  all_answers answers;
  store.read({&read, 1}, answers, stop.get_token());
  EXPECT_EQ(answers.found[0], ~std::uint64_t{0});
  EXPECT_EQ(cells->calls, 0U);
}

}  // namespace
}  // namespace penstock::inline v0
