#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

namespace penstock::inline v0 {

/// Prefix of temporary files; listings omit them, and no object may have such a name.
inline constexpr std::string_view kTemporaryPrefix = ".penstock-tmp-";

/// The name of a temporary file of this process; `salt` makes it unique.
std::string temporary_name(std::uint64_t salt);

/// Removes temporary files and folders of ended writers from an open folder.
///
/// A writer has ended if it holds no lock of the file, and its process does not exist or, because process numbers are
/// reused, the file was not modified for an hour. (A process of another container is not visible, but its lock is.)
/// Checks the folder's first 65,536 names: a folder of a million objects must not delay the first write for long.
void remove_stray_files(int folder) noexcept;

/// The folders that a store has searched. Thread-safe.
class swept_folders {
 public:
  /// True once for each folder.
  bool first_time(std::string_view path) {
    const std::lock_guard lock(mutex_);
    return seen_.insert(std::hash<std::string_view>()(path)).second;
  }

 private:
  std::mutex mutex_;
  std::unordered_set<std::size_t> seen_;
};

}  // namespace penstock::inline v0
