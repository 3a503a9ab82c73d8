#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>

namespace penstock::inline v0 {

/// The folders in which names changed that may not be on the storage device yet. Thread-safe.
class changed_folders {
 public:
  /// More are counted as all folders.
  static constexpr std::size_t kMost = 1024;

  void add(const std::string& folder) {
    const std::lock_guard lock(mutex_);
    if (paths_.size() < kMost) {
      paths_.insert(folder);
    } else if (!paths_.contains(folder)) {
      too_many_ = true;
    }
  }
  /// Takes all paths out; `too_many` is set if there are others.
  std::unordered_set<std::string> take(bool& too_many) {
    const std::lock_guard lock(mutex_);
    too_many = std::exchange(too_many_, false);
    return std::exchange(paths_, {});
  }
  /// Adds what `take` returned: it is not on the storage device.
  void put_back(const std::unordered_set<std::string>& paths, bool too_many) {
    for (const std::string& each : paths) add(each);
    const std::lock_guard lock(mutex_);
    too_many_ = too_many_ || too_many;
  }
  /// Held from `take` until the paths are on the storage device: another thread must not find none before that.
  std::mutex& syncing() noexcept { return syncing_; }

 private:
  std::mutex syncing_;
  std::mutex mutex_;
  std::unordered_set<std::string> paths_;
  bool too_many_ = false;
};

}  // namespace penstock::inline v0
