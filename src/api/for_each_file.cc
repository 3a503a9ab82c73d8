#include "api/for_each_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

#include "engine/context_state.h"
#include "store/file_status.h"

namespace penstock::inline v0 {
namespace {

/// Files of this machine that one thread takes at a time: often they are in memory, and a thread costs more than some.
constexpr std::size_t kBatch = 64;

void side_by_side(std::size_t files, std::size_t batch, std::size_t most_threads,
                  const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  const auto take = [&] {
    for (std::size_t begin = 0; (begin = next.fetch_add(batch, std::memory_order_relaxed)) < files;)
      for (std::size_t i = begin; i < std::min(files, begin + batch); ++i) work(i);
  };
  const std::size_t threads = std::min((files + batch - 1) / batch, most_threads);
  std::vector<std::jthread> others;
  try {
    while (others.size() + 1 < threads) others.emplace_back(take);
  } catch (const std::system_error&) {  // fewer of them take longer
  }
  take();
}

}  // namespace

void for_each_file(std::size_t files, const store& from, context& with, const std::function<void(std::size_t)>& work) {
  const std::string place = from.uri();
  const bool waits = from.traits().blocking;
  const std::size_t batch = !waits || place.starts_with("file:") || place.starts_with("zip:") ? kBatch : 1;
  side_by_side(files, batch, waits ? with.state().io_concurrency() : with.threads(), work);
}

result<std::vector<std::optional<file_stamp>>> file_stamps(const std::vector<std::string>& paths, context& with) {
  std::vector<std::optional<file_stamp>> found(paths.size());
  std::vector<int> failed(paths.size(), 0);
  side_by_side(paths.size(), kBatch, with.state().io_concurrency(), [&](std::size_t i) {
    struct ::stat status{};
    const bool is_name = paths[i].find('\0') == std::string::npos;
    if (!is_name || ::stat(paths[i].c_str(), &status) != 0) {
      const int why = is_name ? errno : EINVAL;
      if (why != ENOENT && why != ENOTDIR) failed[i] = why;
      return;
    }
    const version seen = version_of(status);
    found[i] = {static_cast<std::uint64_t>(status.st_size), static_cast<std::int64_t>(seen.word[kTimeWord])};
  });
  for (std::size_t i = 0; i < failed.size(); ++i)
    if (failed[i] != 0) return read_failure(failed[i], fmt::format("looking at '{}'", paths[i]));
  return found;
}

}  // namespace penstock::inline v0
