#include "driver/for_each_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/waiting.h"
#include "engine/context_state.h"
#include "store/file_status.h"

namespace penstock::inline v0 {
namespace {

/// Files of this machine that one thread takes at a time: often they are in memory, and a thread costs more than some.
constexpr std::size_t kBatch = 64;
/// A file that takes longer was waited for.
constexpr std::chrono::microseconds kWait{50};

/// Threads that take batches of files: few at first, and all of them once one had to wait.
class crew {
 public:
  crew(std::size_t files, std::size_t batch, const std::function<void(std::size_t)>& work)
      : files_(files), batch_(batch), work_(work) {}

  /// \param first  Threads that begin. \param most  Where files are waited for.
  void run(std::size_t first, std::size_t most) {
    const std::size_t batches = (files_ + batch_ - 1) / batch_;
    most_ = std::min(batches, most);
    grow(std::min(first, most_));
    take();
    const std::lock_guard lock(mutex_);
    growing_ = false;
  }

 private:
  void grow(std::size_t threads) {
    const std::lock_guard lock(mutex_);
    try {
      while (growing_ && others_.size() + 1 < threads)
        others_.emplace_back([this] {
          const interruptible_waits::join same(waits_);
          take();
        });
    } catch (const std::system_error&) {  // fewer of them take longer
      growing_ = false;
    }
  }

  void take() {
    for (std::size_t begin = 0; (begin = next_.fetch_add(batch_, std::memory_order_relaxed)) < files_;) {
      const std::size_t end = std::min(files_, begin + batch_);
      const auto began = std::chrono::steady_clock::now();
      for (std::size_t i = begin; i < end; ++i) work_(i);
      const bool waited = std::chrono::steady_clock::now() - began > kWait * (end - begin);
      if (waited && !grown_.exchange(true, std::memory_order_relaxed)) grow(most_);
    }
  }

  const std::size_t files_, batch_;
  const std::function<void(std::size_t)>& work_;
  interruptible_waits* const waits_ = interruptible_waits::current();
  std::size_t most_ = 1;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> grown_{false};
  std::mutex mutex_;  // of what follows
  bool growing_ = true;
  std::vector<std::jthread> others_;  // they end before what they use
};

}  // namespace

void for_each_file(std::size_t files, const store& from, context& with, const std::function<void(std::size_t)>& work) {
  const std::string place = from.uri();
  const bool waits = from.traits().blocking;
  const bool here = !waits || place.starts_with("file:") || place.starts_with("zip:");
  const std::size_t most = waits ? with.state().io_concurrency() : with.threads();
  crew(files, here ? kBatch : 1, work).run(here ? with.threads() : most, most);
}

result<std::vector<std::optional<file_stamp>>> file_stamps(const std::vector<std::string>& paths, context& with) {
  std::vector<std::optional<file_stamp>> found(paths.size());
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
    found[i] = {static_cast<std::uint64_t>(status.st_size), static_cast<std::int64_t>(seen.word[kTimeWord])};
  };
  crew(paths.size(), kBatch, look).run(with.threads(), with.state().io_concurrency());
  for (std::size_t i = 0; i < failed.size(); ++i)
    if (failed[i] != 0) return read_failure(failed[i], fmt::format("looking at '{}'", paths[i]));
  return found;
}

}  // namespace penstock::inline v0
