// What a read costs, exactly: system calls of the file store, allocations of both.
//
// This executable has its own open, stat, ... and operator new, which count for the thread that asked and pass on.
// They are also the place from which a test gets into the middle of a write.

// ThreadSanitizer brings functions of those names itself, and there are no threads to watch here.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PENSTOCK_HAS_OWN_CALLS
#endif
#endif
#if !defined(PENSTOCK_HAS_OWN_CALLS) && !defined(__SANITIZE_THREAD__)

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdarg>
#include <cstdlib>
#include <fstream>
#include <new>
#include <thread>
#include <utility>

#include "store/file_store.h"
#include "store/memory_store.h"
#include "store/store_fixture.h"

namespace {

struct call_counts {
  int opens = 0, closes = 0, stats = 0, fstats = 0, preads = 0, reads = 0, allocations = 0;
  friend bool operator==(const call_counts&, const call_counts&) = default;
};
void PrintTo(const call_counts& c, std::ostream* out) {
  *out << "open " << c.opens << " close " << c.closes << " stat " << c.stats << " fstat " << c.fstats << " pread "
       << c.preads << " read " << c.reads << " new " << c.allocations;
}

thread_local call_counts* counting = nullptr;
thread_local void (*at_allocation)() = nullptr;  // called once, by the next allocation
void count(int call_counts::*which) {
  if (counting != nullptr) ++(counting->*which);
}

// The function that this executable hides.
template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

// Not inlined, as operator new and delete are not: g++ takes the pair of malloc and free for a mismatch otherwise.
[[gnu::noinline]] void* allocate(std::size_t size) {
  count(&call_counts::allocations);
  if (at_allocation != nullptr) std::exchange(at_allocation, nullptr)();
  return std::malloc(size == 0 ? 1 : size);
}

}  // namespace

// NOLINTBEGIN: the declarations are the system's
extern "C" {
int open(const char* path, int flags, ...) {
  static const auto real = next<int(const char*, int, ...)>("open");
  count(&call_counts::opens);
  std::va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return real(path, flags, mode);
}
int close(int file) {
  static const auto real = next<int(int)>("close");
  count(&call_counts::closes);
  return real(file);
}
int stat(const char* path, struct stat* out) noexcept {
  static const auto real = next<int(const char*, struct stat*)>("stat");
  count(&call_counts::stats);
  return real(path, out);
}
int fstat(int file, struct stat* out) noexcept {
  static const auto real = next<int(int, struct stat*)>("fstat");
  count(&call_counts::fstats);
  return real(file, out);
}
ssize_t pread(int file, void* to, size_t size, off_t offset) {
  static const auto real = next<ssize_t(int, void*, size_t, off_t)>("pread");
  count(&call_counts::preads);
  return real(file, to, size, offset);
}
ssize_t read(int file, void* to, size_t size) {
  static const auto real = next<ssize_t(int, void*, size_t)>("read");
  count(&call_counts::reads);
  return real(file, to, size);
}
}

[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* const memory = allocate(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
// NOLINTEND

namespace penstock::test {
namespace {

// Takes completions without keeping them, and so without allocating.
class counting_sink final : public completion_sink {
 public:
  void complete(std::uint64_t, result<read_done> done) override {
    if (done.ok()) {
      ++good;
      size += done->bytes.size();
    } else {
      code = done.error().code();
    }
  }
  int good = 0;
  std::uint64_t size = 0;
  errc code = errc::internal;
};

class StoreCosts : public testing::Test {
 protected:
  StoreCosts() : store_(folder_.path().string()) {
    room_.reserve(1 << 16).value();
    for (const char* key : {"k", "other"}) std::ofstream(folder_.path() / key) << std::string(10'000, 'x');
    std::this_thread::sleep_for(std::chrono::milliseconds(25));  // files that changed just now cost a wait
  }

  call_counts cost(const store& from, std::span<const byte_read> reads) {
    sink_ = counting_sink();
    call_counts out;
    counting = &out;
    from.read(reads, sink_, {});
    counting = nullptr;
    return out;
  }
  call_counts cost(const store& from, std::string_view key, byte_range range, const version* expected = nullptr) {
    byte_read read;
    read.key = key;
    read.range = range;
    read.expected = expected;
    read.buffer = &room_;
    return cost(from, {&read, 1});
  }

  temporary_folder folder_;
  file_store store_;
  growing_buffer room_;
  counting_sink sink_;
};

constexpr byte_range kRange{100, 200, false};

TEST_F(StoreCosts, AWarmRangedReadIsOneStatAndOnePread) {
  cost(store_, "k", kRange);
  const version seen = read_now(store_, "k", kRange)->seen;
  const call_counts wanted{.stats = 1, .preads = 1};
  EXPECT_EQ(cost(store_, "k", kRange), wanted);
  EXPECT_EQ(cost(store_, "k", {0, 68, true}), wanted);
  EXPECT_EQ(cost(store_, "k", kRange, &seen), wanted);
  EXPECT_EQ(sink_.good, 1);
  EXPECT_EQ(sink_.size, 200u);
}

TEST_F(StoreCosts, RequestsOfOneCallForOneKeyShareTheStat) {
  cost(store_, "k", kRange);
  cost(store_, "other", kRange);
  byte_read reads[7];
  for (byte_read& each : reads) {
    each.key = "k";
    each.range = kRange;
    each.buffer = &room_;
  }
  reads[3].range.length = 0;  // a version check among them
  EXPECT_EQ(cost(store_, reads), (call_counts{.stats = 1, .preads = 6}));
  EXPECT_EQ(sink_.good, 7);
  reads[5].key = reads[6].key = "other";
  EXPECT_EQ(cost(store_, reads), (call_counts{.stats = 2, .preads = 6}));
}

TEST_F(StoreCosts, AColdRangedReadOpensTheFileOnce) {
  call_counts cold = cost(store_, "k", kRange);
  EXPECT_GT(cold.allocations, 0);
  cold.allocations = 0;
  EXPECT_EQ(cold, (call_counts{.opens = 1, .fstats = 1, .preads = 1}));

  std::ofstream(folder_.path() / "new") << std::string(10'000, 'y');
  std::this_thread::sleep_for(std::chrono::milliseconds(25));
  std::filesystem::rename(folder_.path() / "new", folder_.path() / "k");
  std::this_thread::sleep_for(std::chrono::milliseconds(25));
  call_counts replaced = cost(store_, "k", kRange);
  replaced.allocations = 0;
  EXPECT_EQ(replaced, (call_counts{.opens = 1, .closes = 1, .stats = 1, .fstats = 1, .preads = 1}));
}

TEST_F(StoreCosts, AWholeObjectIsOpenFstatReadClose) {
  const call_counts wanted{.opens = 1, .closes = 1, .fstats = 1, .reads = 1};
  EXPECT_EQ(cost(store_, "k", {}), wanted);
  EXPECT_EQ(sink_.size, 10'000u);
  const version seen = read_now(store_, "k")->seen;
  EXPECT_EQ(cost(store_, "k", {}, &seen), wanted);
  bytes memory(10'000);
  byte_read read;
  read.key = "k";
  read.destination = memory;
  EXPECT_EQ(cost(store_, {&read, 1}), wanted);
}

TEST_F(StoreCosts, AVersionCheckIsOneStat) {
  const version seen = read_now(store_, "k", kRange)->seen;
  EXPECT_EQ(cost(store_, "k", {0, 0, false}, &seen), call_counts{.stats = 1});
  EXPECT_EQ(sink_.good, 1);
  file_store fresh(folder_.path().string());
  EXPECT_EQ(cost(fresh, "k", {0, 0, false}, &seen), call_counts{.stats = 1});
  EXPECT_EQ(sink_.good, 1);
}

TEST_F(StoreCosts, AnAbsentObjectIsOneOpen) {
  call_counts absent = cost(store_, "c/0/0", {});
  absent.allocations = 0;
  EXPECT_EQ(absent, call_counts{.opens = 1});
  EXPECT_EQ(sink_.code, errc::not_found);
  cost(store_, "k", {});  // from now on the root is known to exist, and is looked for
  absent = cost(store_, "c/0/0", {});
  absent.allocations = 0;
  EXPECT_EQ(absent, (call_counts{.opens = 1, .stats = 1}));
}

TEST_F(StoreCosts, WarmReadsFromMemoryAllocateNothing) {
  memory_store memory;
  const bytes data(10'000);
  const part whole(data);
  ASSERT_TRUE(memory.put("a/c/0/0", {&whole, 1}, {}).ok());
  EXPECT_EQ(cost(memory, "a/c/0/0", {}), call_counts{});
  EXPECT_EQ(cost(memory, "a/c/0/0", kRange), call_counts{});
  EXPECT_EQ(sink_.size, 200u);
  const version seen = read_now(memory, "a/c/0/0")->seen;
  EXPECT_EQ(cost(memory, "a/c/0/0", {0, 0, false}, &seen), call_counts{});
  EXPECT_EQ(sink_.good, 1);
}

memory_store* forked_store = nullptr;
pid_t forked_child = 0;

// The child asks the store that its parent is in the middle of writing to, and says how that went.
void fork_and_look() {
  forked_child = ::fork();
  if (forked_child != 0) return;
  ::alarm(10);
  const auto read = read_now(*forked_store, "k");
  const auto erased = forked_store->erase("k", {});
  const bool refused = !read.ok() && read.error().code() == errc::io_error && !erased.ok();
  ::_exit(refused ? 0 : 1);
}

TEST_F(StoreCosts, AForkIntoAWriteToMemoryIsAnErrorInTheChild) {
  memory_store memory;
  const bytes data(100);
  const part whole(data);
  ASSERT_TRUE(memory.put("k", {&whole, 1}, {}).ok());
  forked_store = &memory;
  // A short key allocates twice: its object, then the map's node in the middle of the write.
  at_allocation = [] { at_allocation = fork_and_look; };
  ASSERT_TRUE(memory.put("n", {&whole, 1}, {}).ok());
  at_allocation = nullptr;
  int status = -1;
  ::waitpid(forked_child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(read_now(memory, "n").ok());
}

}  // namespace
}  // namespace penstock::test

#endif
