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

TEST(ZarrGrid, AcceptsEqualLengthsAsOneAndChunksBeyondTheEnd) {
  result<zarr_grid> grid = parsed("[[[4, 1000000000000]], [2, 3, 50]]", {10, 4});
  ASSERT_TRUE(grid.ok()) << grid.error().to_string();
  EXPECT_TRUE(grid->lengths[0].empty());
  result<chunk_grid> objects = object_grid(*grid, {10, 4});
  ASSERT_TRUE(objects.ok());
  EXPECT_EQ(objects->cells(), 3u * 2u);
}

std::string resized(std::string_view shapes, const extents& shape) {
  const std::string text =
      R"({"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": )" + std::string(shapes) + "}}";
  result<json> out = resized_zarr_grid(*json::parse(text), shape);
  return out.ok() ? out->find("configuration")->find("chunk_shapes")->dump()
                  : std::string(to_string(out.error().code()));
}

// The values are zarr-python 3.4's (RectilinearChunkGridMetadata.update_shape).
TEST(ZarrGrid, GetsOneMoreLengthWhereTheArrayOutgrowsTheListedOnes) {
  EXPECT_EQ(resized("[[2, 5, 3], [6, 6]]", {14, 12}), "[[2,5,3,4],[6,6]]");
  EXPECT_EQ(resized("[[2, 5, 3], [[6, 2]]]", {13, 18}), "[[2,5,[3,2]],[[6,3]]]");
  EXPECT_EQ(resized("[[2, 5, 3], 6]", {3, 100}), "[[2,5,3],6]");
  EXPECT_EQ(resized("[[2, 50]]", {40}), "[[2,50]]");
  EXPECT_EQ(resized("[[2, 0]]", {40}), "corrupt_data");
  EXPECT_EQ(resized("[[2]]", {4, 4}), "corrupt_data");
  const json regular = json::object_t{{"name", "regular"}, {"configuration", json::object_t{}}};
  EXPECT_EQ(*resized_zarr_grid(regular, {4}), regular);
}

TEST(ZarrGrid, RefusesChunksThatDoNotCoverTheArrayOrCostTooMuch) {
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
