#include "format/joined/joined_layout.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

namespace penstock {
namespace {

/// One object for each cell, of one byte an element.
class plain_layout final : public chunk_layout {
 public:
  plain_layout(extents shape, const extents& chunk, std::string name) : name_(std::move(name)) {
    grid_ = *chunk_grid::regular(shape, chunk);
    const std::vector<codec_config> codecs{{"bytes", {}}};
    chains_.push_back(*codec_chain::compile(codecs, *dtype::from_name("uint8"), chunk, {}));
  }
  const chunk_grid& grid() const override { return grid_; }
  const chunk_grid& write_grid() const override { return grid_; }
  std::span<const codec_chain> chains() const override { return chains_; }
  result<> locate(std::span<const cell_id> cells, const index_lookup&, std::span<chunk_extent> out,
                  std::vector<index_request>&) const override {
    for (std::size_t i = 0; i < cells.size(); ++i) out[i] = {presence::unknown, 0, cells[i], {}};
    return {};
  }
  result<index_ptr> parse(const index_request&, std::span<const std::byte>, std::uint64_t) const override {
    return error(errc::internal, "no index");
  }
  void key(object_id object, std::string& out) const override { out = name_ + std::to_string(object); }
  std::string describe(cell_id cell) const override { return "cell " + std::to_string(cell); }

 private:
  std::string name_;
  chunk_grid grid_;
  std::vector<codec_chain> chains_;
};

class no_indexes final : public index_lookup {
 public:
  const index_entry* find(const index_key&) const override { return nullptr; }
};

joined_part part(extents shape, extents chunk, std::string name) {
  return {std::make_shared<plain_layout>(shape, chunk, std::move(name)), "p/"};
}

std::vector<std::string> keys_of(const chunk_layout& layout) {
  std::vector<std::string> out(layout.grid().cells());
  for (cell_id cell = 0; cell < out.size(); ++cell) {
    chunk_extent extent;
    std::vector<index_request> missing;
    EXPECT_TRUE(layout.locate({&cell, 1}, no_indexes(), {&extent, 1}, missing).ok());
    layout.key(extent.object, out[cell]);
  }
  return out;
}

TEST(JoinedLayout, CutsWhereAPartEndsInsideItsLastChunk) {
  const auto made = joined_layout::make({part({5}, {3}, "a"), part({4}, {4}, "b")}, 0);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  const grid_axis& axis = (*made)->grid().axis(0);
  ASSERT_EQ(axis.cells(), 3u);
  EXPECT_EQ(axis.extent(), 9u);
  EXPECT_EQ(axis.origin(1), 3u);
  EXPECT_EQ(axis.valid_length(1), 2u);
  EXPECT_EQ(axis.codec_length(1), 3u);
  EXPECT_EQ(axis.origin(2), 5u);
  EXPECT_EQ(keys_of(**made), (std::vector<std::string>{"p/a0", "p/a1", "p/b0"}));
  EXPECT_EQ((*made)->chains().size(), 2u);
}

TEST(JoinedLayout, StaysUniformWhereEveryPartEndsWithAChunk) {
  const auto made = joined_layout::make({part({6}, {3}, "a"), part({3}, {3}, "b"), part({2}, {3}, "c")}, 0);
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE((*made)->grid().axis(0).is_uniform());
  EXPECT_EQ((*made)->grid().axis(0).extent(), 11u);
  EXPECT_EQ((*made)->chains().size(), 1u);
}

TEST(JoinedLayout, JoinsAlongAnInnerAxis) {
  const auto made = joined_layout::make({part({4, 3}, {2, 2}, "a"), part({4, 2}, {2, 2}, "b")}, 1);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(keys_of(**made), (std::vector<std::string>{"p/a0", "p/a1", "p/b0", "p/a2", "p/a3", "p/b1"}));
}

TEST(JoinedLayout, JoinsJoinedLayouts) {
  const auto inner = joined_layout::make({part({2, 2}, {2, 2}, "a"), part({2, 2}, {2, 2}, "b")}, 1);
  ASSERT_TRUE(inner.ok());
  const auto made = joined_layout::make({{*inner, ""}, part({2, 4}, {2, 2}, "c")}, 0);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  EXPECT_EQ(keys_of(**made), (std::vector<std::string>{"p/a0", "p/b0", "p/c0", "p/c1"}));
}

TEST(JoinedLayout, RefusesPartsThatOneGridCannotHold) {
  const auto chunks = joined_layout::make({part({4, 4}, {2, 2}, "a"), part({4, 4}, {2, 3}, "b")}, 0);
  ASSERT_FALSE(chunks.ok());
  EXPECT_EQ(chunks.error().code(), errc::unsupported);
  const auto shapes = joined_layout::make({part({4, 4}, {2, 2}, "a"), part({4, 5}, {2, 2}, "b")}, 0);
  ASSERT_FALSE(shapes.ok());
  EXPECT_EQ(shapes.error().code(), errc::invalid_argument);
  EXPECT_FALSE(joined_layout::make({}, 0).ok());
}

}  // namespace
}  // namespace penstock
