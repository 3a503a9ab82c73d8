// Writers that are killed: at any moment, and at every system call of a write. Every object then has its old value or
// its new one, and the next writer leaves no stray file.

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <numeric>
#include <random>
#include <thread>

#include <penstock/penstock.h>
#include "store/store_fixture.h"
#include "support/model_array.h"

// To sanitizers, a child that is killed during a write looks like a leak or a race.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PENSTOCK_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PENSTOCK_SANITIZED 1
#endif
#endif

namespace penstock::test {
namespace {

constexpr std::int64_t kItems = 400, kShard = 100, kChunk = 10;

model_options sharded() {
  model_options out;
  out.shape = {kItems};
  out.chunks = {kChunk};
  out.shards = extents{kShard};
  out.codecs =
      R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"zstd","configuration":{"level":1,"checksum":false}}])";
  return out;
}

std::shared_ptr<context> one_thread() {
  context_options options;
  options.threads = 1;
  return context::make(options).value();
}

array open_at(const std::filesystem::path& folder) {
  open_options where;
  where.context = one_thread();
  return open_array(std::shared_ptr<const store>(open_file_store(folder.string())), where).value();
}

// Item i becomes `round`, in part of the array.
result<> write_round(const array& to, std::int64_t begin, std::int64_t end, std::int32_t round) {
  tensor_view value{reinterpret_cast<std::byte*>(&round), to.type(), {static_cast<std::uint64_t>(end - begin)}, {0}};
  return to.write(selection(basic_selection{{slice{begin, end, {}}}}), value);
}

std::vector<std::int32_t> read_all(const std::filesystem::path& folder) {
  const array from = open_at(folder);
  std::vector<std::int32_t> out(from.shape()[0]);
  const auto done = from.read(tensor_view::contiguous(out.data(), from.type(), from.shape()));
  EXPECT_TRUE(done.ok()) << done.error().to_string();
  return out;
}

std::size_t stray_files(const std::filesystem::path& folder) {
  std::size_t out = 0;
  for (const auto& each : std::filesystem::recursive_directory_iterator(folder))
    out += each.is_regular_file() && each.path().filename().string().starts_with(".penstock") ? 1 : 0;
  return out;
}

// Makes the writer appear to have ended some time ago.
void make_old(const std::filesystem::path& folder) {
  for (const auto& each : std::filesystem::recursive_directory_iterator(folder)) {
    if (!each.path().filename().string().starts_with(".penstock-tmp-")) continue;
    std::filesystem::last_write_time(each.path(),
                                     std::filesystem::file_time_type::clock::now() - std::chrono::minutes(1));
  }
}

TEST(Crash, AWriterKilledAtAnyMomentLeavesOldOrNew) {
  const temporary_folder folder;
  write_model(*open_file_store(folder.path().string()), "", sharded());
  ASSERT_TRUE(write_round(open_at(folder.path()), 0, kItems, 0).ok());
  std::mt19937_64 random(7);
  std::int32_t first = 1;
  for (int kill = 0; kill < 30; ++kill) {
    const ::pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const array mine = open_at(folder.path());
      for (std::int32_t round = first;; ++round)
        if (!write_round(mine, 5, kItems - 5, round).ok()) ::_exit(1);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(2000 + random() % 20'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    const auto values = read_all(folder.path());
    std::int32_t newest = first;
    for (std::int64_t shard = 0; shard < kItems; shard += kShard) {
      // Within one object all changed items are of one round.
      const std::int32_t here = values[static_cast<std::size_t>(shard + 50)];
      newest = std::max(newest, here);
      for (std::int64_t i = shard; i < shard + kShard; ++i) {
        const bool edge = i < 5 || i >= kItems - 5;
        ASSERT_EQ(values[static_cast<std::size_t>(i)], edge ? 0 : here) << i;
      }
    }
    first = newest + 1;
  }
  make_old(folder.path());
  // Not the fill value: on a slow machine no child may have stored a shard, and a shard of fill values is not written.
  ASSERT_TRUE(write_round(open_at(folder.path()), 0, 1, -1).ok());
  EXPECT_EQ(stray_files(folder.path()), 0u);
}

#if defined(__linux__) && !defined(PENSTOCK_SANITIZED)

// Runs `work` in a child and kills it at the entry or return of its n-th system call; false if it ended before that.
// Nothing if this process may not trace.
std::optional<bool> killed_at(int call, const std::function<void()>& work) {
  const ::pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(77);
    ::raise(SIGSTOP);
    work();
    ::_exit(0);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return std::nullopt;
  for (int i = 0;; ++i) {
    if (i == call) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return true;
    }
    if (::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr) != 0) return std::nullopt;
    if (::waitpid(child, &status, 0) != child) return std::nullopt;
    if (WIFEXITED(status)) return WEXITSTATUS(status) == 0 ? std::optional<bool>(false) : std::nullopt;
  }
}

TEST(Crash, AWriteKilledAtAnySystemCallLeavesOldOrNew) {
  const temporary_folder folder;
  write_model(*open_file_store(folder.path().string()), "", sharded());
  ASSERT_TRUE(write_round(open_at(folder.path()), 0, kItems, 0).ok());
  const array mine = open_at(folder.path());
  int kills = 0, changed = 0;
  for (int call = 0;; ++call) {
    const auto killed = killed_at(call, [&] {
      if (!write_round(mine, 105, 195, call + 1).ok()) ::_exit(1);
    });
    if (!killed) GTEST_SKIP() << "this process may not trace";
    const auto values = read_all(folder.path());
    const std::int32_t here = values[150];
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(values[i], i >= 105 && i < 195 ? here : 0) << "call " << call << " item " << i;
    ASSERT_LE(here, call + 1);
    changed += here == call + 1 ? 1 : 0;
    if (!*killed) break;
    ++kills;
    ASSERT_LT(call, 2000);
  }
  EXPECT_GT(kills, 20);
  EXPECT_GE(changed, 2);  // after the rename the write is complete
  make_old(folder.path());
  ASSERT_TRUE(write_round(open_at(folder.path()), 0, 1, 0).ok());
  EXPECT_EQ(stray_files(folder.path()), 0u);
}

TEST(Crash, AnAppendKilledAtAnySystemCallIsAtomic) {
  const temporary_folder folder;
  write_model(*open_file_store(folder.path().string()), "", sharded());
  ASSERT_TRUE(write_round(open_at(folder.path()), 0, kItems, 0).ok());
  const array mine = open_at(folder.path());
  std::uint64_t length = kItems;
  int kills = 0;
  for (int call = 0;; call += 3) {
    std::int32_t value = call + 1;
    const tensor_view rows{reinterpret_cast<std::byte*>(&value), mine.type(), {37}, {0}};
    const auto killed = killed_at(call, [&] {
      if (!mine.append(rows, 0).ok()) ::_exit(1);
    });
    if (!killed) GTEST_SKIP() << "this process may not trace";
    const auto values = read_all(folder.path());
    ASSERT_TRUE(values.size() == length || values.size() == length + 37) << call;
    for (std::size_t i = static_cast<std::size_t>(length); i < values.size(); ++i) ASSERT_EQ(values[i], value);
    for (std::size_t i = 0; i < kItems; ++i) ASSERT_EQ(values[i], 0);
    length = values.size();
    if (!*killed) break;
    ++kills;
    ASSERT_LT(call, 4000);
  }
  EXPECT_GT(kills, 20);
  std::int32_t value = 9;
  const tensor_view rows{reinterpret_cast<std::byte*>(&value), mine.type(), {1}, {0}};
  make_old(folder.path());
  ASSERT_TRUE(open_at(folder.path()).append(rows, 0).ok());
  EXPECT_EQ(stray_files(folder.path()), 0u);  // neither a stray file nor a claim
}

#endif

TEST(Crash, EightProcessesWriteOneShardAndLoseNothing) {
  const temporary_folder folder;
  constexpr std::int64_t kProcesses = 8, kEach = 10;
  model_options options = sharded();
  options.shape = {static_cast<std::uint64_t>(kProcesses * kEach * kChunk)};
  options.shards = options.shape;
  options.missing = 1;
  write_model(*open_file_store(folder.path().string()), "", options);
  std::vector<::pid_t> children;
  for (std::int64_t p = 0; p < kProcesses; ++p) {
    const ::pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const array mine = open_at(folder.path());
      for (std::int64_t i = 0; i < kEach; ++i) {
        const std::int64_t begin = (i * kProcesses + p) * kChunk;
        if (!write_round(mine, begin, begin + kChunk, static_cast<std::int32_t>(1 + begin)).ok()) ::_exit(1);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const ::pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  const auto values = read_all(folder.path());
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], 1 + static_cast<std::int32_t>(i / kChunk * kChunk)) << i;
  EXPECT_EQ(stray_files(folder.path()), 0u);
}

}  // namespace
}  // namespace penstock::test
