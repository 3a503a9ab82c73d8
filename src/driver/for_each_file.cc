#include "driver/for_each_file.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <exception>
#include <memory>
#include <mutex>

#include "base/waiting.h"
#include "engine/batch_job.h"
#include "engine/context_state.h"
#include "store/file_status.h"

namespace penstock::inline v0 {
namespace {

/// Local files that one thread takes at a time: few, so that all threads end at about the same time.
constexpr std::size_t kBatch = 16;
/// If a thread was off its processor for longer, it waited for the file.
constexpr std::chrono::microseconds kWait{50};

std::chrono::nanoseconds processor_time() {
  ::timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

/// Returns how often this thread gave up its processor to wait. Being preempted on a busy machine is not counted. On
/// systems without this count (macOS), each call returns a count that is larger by the files of a batch.
long waits_of_thread() {
#ifdef RUSAGE_THREAD
  ::rusage use{};
  ::getrusage(RUSAGE_THREAD, &use);
  return use.ru_nvcsw;
#else
  thread_local long counted = 0;
  return counted += static_cast<long>(kBatch);
#endif
}

/// Batches of files, which threads of the context's pool take: few threads at first, and all threads as soon as one had
/// to wait.
class file_batches {
 public:
  file_batches(std::size_t files, std::size_t batch, const std::function<void(std::size_t)>& work, executor& on)
      : files_(files), batch_(batch), batches_((files + batch - 1) / batch), work_(work), on_(on) {}

  /// Throws the first exception of a file.
  /// \param first  Threads at the start. \param most  Threads if reading the files takes waiting.
  void run(std::size_t first, std::size_t most) {
    most_ = std::min(batches_, most);
    first_ = std::min(first, most_);
    if (batches_ != 0) take_all(first_);
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  // Returns when no batch is left and none of this call's threads has one.
  void take_all(std::size_t threads) {
    constexpr bool kWaits = true;
    const auto take = [this](std::size_t, unsigned) {
      try {
        take_one();
      } catch (const std::exception&) {  // of the caller's work; this may be a thread of the pool
        const std::lock_guard lock(mutex_);
        if (!thrown_) thrown_ = std::current_exception();
      }
      return result<>();
    };
    on_.run(std::make_shared<batch_job>(batches_, take, kWaits), static_cast<unsigned>(threads), {}, {});
  }

  void take_one() {
    const std::size_t begin = next_.fetch_add(batch_, std::memory_order_relaxed);
    if (begin >= files_) return;
    const interruptible_waits::join same(waits_);
    const std::size_t end = std::min(files_, begin + batch_);
    const auto began = std::chrono::steady_clock::now();
    const auto used = processor_time();
    const long waits = waits_of_thread();
    for (std::size_t i = begin; i < end; ++i) work_(i);
    const auto idle = (std::chrono::steady_clock::now() - began) - (processor_time() - used);
    // With slow storage, a thread waits for each file. A thread that contends for a lock waits only occasionally.
    const bool waited = idle > kWait * (end - begin) && waits_of_thread() - waits >= static_cast<long>(end - begin);
    // The other initial threads continue.
    if (waited && most_ > first_ && !grown_.exchange(true, std::memory_order_relaxed)) take_all(most_ - first_ + 1);
  }

  const std::size_t files_, batch_, batches_;
  const std::function<void(std::size_t)>& work_;
  executor& on_;
  interruptible_waits* const waits_ = interruptible_waits::current();
  std::size_t most_ = 1, first_ = 1;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> grown_{false};
  std::mutex mutex_;
  std::exception_ptr thrown_;
};

}  // namespace

void for_each_file(std::size_t files, const store& from, context& with, const std::function<void(std::size_t)>& work) {
  const std::string place = from.uri();
  const bool waits = from.traits().blocking;
  const bool here = !waits || place.starts_with("file:") || place.starts_with("zip:");
  const std::size_t most = waits ? with.state().io_concurrency() : with.threads();
  file_batches(files, here ? kBatch : 1, work, with.state().executor()).run(here ? with.threads() : most, most);
}

void side_by_side(std::size_t count, context& with, const std::function<void(std::size_t)>& work) {
  file_batches(count, 1, work, with.state().executor()).run(with.threads(), with.threads());
}

result<std::vector<std::optional<queried_file>>> query_files(const std::vector<std::string>& paths, context& with) {
  std::vector<std::optional<queried_file>> found(paths.size());
  std::vector<int> failed(paths.size(), 0);
  const auto look = [&](std::size_t i) {
    struct ::stat status{};
    const bool is_name = paths[i].find('\0') == std::string::npos;
    if (!is_name || ::stat(paths[i].c_str(), &status) != 0) {
      const int why = is_name ? errno : EINVAL;
      if (why != ENOENT && why != ENOTDIR) failed[i] = why;
      return;
    }
    const version seen = version_of(status);
    found[i] = {{static_cast<std::uint64_t>(status.st_size), static_cast<std::int64_t>(seen.word[kTimeWord])}, seen};
  };
  file_batches(paths.size(), kBatch, look, with.state().executor()).run(with.threads(), with.state().io_concurrency());
  for (std::size_t i = 0; i < failed.size(); ++i)
    if (failed[i] != 0) return read_failure(failed[i], fmt::format("looking at '{}'", paths[i]));
  return found;
}

}  // namespace penstock::inline v0
