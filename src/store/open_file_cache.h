#pragma once

#include <penstock/store.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/file_status.h"

namespace penstock::inline v0 {

/// The files that a store may keep open: `wanted`, but no more than a quarter of the process's limit, or eight. Other
/// parts of the process need files too, and a store that takes the last descriptor would break those.
unsigned open_file_limit(unsigned wanted) noexcept;

/// A file that is open for reading, and the version of its key's object. Counts its owners.
class open_file {
 public:
  open_file(std::string_view key, descriptor file, const version& seen, std::uint64_t size_bytes)
      : key_(key), file_(std::move(file)), seen_(seen), size_bytes_(size_bytes) {}

  const std::string& key() const noexcept { return key_; }
  int number() const noexcept { return file_.get(); }
  const version& seen() const noexcept { return seen_; }
  std::uint64_t size_bytes() const noexcept { return size_bytes_; }

 private:
  friend class open_file_ref;
  std::atomic<std::uint32_t> owners_{0};
  std::string key_;
  descriptor file_;
  version seen_;
  std::uint64_t size_bytes_;
};

/// Keeps an open file open, even if the cache drops it in the meantime. Null if it has none.
class open_file_ref {
 public:
  open_file_ref() noexcept = default;
  explicit open_file_ref(open_file* file) noexcept : file_(file) {
    if (file_ != nullptr) file_->owners_.fetch_add(1, std::memory_order_relaxed);
  }
  open_file_ref(const open_file_ref& other) noexcept : open_file_ref(other.file_) {}
  open_file_ref(open_file_ref&& other) noexcept : file_(std::exchange(other.file_, nullptr)) {}
  open_file_ref& operator=(open_file_ref other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~open_file_ref() {
    if (file_ != nullptr && file_->owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete file_;
  }
  const open_file* operator->() const noexcept { return file_; }
  explicit operator bool() const noexcept { return file_ != nullptr; }
  friend bool operator==(const open_file_ref& a, const open_file_ref& b) noexcept { return a.file_ == b.file_; }

 private:
  open_file* file_ = nullptr;
};

/// At most `capacity` open files by key; the least recently used of a stripe is closed. Thread-safe.
///
/// Descriptors belong to the process: all of its caches together hold at most half of its limit, whatever their
/// capacities, and the cache that began to hold files first is emptied for another. So a program may have any number of
/// arrays open.
///
/// A look-up takes the lock of one stripe for a scan of a few cache lines and allocates nothing: compared with the two
/// system calls of a warm read it is negligible.
class open_file_cache {
 public:
  explicit open_file_cache(unsigned capacity);
  open_file_cache(const open_file_cache&) = delete;
  open_file_cache& operator=(const open_file_cache&) = delete;
  ~open_file_cache();

  open_file_ref find(std::string_view key) noexcept;
  /// Adds `file`, and drops the earlier one with its key.
  void insert(const open_file_ref& file);
  /// Drops `file`, if it still is the one for its key.
  void drop(const open_file_ref& file) noexcept;
  /// Clears every cache of this process.
  static void clear_all() noexcept;

 private:
  class holders;  // the caches of this process that hold files
  struct slot {
    std::uint64_t used = 0;  // last use; 0: the slot is free
    std::uint64_t hash = 0;
    open_file_ref file;
  };
  struct stripe {
    std::mutex mutex;
    std::uint64_t now = 0;
    std::vector<slot> slots;  // as many as were ever needed at a time
  };
  /// Threads that look up different files seldom wait for each other, and a scan stays short.
  static constexpr unsigned kStripes = 8;
  using contents = std::array<std::vector<slot>, kStripes>;

  bool put(const open_file_ref& file);  // true: it holds one file more
  contents take_all() noexcept;
  static std::uint64_t hash_of(std::string_view key) noexcept { return std::hash<std::string_view>()(key); }
  stripe& stripe_of(std::uint64_t hash) noexcept { return stripes_[(hash >> 48) % stripes_.size()]; }

  std::vector<stripe> stripes_;
  std::size_t most_slots_;  // of a stripe
  bool is_holder_ = false;  // these two: guarded by the holders' lock
  std::list<open_file_cache*>::iterator place_;
};

}  // namespace penstock::inline v0
