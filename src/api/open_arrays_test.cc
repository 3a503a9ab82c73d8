#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <penstock/create.h>
#include <penstock/joined.h>
#include <penstock/open.h>

namespace {

using namespace penstock;

class OpenArrays : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("penstock_open_arrays_" + std::to_string(::getpid()));
    for (std::uint64_t i = 0; i < 12; ++i) {
      create_options how;
      how.shape = {i + 1, 3};
      how.type = dtype(dtype_kind::unsigned_integer, 16);
      names_.push_back((folder_ / (std::to_string(i) + ".zarr")).string());
      const auto made = create_array(names_.back(), how);
      ASSERT_TRUE(made.ok()) << made.error().to_string();
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
  std::vector<std::string> names_;
};

TEST_F(OpenArrays, KeepTheOrderOfTheirNames) {
  const auto opened = open_arrays(names_);
  ASSERT_TRUE(opened.ok()) << opened.error().to_string();
  ASSERT_EQ(opened->size(), names_.size());
  for (std::size_t i = 0; i < opened->size(); ++i) {
    EXPECT_EQ((*opened)[i].shape()[0], i + 1);
    EXPECT_EQ((*opened)[i].context(), opened->front().context());
  }
  const auto joined = join(*opened, 0);
  ASSERT_TRUE(joined.ok()) << joined.error().to_string();
  EXPECT_EQ(joined->shape(), (extents{78, 3}));
}

TEST_F(OpenArrays, ReportTheFirstThatFails) {
  std::filesystem::remove_all(names_[9]);
  std::filesystem::remove_all(names_[4]);
  const auto opened = open_arrays(names_);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), errc::not_found);
  EXPECT_NE(opened.error().to_string().find("/4.zarr"), std::string::npos) << opened.error().to_string();
}

TEST_F(OpenArrays, NoNamesReturnNoArrays) {
  const auto opened = open_arrays({});
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE(opened->empty());
}

}  // namespace
