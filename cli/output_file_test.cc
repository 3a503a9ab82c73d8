#include "output_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace penstock::inline v0::cli {
namespace {

namespace fs = std::filesystem;

class OutputFile : public testing::Test {
 protected:
  OutputFile() {
    std::string pattern = (fs::temp_directory_path() / "penstock-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~OutputFile() override { fs::remove_all(folder_); }

  std::string path(const char* name) const { return (folder_ / name).string(); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  static std::string contents(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write(const std::string& path, const char* text) { std::ofstream(path) << text; }

  fs::path folder_;
};

TEST_F(OutputFile, AppearsCompleteOnCommit) {
  auto file = output_file::create(path("a b.bin"), 5, false);
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  std::memcpy(file->bytes().data(), "hello", 5);
  EXPECT_FALSE(fs::exists(path("a b.bin")));
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(contents(path("a b.bin")), "hello");
  EXPECT_EQ(files(), 1U);
}

TEST_F(OutputFile, LeavesNothingWithoutCommit) {
  {
    auto file = output_file::create(path("a.bin"), 5, false);
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(files(), 1U);
  }
  EXPECT_EQ(files(), 0U);
}

TEST_F(OutputFile, MayBeEmpty) {
  auto file = output_file::create(path("a.bin"), 0, false);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(fs::file_size(path("a.bin")), 0U);
}

TEST_F(OutputFile, ReplacesAnExistingFileOnlyIfRequested) {
  write(path("a.bin"), "old");
  const auto refused = output_file::create(path("a.bin"), 3, false);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), errc::conflict);
  EXPECT_EQ(contents(path("a.bin")), "old");

  auto file = output_file::create(path("a.bin"), 3, true);
  ASSERT_TRUE(file.ok());
  std::memcpy(file->bytes().data(), "new", 3);
  EXPECT_EQ(contents(path("a.bin")), "old");
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(contents(path("a.bin")), "new");
}

TEST_F(OutputFile, DoesNotReplaceAFileThatAppearedMeanwhile) {
  auto file = output_file::create(path("a.bin"), 3, false);
  ASSERT_TRUE(file.ok());
  write(path("a.bin"), "theirs");
  const auto committed = file->commit();
  ASSERT_FALSE(committed.ok());
  EXPECT_EQ(committed.error().code(), errc::conflict);
  EXPECT_EQ(contents(path("a.bin")), "theirs");
}

TEST_F(OutputFile, ReplacesTheTargetOfALinkAndKeepsTheLink) {
  write(path("real.bin"), "old");
  fs::create_symlink("real.bin", path("link.bin"));
  auto file = output_file::create(path("link.bin"), 3, true);
  ASSERT_TRUE(file.ok());
  std::memcpy(file->bytes().data(), "new", 3);
  ASSERT_TRUE(file->commit().ok());
  EXPECT_TRUE(fs::is_symlink(path("link.bin")));
  EXPECT_EQ(contents(path("real.bin")), "new");
}

TEST_F(OutputFile, AcceptsTheLongestNamesAndUsesTheUsersMask) {
  const std::string name(255, 'x');
  auto file = output_file::create(path(name.c_str()), 1, false);
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  ASSERT_TRUE(file->commit().ok());
  const mode_t mask = umask(022);
  umask(mask);
  struct stat there;
  ASSERT_EQ(stat(path(name.c_str()).c_str(), &there), 0);
  EXPECT_EQ(there.st_mode & 0777, 0666 & ~mask);
}

TEST_F(OutputFile, ReportsWhyItCannotBeCreated) {
  const auto missing = output_file::create(path("no/such/folder.bin"), 1, false);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), errc::io_error);
  const auto folder = output_file::create(folder_.string(), 1, true);
  ASSERT_FALSE(folder.ok());
  EXPECT_NE(folder.error().message().find("directory"), std::string::npos);
  const auto huge = output_file::create(path("huge.bin"), std::uint64_t{1} << 61, false);
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(files(), 0U);
}

}  // namespace
}  // namespace penstock::inline v0::cli
