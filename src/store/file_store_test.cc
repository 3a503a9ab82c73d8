// Cases of files only: other programs change them, replace them, turn them into pipes.

#include "store/file_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <memory>
#include <thread>

#include "store/changed_folders.h"
#include "store/names_sink.h"
#include "store/store_fixture.h"

namespace penstock::test {
namespace {

namespace fs = std::filesystem;

class FileStore : public testing::Test {
 protected:
  FileStore() : root_(folder_.path() / "root"), store_(root_.string()) { fs::create_directory(root_); }

  // As another program would: in place.
  void write(const fs::path& path, std::string_view text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  }
  void put(std::string_view key, std::string_view text) {
    const bytes data = to_bytes(text);
    const part whole(data);
    const auto done = store_.put(key, {&whole, 1}, {});
    ASSERT_TRUE(done.ok()) << done.error().to_string();
  }
  std::string text(std::string_view key, byte_range range = {0, 4, false}) {
    const auto done = read_now(store_, key, range);
    return done.ok() ? done->text : done.error().to_string();
  }
  std::vector<std::string> names_in(const fs::path& path) {
    std::vector<std::string> out;
    for (const auto& each : fs::recursive_directory_iterator(path)) out.push_back(each.path().filename());
    return out;
  }

  temporary_folder folder_;
  fs::path root_;
  file_store store_;
};

TEST_F(FileStore, DetectsThatAnAncestorFolderWasReplaced) {
  write(root_ / "a/k", "old!");
  write(folder_.path() / "other/a/k", "new!");
  const auto old = read_now(store_, "a/k", {0, 4, false});
  ASSERT_TRUE(old.ok());
  EXPECT_EQ(old->text, "old!");
  fs::rename(root_, folder_.path() / "aside");
  fs::rename(folder_.path() / "other", root_);
  EXPECT_EQ(code_of(read_now(store_, "a/k", {0, 0, false}, &old->seen)), errc::version_changed);
  EXPECT_EQ(code_of(read_now(store_, "a/k", {0, 4, false}, &old->seen)), errc::version_changed);
  EXPECT_EQ(text("a/k"), "new!");
  EXPECT_EQ(text("a/k", {}), "new!");
}

TEST_F(FileStore, ReadsAnOpenHandleIfOnlyTheVersionMatters) {
  const auto pinned = [&](const version& to) {
    byte_read read;
    read.key = "a/k";
    read.range = {0, 4, false};
    read.expected = &to;
    read.same_handle = true;
    return read_now(store_, read);
  };
  const auto opened = [&] {
    const auto read = read_now(store_, "a/k", {0, 4, false});
    EXPECT_TRUE(read.ok());
    return read.ok() ? read->seen : version();
  };
  write(root_ / "a/k", "old!");
  version first = opened();
  // The present location of the folder does not matter for those bytes.
  fs::rename(root_ / "a", root_ / "aside");
  const auto read = pinned(first);
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(read->text, "old!");
  fs::rename(root_ / "aside", root_ / "a");

  write(root_ / "a/k", "new!");
  EXPECT_EQ(code_of(pinned(first)), errc::version_changed);
  first = opened();
  ASSERT_TRUE(pinned(first).ok());
  write(root_ / "a/other", "one!");
  fs::rename(root_ / "a/other", root_ / "a/k");
  EXPECT_EQ(code_of(pinned(first)), errc::version_changed);
  first = opened();
  ASSERT_TRUE(pinned(first).ok());
  fs::remove(root_ / "a/k");
  EXPECT_EQ(code_of(pinned(first)), errc::not_found);
}

// Memory that the system refuses to write to (EFAULT) and that this process can write to: its first touch maps it.
class MappedByTouch {
 public:
  explicit MappedByTouch(std::size_t size)
      : memory(static_cast<std::byte*>(::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
        bytes(size) {
    begin_ = memory;
    size_ = size;
    touches = 0;
    struct ::sigaction action{};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = [](int, ::siginfo_t* at, void*) {
      auto* const touched = static_cast<std::byte*>(at->si_addr);
      if (touched < begin_ || touched >= begin_ + size_) std::_Exit(99);
      constexpr std::size_t kPage = 4096;
      auto* const page = touched - (touched - begin_) % static_cast<std::ptrdiff_t>(kPage);
      ::mprotect(page, kPage, PROT_READ | PROT_WRITE);
      touches = touches + 1;
    };
    ::sigaction(SIGSEGV, &action, &before_);
  }
  ~MappedByTouch() {
    ::sigaction(SIGSEGV, &before_, nullptr);
    ::munmap(memory, bytes);
  }

  std::byte* const memory;
  const std::size_t bytes;
  static inline volatile int touches = 0;

 private:
  static inline std::byte* begin_ = nullptr;
  static inline std::size_t size_ = 0;
  struct ::sigaction before_{};
};

// As page-locked memory of a driver in a sandbox that ignores the driver's mappings.
TEST_F(FileStore, ReadsIntoMemoryThatTheSystemCannotWriteTo) {
  constexpr std::size_t kBytes = 200'000;
  std::string content(kBytes, ' ');
  for (std::size_t i = 0; i < kBytes; ++i) content[i] = static_cast<char>('a' + i % 23);
  write(root_ / "k", content);
  for (const std::uint64_t first : {0U, 7U, 130'000U}) {
    MappedByTouch to(kBytes);
    const descriptor file(::open((root_ / "k").c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::pread(file.get(), to.memory, 1, 0), -1);
    ASSERT_EQ(errno, EFAULT);
    byte_read wanted;
    wanted.key = "k";
    wanted.range = {first, kBytes - first, false};
    wanted.destination = {to.memory, kBytes - first};
    const auto done = read_now(store_, wanted);
    ASSERT_TRUE(done.ok()) << done.error().to_string();
    EXPECT_EQ(done->text, content.substr(first));
    EXPECT_GE(MappedByTouch::touches, static_cast<int>((kBytes - first) / 4096)) << "the memory does not fault";
  }
}

TEST_F(FileStore, DetectsAFileRewrittenInPlaceAtOnce) {
  write(root_ / "k", "0000");
  std::vector<version> seen;
  for (int i = 0; i < 10; ++i) {
    const std::string now(4, static_cast<char>('a' + i));
    write(root_ / "k", now);  // same size, same inode, possibly the same tick of the clock
    const auto read = read_now(store_, "k", {0, 4, false});
    ASSERT_TRUE(read.ok());
    ASSERT_EQ(read->text, now);
    for (const version& each : seen) ASSERT_FALSE(each == read->seen) << i;
    seen.push_back(read->seen);
  }
}

TEST_F(FileStore, RewritesOfOneInodeNeverShareAVersion) {
  // Replacing a file frees its inode for the next one: without care, writes 1 and 3 could look alike.
  std::vector<version> seen;
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(i % 3 != 2 || store_.erase("k", {}).ok());
    const bytes data = to_bytes(std::to_string(i + 10));
    const part whole(data);
    const auto done = store_.put("k", {&whole, 1}, {});
    ASSERT_TRUE(done.ok());
    for (const version& each : seen) EXPECT_FALSE(each == *done);
    seen.push_back(*done);
    EXPECT_TRUE(read_now(store_, "k", {0, 2, false})->seen == *done);
  }
}

TEST_F(FileStore, VersionsSurviveCloseAndReopen) {
  write(root_ / "k", "0123");
  const auto first = read_now(store_, "k", {0, 4, false});
  file_store again(root_.string() + "//");
  EXPECT_TRUE(read_now(again, "k", {1, 2, false}, &first->seen).ok());
  EXPECT_EQ(again.uri(), "file://" + root_.string());
}

TEST_F(FileStore, GrowingAndTruncatedFilesAreNewVersions) {
  write(root_ / "k", "01234567");
  const auto first = read_now(store_, "k", {0, 4, true});
  ASSERT_EQ(first->text, "4567");
  std::ofstream(root_ / "k", std::ios::app) << "89";
  const auto second = read_now(store_, "k", {0, 4, true});
  EXPECT_EQ(second->text, "6789");
  EXPECT_EQ(second->object_size, 10u);
  EXPECT_FALSE(first->seen == second->seen);
  fs::resize_file(root_ / "k", 3);
  EXPECT_EQ(text("k", {0, 4, true}), "corrupt_data: the range exceeds the object: last 4 bytes of 3 bytes");
}

TEST_F(FileStore, PipesSocketsAndDevicesNeitherHangNorRead) {
  ASSERT_EQ(::mkfifo((root_ / "pipe").c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", root_ / "zero");
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ::sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = root_ / "socket";
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.c_str(), path.size());
  ASSERT_EQ(::bind(listener, reinterpret_cast<const ::sockaddr*>(&address), sizeof(address)), 0);
  for (const char* key : {"pipe", "zero", "socket"}) {
    for (const byte_range& range : {byte_range{}, byte_range{0, 4, false}, byte_range{0, 0, false}})
      EXPECT_EQ(code_of(read_now(store_, key, range)), errc::io_error) << key << " " << to_string(range);
  }
  ::close(listener);
}

TEST_F(FileStore, DeniedReadsAreNotAbsentObjects) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  write(root_ / "closed/k", "0123");
  write(root_ / "k", "0123");
  EXPECT_EQ(text("k"), "0123");
  fs::permissions(root_ / "k", fs::perms::none);
  fs::permissions(root_ / "closed", fs::perms::none);
  for (const char* key : {"k", "closed/k", "closed/nothing"}) {
    EXPECT_EQ(code_of(read_now(store_, key, {0, 4, false})), errc::permission_denied) << key;
    EXPECT_EQ(code_of(read_now(store_, key)), errc::permission_denied) << key;
  }
  fs::permissions(root_ / "closed", fs::perms::owner_all);
}

TEST_F(FileStore, LinkCyclesAndLongNamesAreErrorsAndNotAbsent) {
  fs::create_symlink("loop", root_ / "loop");
  EXPECT_EQ(code_of(read_now(store_, "loop")), errc::io_error);
  EXPECT_EQ(code_of(read_now(store_, "loop", {0, 4, false})), errc::io_error);
  EXPECT_EQ(code_of(read_now(store_, std::string(300, 'x'))), errc::io_error);
  EXPECT_EQ(code_of(read_now(store_, std::string(5000, 'x'))), errc::io_error);
  std::string deep = "x";
  for (int i = 0; i < 3000; ++i) deep += "/x";
  EXPECT_EQ(code_of(read_now(store_, deep)), errc::io_error);
}

TEST_F(FileStore, ARemovedRootIsNotAnArrayOfFillValues) {
  EXPECT_EQ(text("k"), "not_found: no such object");
  write(root_ / "k", "0123");
  EXPECT_EQ(text("k"), "0123");
  EXPECT_EQ(text("nothing"), "not_found: no such object");
  fs::rename(root_, folder_.path() / "aside");
  for (const byte_range& range : {byte_range{}, byte_range{0, 4, false}, byte_range{0, 0, false}})
    EXPECT_EQ(code_of(read_now(store_, "k", range)), errc::io_error);
  fs::rename(folder_.path() / "aside", root_);
  EXPECT_EQ(text("k"), "0123");
}

TEST_F(FileStore, ReadsHugeSparseFilesAtTheirEnd) {
  const std::uint64_t size = std::uint64_t{5} << 30;
  const int file = ::open((root_ / "k").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  ASSERT_EQ(::ftruncate(file, static_cast<::off_t>(size)), 0);
  ASSERT_EQ(::pwrite(file, "tail", 4, static_cast<::off_t>(size - 4)), 4);
  ::close(file);
  EXPECT_EQ(text("k", {0, 4, true}), "tail");
  EXPECT_EQ(text("k", {size - 4, 4, false}), "tail");
  EXPECT_EQ(text("k", {size - 3, 4, false}),
            "corrupt_data: the range exceeds the object: [5368709117, 5368709121) of 5368709120 bytes");
  byte_read whole;
  whole.key = "k";
  whole.max_bytes = 1000;
  EXPECT_EQ(read_now(store_, whole).error().to_string(),
            "corrupt_data: the object is 5368709120 bytes, at most 1000 are allowed");
}

TEST_F(FileStore, ReadsMoreFilesThanItKeepsOpen) {
  file_store_options options;
  options.max_open_files = 4;
  file_store few(root_.string(), options);
  for (int i = 0; i < 40; ++i) write(root_ / ("k" + std::to_string(i)), std::to_string(1000 + i));
  for (int round = 0; round < 3; ++round)
    for (int i = 0; i < 40; ++i)
      EXPECT_EQ(read_now(few, "k" + std::to_string(i), {0, 4, false})->text, std::to_string(1000 + i));
}

TEST_F(FileStore, ReleasesItsDescriptorsIfTheProcessHasNone) {
  for (int i = 0; i < 40; ++i) write(root_ / ("k" + std::to_string(i)), std::to_string(1000 + i));
  for (int i = 0; i < 30; ++i) EXPECT_EQ(text("k" + std::to_string(i)), std::to_string(1000 + i));
  ::rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);  // the lowest free number: from here on, files cannot be opened
  ::close(next);
  ::rlimit now = before;
  now.rlim_cur = static_cast<::rlim_t>(next);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &now), 0);
  const std::string got = text("k35");
  const std::string whole = text("k36", {});
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(got, "1035");
  EXPECT_EQ(whole, "1036");
}

TEST_F(FileStore, AForkedChildReadsOnItsOwn) {
  for (int i = 0; i < 20; ++i) write(root_ / ("k" + std::to_string(i)), std::to_string(1000 + i));
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    for (int i = 0; !stop; ++i) static_cast<void>(text("k" + std::to_string(i % 20)));
  });
  int failed = 0;
  for (int round = 0; round < 10; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);
      bool good = true;
      for (int i = 0; i < 20; ++i) good = good && text("k" + std::to_string(i)) == std::to_string(1000 + i);
      ::_exit(good ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    failed += status != 0;
  }
  stop = true;
  reader.join();
  EXPECT_EQ(failed, 0);
}

TEST_F(FileStore, ConditionalWritersOfSeveralProcessesLoseNoUpdate) {
  put("counter", "1000");
  constexpr int kProcesses = 3, kEach = 10;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      file_store mine(root_.string());
      for (int n = 0; n < kEach;) {
        const auto now = read_now(mine, "counter");
        if (!now.ok()) ::_exit(1);
        const bytes data = to_bytes(std::to_string(std::stoi(now->text) + 1));
        const part whole(data);
        write_condition match;
        match.what = write_condition::kind::must_match;
        match.expected = now->seen;
        const auto done = mine.put("counter", {&whole, 1}, match);
        if (done.ok()) {
          ++n;
        } else if (done.error().code() != errc::version_changed) {
          ::_exit(2);
        }
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(text("counter"), std::to_string(1000 + kProcesses * kEach));
}

TEST_F(FileStore, LeavesNoTemporaryFiles) {
  put("a/k", "0123");
  write_condition absent;
  absent.what = write_condition::kind::must_be_absent;
  const bytes data = to_bytes("x");
  const part whole(data);
  EXPECT_FALSE(store_.put("a/k", {&whole, 1}, absent).ok());
  EXPECT_TRUE(store_.put("a/n", {&whole, 1}, absent).ok());
  fs::create_directory(root_ / "a/folder");
  const auto onto_folder = store_.put("a/folder", {&whole, 1}, {});
  ASSERT_FALSE(onto_folder.ok());
  EXPECT_EQ(onto_folder.error().code(), errc::io_error);
  const auto below_file = store_.put("a/k/below", {&whole, 1}, {});
  ASSERT_FALSE(below_file.ok());
  EXPECT_EQ(below_file.error().code(), errc::io_error);
  auto names = names_in(root_ / "a");
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"folder", "k", "n"}));
}

TEST_F(FileStore, TheNextWriterRemovesFilesOfAKilledOne) {
  put("a/k", "0123");
  const pid_t child = ::fork();
  if (child == 0) {
    // The system kills it while it writes.
    const ::rlimit small{1 << 20, 1 << 20}, none{0, 0};
    ::signal(SIGXFSZ, SIG_DFL);
    ::setrlimit(RLIMIT_CORE, &none);
    ::setrlimit(RLIMIT_FSIZE, &small);
    file_store mine(root_.string());
    const bytes data(2 << 20);
    const part whole(data);
    (void)mine.put("a/k", {&whole, 1}, {});
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(names_in(root_ / "a").size(), 2u) << "the killed writer left its file";
  // Files of running writers are kept, whether their process is visible here or only their lock is.
  write(root_ / "a" / (".penstock-tmp-" + std::to_string(::getppid()) + "-1"), "lives");
  const fs::path locked = root_ / "a" / ".penstock-tmp-2147483000-1";
  write(locked, "another container's");
  const int lock = ::open(locked.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  write(root_ / "a/.penstock-tmp-zip-x.zip", "no file of a writer");
  file_store next(root_.string());
  ASSERT_TRUE(next.put("a/n", {}, {}).ok());
  auto names = names_in(root_ / "a");
  std::sort(names.begin(), names.end());
  std::vector<std::string> wanted{".penstock-tmp-" + std::to_string(::getppid()) + "-1", ".penstock-tmp-2147483000-1",
                                  ".penstock-tmp-zip-x.zip", "k", "n"};
  std::sort(wanted.begin(), wanted.end());
  EXPECT_EQ(names, wanted);
  EXPECT_EQ(text("a/k"), "0123");
  ::close(lock);
}

TEST_F(FileStore, FailedWritesLeaveTheObjectUnchanged) {
  put("k", "0123");
  const pid_t child = ::fork();  // the limit is the whole process's
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const ::rlimit small{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &small);
    const bytes data(5000);
    const part whole(data);
    const auto done = store_.put("k", {&whole, 1}, {});
    ::_exit(!done.ok() && done.error().code() == errc::io_error ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(text("k", {}), "0123");
  EXPECT_EQ(names_in(root_), std::vector<std::string>{"k"});
}

TEST_F(FileStore, RefusesItsOwnTemporaryNamesAsKeys) {
  const auto done = store_.put("a/.penstock-tmp-1", {}, {});
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), errc::invalid_argument);
}

TEST_F(FileStore, ListingsSkipLinkedFoldersAndSpecialFiles) {
  struct : key_sink {
    bool key(std::string_view key, std::uint64_t) override {
      found.emplace_back(key);
      return true;
    }
    std::vector<std::string> found;
  } sink;
  write(root_ / "a/k", "0123");
  write(root_ / "a/.penstock-tmp-crashed", "0");
  write(folder_.path() / "outside/secret", "0");
  fs::create_directory_symlink(root_, root_ / "a/up");
  fs::create_directory_symlink(root_ / "a", root_ / "a/self");
  fs::create_symlink(root_ / "a/k", root_ / "a/link");
  fs::create_symlink("nowhere", root_ / "a/broken");
  ASSERT_EQ(::mkfifo((root_ / "a/pipe").c_str(), 0600), 0);
  ASSERT_TRUE(store_.list("", listing::objects, sink).ok());
  std::sort(sink.found.begin(), sink.found.end());
  EXPECT_EQ(sink.found, (std::vector<std::string>{"a/k", "a/link"}));
  sink.found.clear();
  ASSERT_TRUE(store_.list("a/", listing::children, sink).ok());
  std::sort(sink.found.begin(), sink.found.end());
  EXPECT_EQ(sink.found, (std::vector<std::string>{"a/k", "a/link", "a/self/", "a/up/"}));
}

TEST_F(FileStore, ListsTheSameNamesWithoutSizes) {
  struct : names_sink {
    bool key(std::string_view key, std::uint64_t size) override {
      found.emplace_back(key);
      total += size;
      return true;
    }
    std::vector<std::string> found;
    std::uint64_t total = 0;
  } sink;
  write(root_ / "a/k", "0123");
  write(root_ / "a/b/c", "0123");
  fs::create_directory_symlink(root_, root_ / "a/up");
  fs::create_symlink(root_ / "a/k", root_ / "a/link");
  ASSERT_EQ(::mkfifo((root_ / "a/pipe").c_str(), 0600), 0);
  ASSERT_TRUE(store_.list("a/", listing::children, sink).ok());
  std::sort(sink.found.begin(), sink.found.end());
  EXPECT_EQ(sink.found, (std::vector<std::string>{"a/b/", "a/k", "a/link", "a/up/"}));
  EXPECT_LE(sink.total, 4U) << "a file whose type the folder reports was looked up";
  sink.found.clear();
  ASSERT_TRUE(store_.list("a/", listing::objects, sink).ok());
  std::sort(sink.found.begin(), sink.found.end());
  EXPECT_EQ(sink.found, (std::vector<std::string>{"a/b/c", "a/k", "a/link"}));
}

TEST_F(FileStore, TruncationDuringAReadIsNeverASuccess) {
  // Readers race with a writer that cuts and refills the file in place.
  write(root_ / "k", std::string(100'000, 'a'));
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop) {
      fs::resize_file(root_ / "k", 10);
      fs::resize_file(root_ / "k", 100'000);
    }
  });
  for (int i = 0; i < 300; ++i) {
    const auto done = i % 2 == 0 ? read_now(store_, "k") : read_now(store_, "k", {50'000, 50'000, false});
    if (done.ok()) {
      EXPECT_TRUE(done->text.size() == done->object_size || done->text.size() == 50'000) << done->text.size();
    } else {
      EXPECT_TRUE(done.error().code() == errc::io_error || done.error().code() == errc::corrupt_data)
          << done.error().to_string();
    }
  }
  stop = true;
  writer.join();
}

// A sync that failed is tried again by the next write that needs it, for all folders.
TEST(ChangedFolders, WhatIsPutBackIsTakenAgain) {
  changed_folders of;
  for (std::size_t i = 0; i <= changed_folders::kMost; ++i) of.add(std::to_string(i));
  bool too_many = false;
  const auto taken = of.take(too_many);
  EXPECT_EQ(taken.size(), changed_folders::kMost);
  EXPECT_TRUE(too_many);
  EXPECT_TRUE(of.take(too_many).empty());
  EXPECT_FALSE(too_many);
  of.put_back(taken, true);
  EXPECT_TRUE(of.take(too_many) == taken);
  EXPECT_TRUE(too_many);
}

}  // namespace
}  // namespace penstock::test
