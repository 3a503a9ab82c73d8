#include "format/zarr/zarr_grid.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock {
namespace {

result<zarr_grid> parsed(std::string_view shapes, const extents& shape) {
  const std::string text =
      R"({"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": )" + std::string(shapes) + "}}";
  result<json> document = json::parse(text);
  EXPECT_TRUE(document.ok()) << text;
  return parse_zarr_grid(*document, shape);
}

std::string refusal(std::string_view shapes, const extents& shape) {
  result<zarr_grid> out = parsed(shapes, shape);
  return out.ok() ? "accepted" : std::string(to_string(out.error().code()));
}

TEST(ZarrGrid, ReadsRunsOfLengths) {
  result<zarr_grid> grid = parsed("[[[3, 2], 4], 5]", {10, 20});
  ASSERT_TRUE(grid.ok()) << grid.error().to_string();
  EXPECT_EQ(grid->chunk, (extents{4, 5}));
  EXPECT_EQ(grid->lengths[0], (std::vector<std::uint64_t>{3, 3, 4}));
  EXPECT_TRUE(grid->lengths[1].empty());
  result<chunk_grid> objects = object_grid(*grid, {10, 20});
  ASSERT_TRUE(objects.ok());
  EXPECT_EQ(objects->axis(0).cells(), 3u);
  EXPECT_EQ(objects->axis(0).origin(2), 6u);
  EXPECT_EQ(objects->axis(1).cells(), 4u);
  EXPECT_EQ(write_zarr_grid(*grid).find("configuration")->find("chunk_shapes")->dump(), "[[[3,2],4],5]");
}

TEST(ZarrGrid, TakesEqualLengthsAsOneAndChunksBehindTheEnd) {
  result<zarr_grid> grid = parsed("[[[4, 1000000000000]], [2, 3, 50]]", {10, 4});
  ASSERT_TRUE(grid.ok()) << grid.error().to_string();
  EXPECT_TRUE(grid->lengths[0].empty());
  result<chunk_grid> objects = object_grid(*grid, {10, 4});
  ASSERT_TRUE(objects.ok());
  EXPECT_EQ(objects->cells(), 3u * 2u);
}

TEST(ZarrGrid, RefusesWhatDoesNotCoverTheArrayOrCostsTooMuch) {
  EXPECT_EQ(refusal("[[3, 2]]", {6}), "corrupt_data");
  EXPECT_EQ(refusal("[[3, 2]]", {5}), "accepted");
  EXPECT_EQ(refusal("[[]]", {0}), "corrupt_data");
  EXPECT_EQ(refusal("[[3, 0]]", {3}), "corrupt_data");
  EXPECT_EQ(refusal("[[3, [2]]]", {3}), "corrupt_data");
  EXPECT_EQ(refusal("[[3, \"2\"]]", {3}), "corrupt_data");
  EXPECT_EQ(refusal("[3, 3]", {3}), "corrupt_data");
  EXPECT_EQ(refusal("[[2, [1, 1000000000000]]]", {3}), "unsupported");
  EXPECT_EQ(refusal("[[9223372036854775807, 9223372036854775807, 9223372036854775807]]", {3}), "unsupported");
}

}  // namespace
}  // namespace penstock
