// States of an archive while it is written: other readers, killed writers, concurrent writers.

#include "store/zip_store.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "store/file_parts.h"
#include "store/store_fixture.h"

namespace penstock::test {
namespace {

namespace fs = std::filesystem;

class ZipStore : public testing::Test {
 protected:
  static void put(store& to, std::string_view key, std::string_view text) {
    const bytes data = to_bytes(text);
    const part whole(data);
    const auto done = to.put(key, {&whole, 1}, {});
    ASSERT_TRUE(done.ok()) << done.error().to_string();
  }
  static void flush(store& to) {
    const auto done = to.flush();
    ASSERT_TRUE(done.ok()) << done.error().to_string();
  }
  static std::string text(const store& from, std::string_view key) {
    const auto done = read_now(from, key);
    return done.ok() ? done->text : done.error().to_string();
  }
  std::string as_others_see_it(std::string_view key) const { return text(zip_store(path_), key); }
  std::vector<std::string> files() const {
    std::vector<std::string> out;
    for (const auto& each : fs::directory_iterator(folder_.path())) out.push_back(each.path().filename());
    return out;
  }

  temporary_folder folder_;
  const std::string path_ = folder_.path() / "x.zip";
};

constexpr const char* kAbsent = "not_found: no such object";

TEST_F(ZipStore, PutsAreVisibleToOthersAfterTheFlush) {
  zip_store store(path_);
  put(store, "a", "one");
  EXPECT_EQ(text(store, "a"), "one");
  EXPECT_EQ(as_others_see_it("a"), kAbsent);
  flush(store);
  EXPECT_EQ(as_others_see_it("a"), "one");
  put(store, "a", "two");
  put(store, "b", "three");
  EXPECT_EQ(as_others_see_it("a"), "one") << "an archive that is being written to is still the one before";
  EXPECT_EQ(as_others_see_it("b"), kAbsent);
  flush(store);
  EXPECT_EQ(as_others_see_it("a"), "two");
  EXPECT_EQ(as_others_see_it("b"), "three");
  EXPECT_EQ(files(), std::vector<std::string>{"x.zip"});
}

TEST_F(ZipStore, FlushesWhenItIsDestroyed) {
  {
    zip_store store(path_);
    put(store, "a", "one");
  }
  EXPECT_EQ(as_others_see_it("a"), "one");
  EXPECT_EQ(files(), std::vector<std::string>{"x.zip"});
}

TEST_F(ZipStore, AnOpenStoreSeesTheFlushesOfOthers) {
  zip_store reader(path_), writer(path_);
  EXPECT_EQ(read_now(reader, "a").error().code(), errc::not_found);
  put(writer, "a", "one");
  flush(writer);
  EXPECT_EQ(text(reader, "a"), "one");
  const auto seen = read_now(reader, "a");
  for (int i = 0; i < 20; ++i) {
    put(writer, "a", std::to_string(1000 + i));
    flush(writer);
    EXPECT_EQ(read_now(reader, "a", {}, &seen->seen).error().code(), errc::version_changed);
    EXPECT_EQ(text(reader, "a"), std::to_string(1000 + i));
  }
}

TEST_F(ZipStore, WritesDoNotChangeTheVersionsOfOtherEntries) {
  zip_store store(path_);
  put(store, "a", "one");
  const auto seen = read_now(store, "a");
  put(store, "b", "two");
  flush(store);
  put(store, "c", "three");
  flush(store);
  EXPECT_TRUE(read_now(store, "a", {0, 2, false}, &seen->seen).ok());
}

TEST_F(ZipStore, SmallWritesDoNotLetTheArchiveGrowWithEachDirectory) {
  zip_store store(path_);
  for (int i = 0; i < 200; ++i) put(store, "some/longer/name/" + std::to_string(i), "0123456789");
  flush(store);
  const auto before = fs::file_size(path_);
  for (int i = 0; i < 200; ++i) {
    put(store, "some/longer/name/" + std::to_string(i), "fedcba9876");
    flush(store);
  }
  // 200 directories of 14 kB would be 2.8 MB; replaced data is kept.
  EXPECT_LT(fs::file_size(path_), before + 200 * 80 + 3 * before);
  for (int i = 0; i < 200; ++i) ASSERT_EQ(as_others_see_it("some/longer/name/" + std::to_string(i)), "fedcba9876") << i;
}

TEST_F(ZipStore, ErasedEntriesAreAbsentAndAnEmptyArchiveIsValid) {
  zip_store store(path_);
  EXPECT_TRUE(store.erase("a", {}).ok());
  EXPECT_FALSE(fs::exists(path_)) << "no archive is created for an erase";
  put(store, "a", "one");
  flush(store);
  ASSERT_TRUE(store.erase("a", {}).ok());
  EXPECT_EQ(text(store, "a"), kAbsent);
  EXPECT_EQ(as_others_see_it("a"), "one");
  flush(store);
  EXPECT_EQ(as_others_see_it("a"), kAbsent);
  put(store, "b", "two");
  flush(store);
  EXPECT_EQ(as_others_see_it("b"), "two");
}

TEST_F(ZipStore, ARemovedArchiveIsNotAnAbsentObject) {
  const std::string gone = "io_error: the archive was removed: '" + path_ + "'";
  zip_store writer(path_), store(path_);
  put(writer, "a", "one");
  flush(writer);
  ASSERT_EQ(text(store, "a"), "one");
  fs::resize_file(path_, 0);
  EXPECT_EQ(text(store, "a"), gone);
  fs::remove(path_);
  EXPECT_EQ(text(store, "a"), gone);
  fs::create_directory(path_);
  EXPECT_EQ(text(store, "a"), gone);
  fs::remove(path_);
}

TEST_F(ZipStore, KeepsCommentsAndEntriesOfOtherPrograms) {
  fs::copy_file(fs::path(PENSTOCK_SOURCE_DIR) / "tests/data/zip/yauzl/success/deflate.zip", path_);
  const std::string before = as_others_see_it("index.js");
  zip_store store(path_);
  put(store, "new", "object");
  flush(store);
  EXPECT_EQ(as_others_see_it("index.js"), before);
  EXPECT_EQ(as_others_see_it("new"), "object");
}

TEST_F(ZipStore, ArchivesWithNamesInAnotherEncodingAreReadOnly) {
  fs::copy_file(fs::path(PENSTOCK_SOURCE_DIR) / "tests/data/zip/yauzl/success/unicode-path-extra-field.zip", path_);
  zip_store store(path_);
  const auto done = store.put("k", {}, {});
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), errc::unsupported);
}

TEST_F(ZipStore, SeveralStoresOfOneArchiveTakeTurns) {
  constexpr int kWriters = 4, kEach = 10;
  {
    zip_store store(path_);
    put(store, "counter", "0");
  }
  std::vector<std::thread> threads;
  for (int w = 0; w < kWriters; ++w) {
    threads.emplace_back([&, w] {
      zip_store mine(path_);
      for (int n = 0; n < kEach;) {
        const auto now = read_now(mine, "counter");
        ASSERT_TRUE(now.ok()) << now.error().to_string();
        const bytes data = to_bytes(std::to_string(std::stoi(now->text) + 1));
        const part whole(data);
        write_condition match;
        match.what = write_condition::kind::must_match;
        match.expected = now->seen;
        const auto done = mine.put("counter", {&whole, 1}, match);
        ASSERT_TRUE(done.ok() || done.error().code() == errc::version_changed) << done.error().to_string();
        if (done.ok()) {
          ++n;
          put(mine, "of/" + std::to_string(w) + "/" + std::to_string(n), "x");
        }
        flush(mine);
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(as_others_see_it("counter"), std::to_string(kWriters * kEach));
  for (int w = 0; w < kWriters; ++w)
    for (int n = 1; n <= kEach; ++n)
      EXPECT_EQ(as_others_see_it("of/" + std::to_string(w) + "/" + std::to_string(n)), "x");
}

TEST_F(ZipStore, AKilledWriterLeavesTheArchiveUnchanged) {
  {
    zip_store store(path_);
    put(store, "a", "one");
    put(store, "zip in zip", std::string("PK\x05\x06", 4) + std::string(18, '\0'));
  }
  const auto size = fs::file_size(path_);
  for (int round = 0; round < 6; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      zip_store mine(path_);
      put(mine, "a", std::string(1000, 'x'));
      // The last bytes of the file look like the end of an archive.
      if (round % 2 == 0) put(mine, "b", std::string("PK\x05\x06", 4) + std::string(18, '\0'));
      if (round >= 4) flush(mine);
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    if (round >= 4) {
      EXPECT_EQ(as_others_see_it("a"), std::string(1000, 'x'));
      continue;
    }
    EXPECT_GT(fs::file_size(path_), size);
    EXPECT_EQ(as_others_see_it("a"), "one");
    EXPECT_EQ(as_others_see_it("b"), kAbsent);
    zip_store next(path_);  // the next writer restores the archive
    put(next, "c", "next");
    flush(next);
    EXPECT_EQ(as_others_see_it("a"), "one");
    EXPECT_EQ(as_others_see_it("c"), "next");
    EXPECT_EQ(files(), std::vector<std::string>{"x.zip"});
  }
}

TEST_F(ZipStore, ReadersDuringAWriteSeeOneFlushOrTheNext) {
  {
    zip_store store(path_);
    put(store, "a", std::string(5000, 'a'));
    put(store, "b", std::string(5000, 'a'));
  }
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    zip_store mine(path_);
    for (int i = 1; i <= 40; ++i) {
      put(mine, "a", std::string(5000, static_cast<char>('a' + i % 26)));
      put(mine, "b", std::string(5000, static_cast<char>('a' + i % 26)));
      flush(mine);
    }
    stop = true;
  });
  int reads = 0;
  while (!stop || reads == 0) {
    const zip_store reader(path_);
    const auto one = read_now(reader, "a");
    ASSERT_TRUE(one.ok()) << one.error().to_string();
    EXPECT_EQ(one->text, std::string(5000, one->text[0]));
    ++reads;
  }
  writer.join();
}

TEST_F(ZipStore, AForkedChildDoesNotHaveItsParentsPuts) {
  zip_store store(path_);
  put(store, "a", "one");
  flush(store);
  put(store, "b", "two");
  const pid_t child = ::fork();
  if (child == 0) ::_exit(text(store, "a") == "one" && text(store, "b") == kAbsent ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  flush(store);
  EXPECT_EQ(as_others_see_it("b"), "two");
}

TEST_F(ZipStore, AFileThatIsNotAnArchiveIsRefusedAndKept) {
  std::ofstream(path_) << "something else entirely, and longer than an end record";
  zip_store store(path_);
  EXPECT_EQ(read_now(store, "a").error().code(), errc::corrupt_data);
  const auto done = store.put("a", {}, {});
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), errc::corrupt_data);
  EXPECT_EQ(fs::file_size(path_), 54u);
  EXPECT_EQ(files(), std::vector<std::string>{"x.zip"});
}

TEST(FileParts, ManyPartsAreWrittenAsOne) {
  const temporary_folder folder;
  std::vector<bytes> data;
  std::vector<part> parts;
  std::string wanted;
  for (int i = 0; i < 1000; ++i) {
    data.push_back(to_bytes(std::string(static_cast<std::size_t>(i % 7), static_cast<char>('a' + i % 26))));
    wanted += to_text(data.back());
  }
  for (const bytes& each : data) parts.emplace_back(each);
  const std::string path = folder.path() / "x";
  std::FILE* const file = std::fopen(path.c_str(), "w+");
  ASSERT_NE(file, nullptr);
  EXPECT_TRUE(write_file_at(::fileno(file), 3, parts).ok());
  bytes back(wanted.size());
  EXPECT_TRUE(read_file_at(::fileno(file), 3, back).ok());
  EXPECT_EQ(to_text(back), wanted);
  EXPECT_EQ(read_file_at(::fileno(file), 4, back).error().code(), errc::io_error);
  std::fclose(file);
}

}  // namespace
}  // namespace penstock::test
