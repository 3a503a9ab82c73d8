#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <penstock/create.h>
#include <penstock/joined.h>

namespace penstock::inline v0 {
namespace {

class SavedJoin : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("penstock_saved_join_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ / "run");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // An array of `rows` rows of 3 numbers, which begin at `first`.
  array made(const std::string& name, std::uint64_t rows, std::int32_t first) const {
    create_options how;
    how.shape = {rows, 3};
    how.type = *dtype::from_name("int32");
    how.chunks = extents{2, 3};
    const array out = create_array((folder_ / "run" / name).string(), how).value();
    std::vector<std::int32_t> values(rows * 3);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<std::int32_t>(i);
    const auto view = tensor_view::contiguous(reinterpret_cast<std::byte*>(values.data()), out.type(), out.shape());
    EXPECT_TRUE(out.write(basic_selection(), view).ok());
    return out;
  }
  result<array> saved(const std::vector<array>& parts, std::size_t axis) const {
    PENSTOCK_ASSIGN(const std::vector<std::byte> manifest, save_manifest(parts, axis, (folder_ / "run").string()));
    std::ofstream(folder_ / "run/m", std::ios::binary)
        .write(reinterpret_cast<const char*>(manifest.data()), static_cast<std::streamsize>(manifest.size()));
    return open_array((folder_ / "run/m").string());
  }
  static std::vector<std::int32_t> values_of(const array& from) {
    std::vector<std::int32_t> out(*element_count(from.shape()));
    const auto view = tensor_view::contiguous(reinterpret_cast<std::byte*>(out.data()), from.type(), from.shape());
    EXPECT_TRUE(from.read(view).ok());
    return out;
  }

  std::filesystem::path folder_;
};

TEST_F(SavedJoin, OpensAsTheJoin) {
  const std::vector<array> parts = {made("a.zarr", 5, 0), made("b.zarr", 4, 100)};
  const auto again = saved(parts, 0);
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  const array joined = join(parts, 0).value();
  EXPECT_EQ(again->shape(), (extents{9, 3}));
  EXPECT_EQ(again->format(), "joined");
  EXPECT_EQ(values_of(*again), values_of(joined));
  EXPECT_EQ(*again->plan(basic_selection()), *joined.plan(basic_selection()));
}

TEST_F(SavedJoin, MovesWithItsFolder) {
  ASSERT_TRUE(saved({made("a.zarr", 5, 0), made("b.zarr", 4, 100)}, 0).ok());
  std::filesystem::rename(folder_ / "run", folder_ / "moved");
  const auto again = open_array((folder_ / "moved/m").string());
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(values_of(*again)[15], 100);
}

TEST_F(SavedJoin, ArraysThatAPathDoesNotOpenAreRefused) {
  create_options how;
  how.shape = {2, 3};
  how.type = *dtype::from_name("int32");
  const array elsewhere = create_array(make_memory_store(), how).value();
  const auto refused = saved({made("a.zarr", 5, 0), elsewhere}, 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  EXPECT_NE(refused.error().message().find("a manifest cannot describe"), std::string::npos);
  EXPECT_EQ(saved({}, 0).error().code(), errc::invalid_argument);
}

TEST_F(SavedJoin, ChangedOrRemovedArraysAreConflicts) {
  const std::vector<array> parts = {made("a.zarr", 5, 0), made("b.zarr", 4, 100)};
  std::filesystem::remove_all(folder_ / "run/b.zarr");
  EXPECT_EQ(saved(parts, 0).error().code(), errc::conflict);
  made("b.zarr", 7, 0);
  const auto changed = saved(parts, 0);
  ASSERT_FALSE(changed.ok());
  EXPECT_EQ(changed.error().code(), errc::conflict);
  EXPECT_NE(changed.error().message().find("b.zarr"), std::string::npos);
}

}  // namespace
}  // namespace penstock::inline v0
