#include "base/system_calls.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace penstock::inline v0 {
namespace {

namespace fs = std::filesystem;

class SystemCalls : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("penstock-calls-" + std::to_string(::getpid()));
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string name(const char* of) const { return (folder_ / of).string(); }
  std::string write(const char* of, const char* text) const {
    std::ofstream(name(of)) << text;
    return name(of);
  }
  static std::string read(const std::string& path) {
    std::string out;
    std::ifstream(path) >> out;
    return out;
  }

 private:
  fs::path folder_;
};

TEST_F(SystemCalls, ExchangesNames) {
  const std::string a = write("a", "first"), b = write("b", "second");
  const int failed = exchange_names(a.c_str(), b.c_str());
  if (failed == EINVAL || failed == ENOSYS) GTEST_SKIP() << "not on this file system";
  ASSERT_EQ(failed, 0);
  EXPECT_EQ(read(a), "second");
  EXPECT_EQ(read(b), "first");
  EXPECT_EQ(exchange_names(a.c_str(), name("c").c_str()), ENOENT);
}

TEST_F(SystemCalls, RenamesWithoutReplacing) {
  const std::string a = write("a", "first"), b = write("b", "second");
  EXPECT_EQ(rename_to_new(a.c_str(), b.c_str()), EEXIST);
  EXPECT_EQ(read(b), "second");
  EXPECT_EQ(rename_to_new(a.c_str(), name("c").c_str()), 0);
  EXPECT_EQ(read(name("c")), "first");
  EXPECT_EQ(rename_to_new(a.c_str(), name("d").c_str()), ENOENT);
}

TEST_F(SystemCalls, AllocatesFiles) {
  const std::string a = write("a", "");
  const int file = ::open(a.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  EXPECT_EQ(allocate_file(file, 5000), 0);
  struct ::stat status{};
  ASSERT_EQ(::fstat(file, &status), 0);
  EXPECT_EQ(status.st_size, 5000);
  EXPECT_GT(modified_at(status).tv_sec, 0);
  EXPECT_GE(changed_at(status).tv_sec, modified_at(status).tv_sec);
  ::close(file);
}

TEST(SystemCallsOfThreads, KnowTheFirstThread) {
  EXPECT_TRUE(is_first_thread());
  bool other = true;
  std::thread([&] { other = is_first_thread(); }).join();
  EXPECT_FALSE(other);
}

TEST(SystemCallsOfMemory, AreHints) {
  wait_precisely();
  constexpr std::size_t kBytes = std::size_t{1} << 16;
  void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  use_huge_pages(memory, kBytes);
  EXPECT_TRUE(system_writes_to(memory));
  ::munmap(memory, kBytes);
}

}  // namespace
}  // namespace penstock::inline v0
