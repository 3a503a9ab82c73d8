// Views of callers that do not fit: too few strides, no memory.

#include <penstock/array.h>

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include <penstock/appender.h>
#include <penstock/create.h>
#include <penstock/crops.h>
#include <penstock/shard_writer.h>
#include <penstock/store.h>

namespace penstock {
namespace {

array rows_of_four() {
  create_options how;
  how.shape = {10, 4};
  how.type = dtype::from_name("float32").value();
  how.chunks = extents{3, 4};
  return create_array(make_memory_store(), how).value();
}

class ViewCheck : public ::testing::Test {
 protected:
  tensor_view with_strides(const extents& shape, const strides& steps) {
    tensor_view out = tensor_view::contiguous(memory_.data(), a_.type(), shape);
    out.strides = steps;
    return out;
  }
  tensor_view without_memory(const extents& shape) const { return tensor_view::contiguous(nullptr, a_.type(), shape); }
  static void expect_refused(const error& why, const std::string& text) {
    EXPECT_EQ(why.code(), errc::invalid_argument);
    EXPECT_NE(why.to_string().find(text), std::string::npos) << why.to_string();
  }

  const array a_ = rows_of_four();
  std::array<float, 64> memory_{};
};

TEST_F(ViewCheck, AViewHasAStrideForEachDimension) {
  for (const strides& steps : {strides{}, strides{16}, strides{16, 4, 4}}) {
    const tensor_view whole = with_strides({10, 4}, steps), rows = with_strides({2, 4}, steps);
    const std::string text = "each dimension needs a stride";
    expect_refused(a_.read(basic_selection{}, whole).error(), text);
    expect_refused(a_.read_async(basic_selection{}, whole).error(), text);
    expect_refused(a_.write(basic_selection{}, whole).error(), text);
    expect_refused(a_.write_async(basic_selection{}, whole).error(), text);
    expect_refused(a_.append(rows, 0).error(), text);
    auto writer = appender::make(a_, 0);
    ASSERT_TRUE(writer.ok());
    expect_refused(writer->append(rows).error(), text);
    const std::vector<array_crop> crops{{a_, a_.select(basic_selection{}).value()}};
    expect_refused(
        read_crops_async(crops, with_strides({1, 10, 4}, steps.empty() ? steps : strides{160, 16}), {}).error(), text);
  }
}

TEST_F(ViewCheck, AViewWithElementsHasMemory) {
  expect_refused(a_.read(basic_selection{}, without_memory({10, 4})).error(), "out has no memory");
  expect_refused(a_.write(basic_selection{}, without_memory({10, 4})).error(), "the value has no memory");
  const basic_selection none{{slice{0, 0, {}}}};
  EXPECT_TRUE(a_.read(none, without_memory({0, 4})).ok());
  EXPECT_TRUE(a_.write(none, without_memory({0, 4})).ok());
}

TEST_F(ViewCheck, ShardsAreWrittenFromWholeViewsInHostMemory) {
  const std::string folder = ::testing::TempDir() + "view_check";
  save_shards_options how;
  how.rows = 1;
  shard_values values;
  values.items = with_strides({2, 4}, {16});
  expect_refused(save_shards(values, folder + "/x_{}.npy", how).error(), "each dimension needs a stride");
  values.items = with_strides({2, 4}, {16, 4});
  values.items.space = memory_space::cuda;
  expect_refused(save_shards(values, folder + "/x_{}.npy", how).error(), "not in host memory");
  EXPECT_FALSE(std::filesystem::exists(folder));
}

}  // namespace
}  // namespace penstock
