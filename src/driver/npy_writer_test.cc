#include "driver/npy_writer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include <penstock/array_writer.h>
#include <penstock/create.h>
#include "format/npy/npy_header.h"
#include "store/store_fixture.h"

namespace penstock::inline v0 {
namespace {

namespace fs = std::filesystem;

class NpyWriter : public testing::Test {
 protected:
  NpyWriter() {
    how_.context = context::make().value();
    how_.shape = {4, 3, 5};
    how_.type = *dtype::from_name("int32");
    values_.resize(60);
    std::iota(values_.begin(), values_.end(), -7);
  }
  std::string name() const { return (folder_.path() / "x.npy").string(); }
  static std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string file_of(const std::vector<std::int32_t>& values) const {
    return write_npy_header("'<i4'", storage_order::c, how_.shape) +
           std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof values[0]);
  }
  /// A box of the values, as strides of the whole.
  tensor_view box(const extents& origin, const extents& counts) {
    tensor_view out;
    out.type = how_.type;
    out.extents = counts;
    out.strides = {60, 20, 4};
    out.data = reinterpret_cast<std::byte*>(&values_[origin[0] * 15 + origin[1] * 5 + origin[2]]);
    return out;
  }

  test::temporary_folder folder_;
  create_options how_;
  std::vector<std::int32_t> values_;
};

TEST_F(NpyWriter, WritesAllItemsAtOnce) {
  const auto writer = begin_array(name(), how_).value();
  ASSERT_TRUE(writer->write(extents{0, 0, 0}, box({0, 0, 0}, how_.shape)).ok());
  EXPECT_FALSE(fs::exists(name()));
  EXPECT_FALSE(writer->write(extents{0, 0, 0}, box({0, 0, 0}, how_.shape)).ok());
  ASSERT_TRUE(writer->close().ok());
  EXPECT_EQ(text_of(name()), file_of(values_));
  EXPECT_TRUE(writer->close().ok());
  EXPECT_FALSE(writer->write(extents{0, 0, 0}, box({0, 0, 0}, how_.shape)).ok());
}

TEST_F(NpyWriter, WritesBoxesInAnyOrder) {
  const extents boxes[][2] = {{{2, 0, 0}, {2, 3, 5}}, {{0, 1, 2}, {2, 2, 3}}, {{0, 0, 0}, {1, 1, 5}},
                              {{1, 0, 0}, {1, 1, 5}}, {{0, 1, 0}, {2, 2, 2}}, {{0, 0, 0}, {4, 0, 5}}};
  const auto writer = begin_array(name(), how_).value();
  for (const auto& [origin, counts] : boxes) ASSERT_TRUE(writer->write(origin, box(origin, counts)).ok());
  ASSERT_TRUE(writer->close().ok());
  EXPECT_EQ(text_of(name()), file_of(values_));
}

TEST_F(NpyWriter, UnwrittenItemsAreZero) {
  const auto writer = begin_array(name(), how_).value();
  ASSERT_TRUE(writer->write(extents{1, 1, 1}, box({1, 1, 1}, {1, 2, 3})).ok());
  ASSERT_TRUE(writer->close().ok());
  std::vector<std::int32_t> expected(60);
  for (const std::size_t at : {21u, 22u, 23u, 26u, 27u, 28u}) expected[at] = values_[at];
  EXPECT_EQ(text_of(name()), file_of(expected));
}

TEST_F(NpyWriter, StoresItemsInTheRequestedByteOrder) {
  how_.dtype_json = R"([["a", ">i2"], ["b", "<i2"]])";
  how_.shape = {2};
  const auto made = create_array(name(), how_);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  how_.overwrite = true;
  const auto writer = begin_array(name(), how_).value();
  std::int16_t items[] = {1, 2, 3, 4};
  ASSERT_TRUE(
      writer->write(extents{0}, tensor_view::contiguous(reinterpret_cast<std::byte*>(items), made->type(), how_.shape))
          .ok());
  ASSERT_TRUE(writer->close().ok());
  EXPECT_EQ(text_of(name()).substr(128), std::string("\0\1\2\0\0\3\4\0", 8));
  EXPECT_NE(text_of(name()).find("'descr': [('a', '>i2'), ('b', '<i2')]"), std::string::npos);
}

TEST_F(NpyWriter, StoresItemsOfAnyTypeUnchanged) {
  how_.dtype_json = R"("<f16")";
  how_.type = dtype::raw(16);
  how_.shape = {2};
  const auto writer = begin_array(name(), how_).value();
  std::vector<std::byte> items(32, std::byte{'x'});
  ASSERT_TRUE(writer->write(extents{0}, tensor_view::contiguous(items.data(), how_.type, how_.shape)).ok());
  ASSERT_TRUE(writer->close().ok());
  EXPECT_EQ(text_of(name()), write_npy_header("'<f16'", storage_order::c, {2}) + std::string(32, 'x'));
}

TEST_F(NpyWriter, KeepsTheOldFileUntilItIsClosed) {
  std::ofstream(name()) << "old";
  EXPECT_EQ(begin_array(name(), how_).error().code(), errc::invalid_argument);
  how_.overwrite = true;
  {
    const auto dropped = begin_array(name(), how_).value();
    ASSERT_TRUE(dropped->write(extents{0, 0, 0}, box({0, 0, 0}, how_.shape)).ok());
    const auto in_boxes = begin_array(name(), how_).value();
    ASSERT_TRUE(in_boxes->write(extents{0, 0, 0}, box({0, 0, 0}, {1, 2, 3})).ok());
    in_boxes->discard();
    EXPECT_FALSE(in_boxes->close().ok() && text_of(name()) != "old");
  }
  EXPECT_EQ(text_of(name()), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(NpyWriter, RefusesOptionsThatNpyFilesLack) {
  const auto refused = [&](auto change) {
    create_options how = how_;
    change(how);
    const auto done = begin_array(name(), how);
    return done.ok() ? std::string() : done.error().message();
  };
  EXPECT_EQ(refused([](create_options& how) { how.chunks = extents{1, 1, 1}; }),
            "'chunks' is an option of Zarr arrays, not of .npy files");
  EXPECT_EQ(refused([](create_options& how) { how.attributes_json = R"({"a": 1})"; }), ".npy files have no attributes");
  EXPECT_EQ(refused([](create_options& how) { how.type = *dtype::from_name("string"); }),
            "items of string cannot be written to a .npy file");
  EXPECT_EQ(refused([](create_options& how) { how.type = *dtype::from_name("bfloat16"); }),
            "items of bfloat16 cannot be written to a .npy file");
  const auto writer = begin_array(name(), how_).value();
  EXPECT_EQ(writer->write(extents{3, 0, 0}, box({0, 0, 0}, {2, 1, 1})).error().code(), errc::out_of_range);
  EXPECT_FALSE(writer->write(extents{0, 0}, box({0, 0, 0}, {2, 1, 1})).ok());
}

}  // namespace
}  // namespace penstock::inline v0
