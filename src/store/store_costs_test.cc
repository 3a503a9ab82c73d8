// The exact costs of a read: system calls of the file store, allocations of both.
//
// The counting functions also allow a test to run code in the middle of a write.

// ThreadSanitizer defines functions with those names itself, and there are no threads to check here.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PENSTOCK_HAS_OWN_CALLS
#endif
#endif
#if !defined(PENSTOCK_HAS_OWN_CALLS) && !defined(__SANITIZE_THREAD__)

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "store/file_store.h"
#include "store/memory_store.h"
#include "store/store_fixture.h"
#include "support/call_counts.h"

namespace penstock::test {
namespace {

// Receives completions without storing them, and so without allocating.
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
  cost(store_, "k", {});  // from now on the root is known to exist, and is checked
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

// The child uses the store while its parent is writing to it, and reports the result.
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
