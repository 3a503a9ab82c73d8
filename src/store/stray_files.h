#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

namespace penstock::inline v0 {

/// Files under way begin like this; listings leave them out, and no object may have such a name.
inline constexpr std::string_view kTemporaryPrefix = ".penstock-tmp-";

/// The name of a file under way that this process writes; `salt` keeps its own apart.
std::string temporary_name(std::uint64_t salt);

/// Removes files and folders under way whose writers are gone from an open folder.
///
/// Gone is a writer whose process is not there and who holds no lock of the file (a process of another container is not
/// there for us, but its lock is), or, as process numbers come again, has held none for an hour. Looks at the folder's
/// first 65,536 names: a folder of a million objects must not delay the first write for long.
void remove_stray_files(int folder) noexcept;

/// Which folders a store has looked through. Thread-safe.
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
