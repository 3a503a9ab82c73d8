#include "driver/hdf5_sources.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <utility>

namespace penstock::inline v0 {
namespace {

namespace fs = std::filesystem;

/// A store with any URI.
class store_of_uri final : public store {
 public:
  explicit store_of_uri(std::string uri) : uri_(std::move(uri)) {}
  std::string uri() const override { return uri_; }
  store_traits traits() const override { return {}; }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token) const override {
    for (const byte_read& each : reads) sink.complete(each.tag, error(errc::not_found, "it has no objects"));
  }

 private:
  std::string uri_;
};

hdf5_neighbours in_store(const std::string& uri, std::string key) {
  return hdf5_neighbours({std::make_shared<store_of_uri>(uri), std::move(key), {}});
}

TEST(Hdf5Neighbours, AreInTheStoreOfTheFile) {
  const hdf5_neighbours of = in_store("https://host/data", "run/a.h5");
  for (const hdf5_purpose why : {hdf5_purpose::source, hdf5_purpose::link, hdf5_purpose::values}) {
    const auto next = of.find("b.h5", why);
    ASSERT_TRUE(next.ok());
    ASSERT_TRUE(*next);
    EXPECT_EQ((*next)->key, "run/b.h5");
    EXPECT_EQ((*next)->path, "");
    EXPECT_EQ((*next)->from->uri(), "https://host/data");
  }
  EXPECT_EQ((*of.find("../b.h5", hdf5_purpose::link))->key, "b.h5");
  EXPECT_EQ((*of.find("./x/../c/b.h5", hdf5_purpose::link))->key, "run/c/b.h5");
  EXPECT_EQ(of.find_external("b.raw")->key, "run/b.raw");
  EXPECT_EQ((*of.find(".", hdf5_purpose::source))->key, "run/a.h5");
}

TEST(Hdf5Neighbours, AreNotLocalForAFileInAStore) {
  const hdf5_neighbours of = in_store("https://host/data", "run/a.h5");
  for (const char* name : {"/etc/passwd", "//etc/passwd", "file:///etc/passwd", "https://other/b.h5", "s3://b/x.h5",
                           "../../b.h5", "x/../../../b.h5", "../.."}) {
    const auto found = of.find(name, hdf5_purpose::source);
    ASSERT_FALSE(found.ok()) << name;
    EXPECT_EQ(found.error().code(), errc::unsupported) << name;
    EXPECT_NE(found.error().message().find(name), std::string::npos) << found.error().message();
    EXPECT_EQ(of.find_external(name).error().code(), errc::unsupported) << name;
  }
}

TEST(Hdf5Neighbours, AreUnknownForBytesAndFileObjects) {
  EXPECT_FALSE(in_store("memory:", "x").knows_others());
  EXPECT_FALSE(in_store("<file object>", "x").knows_others());
  for (const char* uri : {"https://host", "http://host", "s3://bucket", "gs://bucket"})
    EXPECT_TRUE(in_store(uri, "x").knows_others()) << uri;
}

class LocalHdf5Neighbours : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::canonical(fs::temp_directory_path()) / ("penstock_hdf5_sources_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    for (const char* name : {"run/b.h5", "run/sub/c.h5", "other/b.h5", "other/d.h5"}) {
      fs::create_directories((folder_ / name).parent_path());
      std::ofstream(folder_ / name) << "x";
    }
  }
  void TearDown() override {
    for (const char* name : {"HDF5_VDS_PREFIX", "HDF5_EXT_PREFIX", "HDF5_EXTFILE_PREFIX"}) ::unsetenv(name);
    fs::remove_all(folder_);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  hdf5_neighbours of() const {
    return hdf5_neighbours(
        {std::make_shared<store_of_uri>("file://" + folder_.string()), "run/a.h5", path("run/a.h5")});
  }
  /// The path of what is found; empty: nothing.
  std::string found(const std::string& name, hdf5_purpose why = hdf5_purpose::source) const {
    const auto made = of().find(name, why);
    if (!made.ok()) return made.error().to_string();
    return *made ? (*made)->path : std::string();
  }

  fs::path folder_;
};

TEST_F(LocalHdf5Neighbours, AreRelativeToTheFolderOrAbsolute) {
  EXPECT_TRUE(of().is_local());
  EXPECT_TRUE(of().knows_others());
  EXPECT_EQ(found("b.h5"), path("run/b.h5"));
  EXPECT_EQ(found("sub/c.h5"), path("run/sub/c.h5"));
  EXPECT_EQ(found("../other/d.h5"), path("other/d.h5"));
  EXPECT_EQ(found(path("other/d.h5")), path("other/d.h5"));
  EXPECT_EQ(found("."), path("run/a.h5"));
}

TEST_F(LocalHdf5Neighbours, AreFoundByNameAfterAMove) {
  EXPECT_EQ(found("/moved/from/here/b.h5"), path("run/b.h5"));
  EXPECT_EQ(found("/moved/from/here/d.h5"), "");
  EXPECT_EQ(found("d.h5"), "");
}

TEST_F(LocalHdf5Neighbours, AreFirstSearchedInTheFoldersOfTheirVariable) {
  ::setenv("HDF5_VDS_PREFIX", ("/none:${ORIGIN}/../other:" + path("run")).c_str(), 1);
  EXPECT_EQ(found("b.h5"), path("other/b.h5"));
  EXPECT_EQ(found("d.h5"), path("other/d.h5"));
  EXPECT_EQ(found(path("run/b.h5")), path("run/b.h5")) << "an absolute name";
  EXPECT_EQ(found("b.h5", hdf5_purpose::link), path("run/b.h5")) << "a link has another variable";
  ::setenv("HDF5_EXT_PREFIX", path("other").c_str(), 1);
  EXPECT_EQ(found("b.h5", hdf5_purpose::link), path("other/b.h5"));
  EXPECT_EQ(of().find_external("b.h5")->path, path("run/b.h5"));
  ::setenv("HDF5_EXTFILE_PREFIX", "${ORIGIN}/../other", 1);
  EXPECT_EQ(of().find_external("b.h5")->path, path("other/b.h5"));
}

TEST_F(LocalHdf5Neighbours, ExternalFilesNeedNotExist) {
  EXPECT_EQ(of().find_external("none.raw")->path, path("run/none.raw"));
  EXPECT_EQ(of().find_external(path("other/none.raw"))->path, path("other/none.raw"));
}

}  // namespace
}  // namespace penstock::inline v0
