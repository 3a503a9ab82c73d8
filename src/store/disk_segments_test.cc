#include "store/disk_segments.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "store/store_fixture.h"

namespace penstock::test {
namespace {

namespace fs = std::filesystem;

bytes made_bytes(std::uint64_t seed, std::size_t size) {
  std::mt19937_64 random(seed);
  bytes out(size);
  for (std::byte& each : out) each = static_cast<std::byte>(random());
  return out;
}

// A record whose every field follows from one number.
disk_record made_record(std::uint64_t number) {
  disk_record out;
  out.object = {{number, ~number}};
  out.time_ns = static_cast<std::int64_t>(1000 + number);
  out.seen.word = {number + 1, number + 2, number + 3, number + 4};
  out.seen.text = "version " + std::to_string(number);
  out.object_size = number * 1000;
  out.extent.offset = number * 7;
  return out;
}

bool is_made(const disk_record& record) {
  const std::uint64_t number = record.object.word[0];
  const disk_record wanted = made_record(number);
  return record.kind == wanted.kind && record.object == wanted.object && record.time_ns == wanted.time_ns &&
         record.seen.word == wanted.seen.word && record.seen.text == wanted.seen.text &&
         record.object_size == wanted.object_size && record.extent.offset == wanted.extent.offset;
}

class DiskSegments : public testing::Test {
 protected:
  std::unique_ptr<disk_segments> open(std::uint64_t limit = std::uint64_t{64} << 20) const {
    disk_segments_options how;
    how.folder = folder();
    how.limit_bytes = limit;
    how.touch_interval = std::chrono::nanoseconds(0);
    auto made = disk_segments::open(how);
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().to_string());
    return std::move(*made);
  }
  std::string folder() const { return home_.path().string() + "/cache"; }
  static bool append(disk_segments& to, std::uint64_t number, std::size_t size) {
    disk_record record = made_record(number);
    return to.append(record, made_bytes(number, size));
  }
  static std::map<std::uint64_t, disk_record> scan(disk_segments& from) {
    std::map<std::uint64_t, disk_record> out;
    from.scan([&](disk_record&& record) { out.insert_or_assign(record.object.word[0], std::move(record)); });
    return out;
  }
  // Whether the bytes of a record exist; fails if they differ.
  static bool is_there(disk_segments& in, const disk_record& record) {
    bytes room(static_cast<std::size_t>(record.extent.length));
    if (!in.read(record.extent, 0, room)) return false;
    EXPECT_EQ(room, made_bytes(record.object.word[0], room.size())) << record.object.word[0];
    return true;
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    for (const auto& each : fs::directory_iterator(folder()))
      if (each.path().extension() == ".ranges" || each.path().extension() == ".records") out.push_back(each.path());
    std::sort(out.begin(), out.end());
    return out;
  }
  static std::string text_in(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write(const fs::path& file, std::string_view text) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
  }

  temporary_folder home_;
};

TEST_F(DiskSegments, KeepBytesAcrossInstances) {
  const std::size_t sizes[] = {1, 100, 65536, 65537, 300000};
  {
    const auto first = open();
    for (std::size_t i = 0; i < 5; ++i) ASSERT_TRUE(append(*first, i, sizes[i]));
    EXPECT_TRUE(scan(*first).empty()) << "own records are not reported";
  }
  const auto second = open();
  const auto found = scan(*second);
  ASSERT_EQ(found.size(), 5U);
  for (const auto& [number, record] : found) {
    EXPECT_TRUE(is_made(record));
    ASSERT_EQ(record.extent.length, sizes[number]);
    EXPECT_TRUE(is_there(*second, record));
    const bytes whole = made_bytes(number, sizes[number]);
    for (const std::size_t begin : {std::size_t{0}, whole.size() / 3, whole.size() - 1}) {
      bytes room((whole.size() - begin + 1) / 2);
      ASSERT_TRUE(second->read(record.extent, begin, room));
      EXPECT_TRUE(std::equal(room.begin(), room.end(), whole.begin() + static_cast<std::ptrdiff_t>(begin)));
    }
    bytes longer(whole.size() + 1);
    EXPECT_FALSE(second->read(record.extent, 0, longer));
  }
  EXPECT_TRUE(scan(*second).empty());
  ASSERT_TRUE(append(*second, 9, 10));
  const auto third = open();
  EXPECT_EQ(scan(*third).size(), 6U);
}

TEST_F(DiskSegments, LoseOnlyRecordsThatAKillTruncated) {
  {
    const auto first = open();
    for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(append(*first, i, 40));
  }
  const auto all = files();
  ASSERT_EQ(all.size(), 2U);
  const std::string whole[] = {text_in(all[0]), text_in(all[1])};
  for (std::size_t file = 0; file < 2; ++file) {
    std::size_t most = 0;
    for (std::size_t size = 0; size <= whole[file].size(); ++size) {
      write(all[file], std::string_view(whole[file]).substr(0, size));
      const auto again = open();
      std::size_t there = 0;
      for (const auto& [number, record] : scan(*again)) {
        EXPECT_TRUE(is_made(record));
        if (is_there(*again, record)) ++there;
      }
      EXPECT_GE(there, most) << size;
      most = there;
      if (size % 16 == 0) {  // continues after the remaining segments
        ASSERT_TRUE(append(*again, 7, 50));
        const auto next = open();
        const auto found = scan(*next);
        ASSERT_TRUE(found.contains(7)) << file << ' ' << size;
        EXPECT_TRUE(is_there(*next, found.at(7)));
        for (const auto& [number, record] : found) EXPECT_TRUE(is_made(record) && (is_there(*next, record) || true));
      }
      fs::remove_all(folder());
      fs::create_directory(folder());
      for (std::size_t i = 0; i < 2; ++i) write(all[i], whole[i]);
    }
    EXPECT_EQ(most, 3U);
  }
}

TEST_F(DiskSegments, LoseTornRecords) {
  {
    const auto first = open();
    for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(append(*first, i, 40));
  }
  const auto all = files();
  for (const fs::path& file : all) {
    const std::string whole = text_in(file);
    for (std::size_t begin = 0; begin < whole.size(); ++begin) {
      std::string torn = whole;  // blocks of a file that were not written before a power cut are zeros
      std::fill(torn.begin() + static_cast<std::ptrdiff_t>(begin), torn.end(), '\0');
      write(file, torn);
      const auto again = open();
      for (const auto& [number, record] : scan(*again)) {
        EXPECT_TRUE(is_made(record));
        is_there(*again, record);
      }
    }
    write(file, whole);
  }
}

TEST_F(DiskSegments, NeverReturnAFlippedByte) {
  {
    const auto first = open();
    for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(append(*first, i, 40));
  }
  for (const fs::path& file : files()) {
    const std::string whole = text_in(file);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      for (const int mask : {1, 0x80}) {
        std::string flipped = whole;
        flipped[i] = static_cast<char>(flipped[i] ^ mask);
        write(file, flipped);
        const auto again = open();
        std::size_t there = 0;
        for (const auto& [number, record] : scan(*again)) {
          EXPECT_TRUE(is_made(record)) << file << ' ' << i;
          if (is_there(*again, record)) ++there;
        }
        EXPECT_LT(there, 3U) << file << ' ' << i << ": the byte means nothing";
      }
    }
    write(file, whole);
  }
}

TEST_F(DiskSegments, StayBelowTheLimitAndKeepUsedData) {
  constexpr std::uint64_t kLimit = std::uint64_t{4} << 20;
  const auto cache = open(kLimit);
  disk_record used = made_record(0);
  ASSERT_TRUE(cache->append(used, made_bytes(0, 5000)));
  for (std::uint64_t i = 1; i < 400; ++i) {
    ASSERT_TRUE(append(*cache, i, 50000)) << i;
    if (i % 5 == 0) {
      ASSERT_TRUE(is_there(*cache, used)) << i;
    }
    ASSERT_LE(cache->size_bytes(), kLimit);
  }
  EXPECT_GT(cache->size_bytes(), kLimit / 2);
  const auto fresh = open(kLimit);
  const auto found = scan(*fresh);
  EXPECT_TRUE(found.contains(0) && found.contains(399));
  EXPECT_FALSE(found.contains(20));
  // Small ranges count for their records, which processes hold in memory.
  for (std::uint64_t i = 1000; i < 6000; ++i) ASSERT_TRUE(append(*cache, i, 1));
  std::size_t removed = 0;
  for (const auto& [number, record] : found) {
    if (is_there(*fresh, record)) continue;
    EXPECT_TRUE(record.extent.where->is_gone) << number << ": was removed, is not damaged";
    ++removed;
  }
  EXPECT_GT(removed, 0U);
  EXPECT_LT(scan(*fresh).size(), 600U);
  EXPECT_FALSE(append(*cache, 1, cache->longest() + 1));
}

TEST_F(DiskSegments, ReportNoOwnRecordsAfterTheirSegmentIsReused) {
  const auto cache = open();
  ASSERT_TRUE(append(*cache, 1, 300'000));
  append(*cache, 2, 880'000);  // does not fit: the segment is closed, and taken again
  ASSERT_TRUE(append(*cache, 3, 1000));
  EXPECT_TRUE(scan(*cache).empty());
  EXPECT_EQ(files().size(), 2U);
}

TEST_F(DiskSegments, ReportRecordsThatOthersAppendToAClosedSegment) {
  const auto first = open();
  ASSERT_TRUE(append(*first, 1, 300'000));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // the clock of files is slow
  ASSERT_TRUE(append(*open(), 3, 100'000));
  ASSERT_TRUE(append(*first, 2, 800'000)) << "in the second segment, which has room for it";
  const auto other = open();
  ASSERT_TRUE(append(*other, 7, 1000)) << "in the first one, which was closed";
  ASSERT_EQ(files().size(), 4U);
  const auto numbers = [](const std::map<std::uint64_t, disk_record>& of) {
    std::set<std::uint64_t> out;
    for (const auto& each : of) out.insert(each.first);
    return out;
  };
  EXPECT_EQ(numbers(scan(*first)), (std::set<std::uint64_t>{3, 7}));
  EXPECT_EQ(numbers(scan(*other)), (std::set<std::uint64_t>{1, 2, 3}));
  ASSERT_TRUE(append(*other, 8, 1000));
  EXPECT_EQ(numbers(scan(*first)), (std::set<std::uint64_t>{8}));
  EXPECT_TRUE(scan(*other).empty());
}

TEST_F(DiskSegments, DoNotTouchOtherFiles) {
  fs::create_directory(folder());
  const fs::path strange = folder() + "/segment-0123456789abcdef.records", other = home_.path().string() + "/other";
  write(other, "not a segment");
  fs::create_symlink(other, folder() + "/segment-00000000000000aa.ranges");
  fs::create_symlink(other, folder() + "/segment-00000000000000aa.records");
  write(strange, "not a segment either");
  write(folder() + "/notes.txt", "mine");
  const auto cache = open(std::uint64_t{1} << 20);
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(append(*cache, i, 30000));
  EXPECT_EQ(text_in(other), "not a segment");
  EXPECT_EQ(text_in(strange), "not a segment either");
  EXPECT_EQ(text_in(folder() + "/notes.txt"), "mine");
}

// Runs `what` in a child; its result is the exit status.
template <class What>
::pid_t in_child(const What& what) {
  const ::pid_t child = ::fork();
  if (child == 0) ::_exit(what());
  return child;
}
int status_of(::pid_t child) {
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST_F(DiskSegments, GrantEachClaimToOneProcess) {
  constexpr std::uint64_t kItems = 60;
  open();
  std::vector<::pid_t> children;
  for (int i = 0; i < 6; ++i) {
    children.push_back(in_child([&] {
      const auto cache = open();
      std::set<std::uint64_t> have;
      const auto look = [&] {
        for (const auto& [number, record] : scan(*cache)) have.insert(number);
      };
      for (std::uint64_t item = 0; item < kItems; ++item) {
        while (!cache->try_claim(item * 4)) std::this_thread::yield();
        look();
        if (have.insert(item).second && !append(*cache, item, 3000)) return 2;
        cache->release(item * 4);
      }
      return 0;
    }));
  }
  for (const ::pid_t each : children) EXPECT_EQ(status_of(each), 0);
  const auto cache = open();
  std::multiset<std::uint64_t> found;
  cache->scan([&](disk_record&& record) {
    found.insert(record.object.word[0]);
    EXPECT_TRUE(is_there(*cache, record));
  });
  EXPECT_EQ(found.size(), kItems) << "an item was fetched twice";
}

TEST_F(DiskSegments, AreRightAfterWritersWereKilled) {
  constexpr std::uint64_t kLimit = std::uint64_t{2} << 20;
  open(kLimit);
  std::size_t seen = 0;
  for (int round = 0; round < 12; ++round) {
    std::vector<::pid_t> children;
    for (std::uint64_t i = 0; i < 3; ++i) {
      children.push_back(in_child([&] {
        const auto cache = open(kLimit);
        cache->try_claim(4);
        for (std::uint64_t n = 0;; ++n) append(*cache, n % 1000 + i * 1000, 100 + n * 37 % 9000);
        return 0;
      }));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(8 + 3 * round));
    for (const ::pid_t each : children) ::kill(each, SIGKILL);
    for (const ::pid_t each : children) status_of(each);
    const auto cache = open(kLimit);
    EXPECT_TRUE(cache->try_claim(4)) << "a claim outlived its process";
    EXPECT_LE(cache->size_bytes(), kLimit);
    for (const auto& [number, record] : scan(*cache)) {
      EXPECT_TRUE(is_made(record));
      if (is_there(*cache, record)) ++seen;
    }
  }
  EXPECT_GT(seen, 0U);
}

TEST_F(DiskSegments, AreReadableWithoutWritePermission) {
  {
    const auto first = open();
    ASSERT_TRUE(append(*first, 1, 100));
  }
  fs::create_directory(home_.path().string() + "/twin");
  const auto all = files();
  for (const fs::path& each : all) fs::copy_file(each, home_.path().string() + "/twin/" + each.filename().string());
  fs::create_directory(home_.path().string() + "/twin/claims");  // blocks a file of this name, also for root
  disk_segments_options how;
  how.folder = home_.path().string() + "/twin";
  const auto made = disk_segments::open(how);
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE((*made)->is_off());
  const auto found = scan(**made);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(is_there(**made, found.begin()->second));
  EXPECT_FALSE(append(**made, 2, 10));
  how.limit_bytes = 1000;
  EXPECT_EQ(disk_segments::open(how).error().code(), errc::invalid_argument);
}

}  // namespace
}  // namespace penstock::test
