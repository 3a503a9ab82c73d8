#include "store/file_status.h"

#include <gtest/gtest.h>
#include <time.h>  // NOLINT: the coarse clock is the system's, not C++'s

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>

namespace penstock::inline v0 {
namespace {

struct ::stat changed(std::int64_t ahead_ns) {
  struct ::timespec now{};
#ifdef CLOCK_REALTIME_COARSE
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
#endif
  const std::int64_t at = now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec + ahead_ns;
  struct ::stat status{};
#ifndef __APPLE__
  status.st_ctim.tv_sec = at / 1'000'000'000;
  status.st_ctim.tv_nsec = at % 1'000'000'000;
#else
  static_cast<void>(at);
#endif
  return status;
}

TEST(FileStatus, EveryPartOfAVersionCounts) {
  struct ::stat status{};
  const version first = version_of(status);
  EXPECT_TRUE(first.known());
  const auto differs = [&](auto change) {
    struct ::stat other = status;
    change(other);
    return !(version_of(other) == first);
  };
  EXPECT_TRUE(differs([](struct ::stat& s) { s.st_dev = 1; }));
  EXPECT_TRUE(differs([](struct ::stat& s) { s.st_ino = 1; }));
  EXPECT_TRUE(differs([](struct ::stat& s) { s.st_size = 1; }));
#ifndef __APPLE__
  EXPECT_TRUE(differs([](struct ::stat& s) { s.st_mtim.tv_nsec = 1; }));
  EXPECT_TRUE(differs([](struct ::stat& s) { s.st_ctim.tv_nsec = 1; }));
  EXPECT_TRUE(differs([](struct ::stat& s) { s.st_ctim.tv_sec = 1; }));
#endif
  EXPECT_FALSE(differs([](struct ::stat& s) { s.st_atime = s.st_nlink = s.st_mode = 1; }));
}

#ifdef CLOCK_REALTIME_COARSE
TEST(FileStatus, OnlyAChangeInThePresentTickMayHideAnother) {
  EXPECT_TRUE(may_be_indistinct(changed(5'000'000))) << "the clock has not passed it";
  bool in_this_tick = false;
  for (int i = 0; i < 100 && !in_this_tick; ++i) in_this_tick = may_be_indistinct(changed(0));
  EXPECT_TRUE(in_this_tick) << "the present tick itself";
  EXPECT_FALSE(may_be_indistinct(changed(-1)));
  EXPECT_FALSE(may_be_indistinct(changed(-20'000'000)));
  EXPECT_FALSE(may_be_indistinct(changed(-5'000'000'000)));
  EXPECT_FALSE(may_be_indistinct(changed(500'000'000))) << "another machine's clock";
  EXPECT_FALSE(may_be_indistinct(changed(5'000'000'000)));
}

TEST(FileStatus, AFileWithATimeInNanosecondsNeedsNoWait) {
  struct ::stat stamped = changed(0);
  stamped.st_mtim = stamped.st_ctim;
  stamped.st_mtim.tv_nsec += stamped.st_mtim.tv_nsec < 999'999'000 ? 1000 : 0;
  if (stamped.st_mtim.tv_nsec == stamped.st_ctim.tv_nsec) return;  // the second's last microsecond
  EXPECT_FALSE(may_be_indistinct(stamped));
  std::swap(stamped.st_mtim, stamped.st_ctim);
  EXPECT_FALSE(may_be_indistinct(stamped)) << "an older modification: the next write has another time";
  bool in_this_tick = false;
  for (int i = 0; i < 100 && !in_this_tick; ++i) {
    stamped.st_ctim = changed(0).st_ctim;
    stamped.st_mtim = stamped.st_ctim;
    in_this_tick = may_be_indistinct(stamped);
  }
  EXPECT_TRUE(in_this_tick) << "both times are the filesystem's";
}

TEST(FileStatus, WaitsUntilTheClockHasPassedTheChange) {
  const struct ::stat now = changed(0);
  wait_until_distinct(now);
  EXPECT_FALSE(may_be_indistinct(now));
  // Once of many: a busy machine takes the processor away for longer.
  auto shortest = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < 100; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    wait_until_distinct(now);
    shortest = std::min(shortest, std::chrono::steady_clock::now() - begin);
  }
  EXPECT_LT(shortest, std::chrono::milliseconds(5));
}
#endif

TEST(FileStatus, DistinguishesAnAbsentObjectFromAnAbsentFolder) {
  EXPECT_EQ(read_failure(ENOENT, "opening").code(), errc::not_found);
  EXPECT_EQ(read_failure(ENOTDIR, "opening").code(), errc::not_found);
  EXPECT_EQ(write_failure(ENOENT, "opening").code(), errc::io_error);
  EXPECT_EQ(read_failure(EACCES, "opening").code(), errc::permission_denied);
  EXPECT_EQ(read_failure(EPERM, "opening").code(), errc::permission_denied);
  EXPECT_EQ(read_failure(EMFILE, "opening").code(), errc::resource_exhausted);
  EXPECT_EQ(write_failure(EROFS, "creating a file").code(), errc::read_only);
  for (const int code : {ELOOP, EIO, ESTALE, EISDIR, ENAMETOOLONG, ENOSPC, EDQUOT})
    EXPECT_EQ(read_failure(code, "opening").code(), errc::io_error) << code;
  EXPECT_EQ(read_failure(EIO, "reading").to_string(), "io_error: reading failed: Input/output error");
}

TEST(FilePath, JoinsRootAndKey) {
  file_path path;
  ASSERT_TRUE(path.assign("/data", "a/b").ok());
  EXPECT_STREQ(path.c_str(), "/data/a/b");
  ASSERT_TRUE(path.assign("/", "a").ok());
  EXPECT_STREQ(path.c_str(), "/a");
  ASSERT_TRUE(path.assign("/data", "").ok());
  EXPECT_STREQ(path.c_str(), "/data/");
  EXPECT_TRUE(path.assign("/", std::string(PATH_MAX - 2, 'x')).ok());
  EXPECT_EQ(path.view().size(), static_cast<std::size_t>(PATH_MAX - 1));
  EXPECT_EQ(path.assign("/", std::string(PATH_MAX - 1, 'x')).error().code(), errc::io_error);
}

}  // namespace
}  // namespace penstock::inline v0
