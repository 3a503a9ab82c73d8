#pragma once

#include <penstock/store.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/fork_local.h"

namespace penstock::inline v0 {

struct disk_cache_options {
  std::string folder;
  std::uint64_t limit_bytes = std::uint64_t{10} << 30;
  /// How long an object counts as unchanged after the server returned its version. 0: each read requests it.
  std::chrono::nanoseconds trust{0};
  /// Receives the reason why the cache does not work, once. Called on any thread; must not block. May be empty.
  std::function<void(const std::string&)> warn;
};

struct disk_cache_usage {
  std::uint64_t hits = 0;     ///< reads that took their bytes from the cache
  std::uint64_t misses = 0;   ///< reads that took them from the store
  std::uint64_t damaged = 0;  ///< ranges in the cache whose checksum was wrong
  std::uint64_t bytes = 0;    ///< size of the folder
  bool is_writable = false;   ///< false: nothing more is added to the cache
};

/// Byte ranges of remote objects in a folder that processes of one user share (docs/design/0034-disk-cache.md).
///
/// Wraps stores with HTTP versions (`version_of(const http_head&)`). Bytes from the cache have the version that the
/// store confirmed during this read, or within the time of trust. An object without a known version is not cached.
///
/// Thread-safe. A forked child gets its own thread, index and segments.
class disk_cache : public std::enable_shared_from_this<disk_cache> {
 public:
  /// Opens the folder, or creates it. If the folder cannot be used, a warning is given, and reads bypass the cache.
  /// \error invalid_argument  The limit is less than 1 MiB, or the folder has no name.
  static result<std::shared_ptr<disk_cache>> open(disk_cache_options options);
  ~disk_cache();
  disk_cache(const disk_cache&) = delete;
  disk_cache& operator=(const disk_cache&) = delete;

  /// A store that reads `from` through this cache. Everything except reads is passed to `from`.
  /// \param origin  Names the storage, with all that selects its contents: equal origins and keys name the same object.
  ///              Joined with the key by a '/'.
  /// \param variant  Further parameters that select the contents, such as a query or headers.
  std::shared_ptr<store> wrap(std::shared_ptr<store> from, std::string origin, std::string variant);

  disk_cache_usage usage();

 private:
  class cached_store;
  struct process_state;
  struct cached_read;
  struct version_check;
  struct cached_write;
  /// Ends the state's thread.
  struct state_owner {
    std::shared_ptr<process_state> state;
    ~state_owner();
  };

  explicit disk_cache(disk_cache_options options);

  const disk_cache_options options_;
  fork_local<state_owner> states_;
};

}  // namespace penstock::inline v0
