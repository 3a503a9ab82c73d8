#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <penstock/create.h>
#include <penstock/find_shards.h>
#include <penstock/open.h>
#include <penstock/place.h>
#include <penstock/shard_writer.h>
#include <penstock/shards.h>

namespace penstock::inline v0 {
namespace {

class OpenShardFiles : public testing::Test {
 protected:
  OpenShardFiles() {
    std::filesystem::create_directories(folder_);
    create_options how;
    how.shape = {7, 5};
    how.type = dtype::from_name("float32").value();
    array made = create_array(make_memory_store(), how).value();
    values_.resize(35);
    std::iota(values_.begin(), values_.end(), 0.0F);
    const auto written =
        made.write(selection(basic_selection()), tensor_view::contiguous(values_.data(), made.type(), made.shape()));
    EXPECT_TRUE(written.ok()) << written.error().to_string();
    from_ = std::move(made);
  }
  ~OpenShardFiles() override { std::filesystem::remove_all(folder_); }

  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  /// Writes files of 3, 3 and 1 rows.
  void save(const std::string& pattern) {
    save_shards_options how;
    how.rows = 3;
    how.manifest.reset();
    const auto saved = save_shards(*from_, at(pattern), how);
    ASSERT_TRUE(saved.ok()) << saved.error().to_string();
  }
  void write(const std::string& name, std::string_view text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  void copy_seed(const std::string& name) {
    std::filesystem::copy_file(PENSTOCK_SOURCE_DIR "/tests/data/fuzz/hdf5_file/old", folder_ / name);
  }
  void expect_values(const result<array>& opened) {
    ASSERT_TRUE(opened.ok()) << opened.error().to_string();
    std::vector<float> read(values_.size());
    ASSERT_EQ(opened->type(), from_->type());
    std::uint64_t count = 1;
    for (const std::uint64_t each : opened->shape()) count *= each;
    ASSERT_EQ(count, values_.size());
    const auto done = opened->read(tensor_view::contiguous(read.data(), opened->type(), opened->shape()));
    ASSERT_TRUE(done.ok()) << done.error().to_string();
    EXPECT_EQ(read, values_);
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("penstock_open_shard_files_" + std::to_string(::getpid()));
  std::optional<array> from_;
  std::vector<float> values_;
};

TEST_F(OpenShardFiles, OpensEachFormatByAPatternAFolderAndAList) {
  for (const char* ending : {"npy", "raw", "zarr", "npz"}) {
    SCOPED_TRACE(ending);
    save("x_{:d}." + std::string(ending));
    const std::string pattern = at("x_*." + std::string(ending));
    expect_values(open_shards(pattern));
    expect_values(open_array(pattern));
    expect_values(open_array("file://" + pattern));
    std::vector<std::string> names;
    for (int i = 0; i < 3; ++i) names.push_back(at("x_" + std::to_string(i) + "." + ending));
    expect_values(open_shards(std::span<const std::string>(names)));
    std::filesystem::create_directory(folder_ / ending);
    for (int i = 0; i < 3; ++i)
      std::filesystem::rename(names[i], folder_ / ending / std::to_string(i).append(".").append(ending));
    if (std::string(ending) == "raw") std::filesystem::rename(folder_ / "_meta.json", folder_ / "raw" / "_meta.json");
    expect_values(open_shards(at(ending)));
    if (std::string(ending) == "zarr")
      EXPECT_EQ(open(at(ending)).error().code(), errc::not_found) << "its arrays are as those of a group";
    else
      expect_values(open_array(at(ending)));
  }
}

TEST_F(OpenShardFiles, OpensDatasetsAndMembersByTheirPath) {
  copy_seed("a_0.h5");
  copy_seed("a_1.h5");
  const auto one = open_array(at("a_0.h5/x"));
  const auto two = open_array(at("a_*.h5/x"));
  ASSERT_TRUE(one.ok() && two.ok()) << two.error().to_string();
  EXPECT_EQ(two->format(), "hdf5");
  EXPECT_EQ(two->shape()[0], 2 * one->shape()[0]);
  const auto matched = open_array(at("a_0.h5/[x]"));
  ASSERT_TRUE(matched.ok()) << matched.error().to_string();
  EXPECT_EQ(matched->shape(), one->shape());
  EXPECT_EQ(open(at("a_0.h5/[y]")).error().code(), errc::not_found);
  shard_files_options named;
  named.path = "x";
  EXPECT_EQ(open_shards(at("a_*"), named)->shape(), two->shape());
  save("b_{:d}.npz");
  const auto members = open(at("b_*.npz/no"));
  ASSERT_FALSE(members.ok());
  EXPECT_NE(members.error().message().find("3 of 3 files cannot be read: '" + at("b_0.npz")), std::string::npos)
      << members.error().message();
}

TEST_F(OpenShardFiles, OpensFilesOfBothItemOrders) {
  save("x_{:d}.npy");
  // Of 3 rows in Fortran order: the same header but for the order.
  std::ifstream in(folder_ / "x_1.npy", std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const std::size_t order = text.find("False");
  ASSERT_NE(order, std::string::npos);
  text.replace(order, 5, "True ");
  const std::string items = text.substr(text.size() - 60);
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t c = 0; c < 5; ++c)
      text.replace(text.size() - 60 + 4 * (c * 3 + r), 4, items.substr(4 * (r * 5 + c), 4));
  write("x_1.npy", text);
  expect_values(open_array(at("x_*.npy")));
}

TEST_F(OpenShardFiles, OpensAManifestAsItsArray) {
  save_shards_options how;
  how.rows = 3;
  ASSERT_TRUE(save_shards(*from_, at("x_{:d}.npy"), how).ok());
  expect_values(open_shards(at("penstock.shards")));
}

TEST_F(OpenShardFiles, OpensADescribedFolderOfRawFiles) {
  write("a.bin", std::string(8, '\1'));
  const auto bare = open(folder_.string());
  ASSERT_FALSE(bare.ok());
  EXPECT_EQ(bare.error().code(), errc::not_found);
  EXPECT_NE(bare.error().to_string().find("'a.bin' is raw bytes: give dtype="), std::string::npos)
      << bare.error().to_string();
  shard_files_options how;
  how.raw.dtype = "<u2";
  EXPECT_EQ(open_shards(folder_.string(), how)->shape(), (extents{4}));
  write("a.json", R"({"dtype": "uint8", "row_shape": [4]})");
  EXPECT_EQ(open_array(folder_.string())->shape(), (extents{2, 4}));
}

TEST_F(OpenShardFiles, NamesFilesThatCannotBeJoined) {
  save("x_{:d}.zarr");
  create_options other;
  other.shape = {2, 4};
  other.type = from_->type();
  ASSERT_TRUE(create_array(at("x_3.zarr"), other).ok());
  const auto made = open_shards(at("x_*.zarr"));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code(), errc::invalid_argument);
  EXPECT_EQ(made.error().message(), "1 of 4 files do not match '" + at("x_0.zarr") + "', float32 (3, 5): '" +
                                        at("x_3.zarr") + "': float32 (2, 4)");
  shard_files_options how;
  how.axis = 2;
  EXPECT_NE(open_shards(at("x_[0-2].zarr"), how).error().message().find("axis 2 is out of range"), std::string::npos);
  how.axis = -2;
  expect_values(open_shards(at("x_[0-2].zarr"), how));
  how.format = "tiff";
  EXPECT_EQ(open_shards(at("x_[0-2].zarr"), how).error().message(), "the files are zarr3, not tiff");
  how.format = "csv";
  EXPECT_EQ(open_shards(at("x_[0-2].zarr"), how).error().code(), errc::unsupported);
}

TEST_F(OpenShardFiles, ReportsThatTablesNeedPython) {
  write("x_0.parquet", "PAR1");
  const auto made = open(at("x_*.parquet"));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code(), errc::unsupported);
  EXPECT_NE(made.error().message().find("the Python package joins such files"), std::string::npos);
}

TEST_F(OpenShardFiles, RefusesATypeForFilesWithHeaders) {
  save("x_{:d}.npy");
  shard_files_options how;
  how.raw.dtype = "<f4";
  EXPECT_EQ(open_shards(at("x_*.npy"), how).error().code(), errc::invalid_argument);
  write("y_0", std::string(8, '\0'));
  EXPECT_EQ(open_shards(at("y_*"), how)->shape(), (extents{2}));
}

TEST_F(OpenShardFiles, OpensFilesWhoseNamesContainPatternCharacters) {
  create_options how;
  how.shape = {2};
  how.type = from_->type();
  ASSERT_TRUE(create_array(at("a[0].zarr"), how).ok());
  EXPECT_EQ(open_array(at("a[0].zarr"))->format(), "zarr3");
  EXPECT_EQ(open(at("a[1].zarr")).error().code(), errc::not_found);
  const std::vector<std::string> list = {at("a[0].zarr")};
  EXPECT_EQ(open_shards(std::span(list))->shape(), (extents{2}));
}

}  // namespace
}  // namespace penstock::inline v0
