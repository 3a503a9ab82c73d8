#pragma once

#include <penstock/store.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "store/disk_segments.h"

namespace penstock::inline v0 {

/// A part of a cached extent.
struct extent_part {
  std::shared_ptr<const disk_extent> from;
  std::uint64_t begin = 0, length = 0;
};

/// The bytes that a read takes from the cache: parts of one version of the object, in order.
struct cached_bytes {
  version seen;
  bool seen_is_last = true;
  std::uint64_t object_size = byte_range::kAll;
  std::uint64_t length = 0;
  std::vector<extent_part> parts;
};

enum class cache_verdict : std::uint8_t {
  miss,    ///< the store must be read
  check,   ///< the cache has the bytes; the store must confirm their version
  serve,   ///< the cache has the bytes
  absent,  ///< the object does not exist
};

/// Which bytes of which objects are in the segments, by their records. Thread-safe.
///
/// Holds one version of each object: the one that was seen last.
class disk_index {
 public:
  explicit disk_index(std::chrono::nanoseconds trust) noexcept : trust_ns_(trust.count()) {}

  void apply(const disk_record& record);
  /// \param now_ns  Since 1970.
  cache_verdict look(const cached_object& object, const byte_read& wanted, std::int64_t now_ns,
                     cached_bytes& out) const;
  /// The object still had that version at `time_ns`. Returns whether a record of it is useful to other processes.
  bool confirm(const cached_object& object, const version& seen, std::int64_t time_ns);
  /// Drops an extent whose bytes are damaged.
  void drop(const cached_object& object, const disk_extent& which);
  /// Drops the object if it is cached with that version.
  void forget(const cached_object& object, const version& seen);
  /// Drops extents of removed segments, and objects about which nothing remains that is trusted at `now_ns`.
  void drop_gone(std::int64_t now_ns);
  bool knows(const cached_object& object) const;

 private:
  struct entry {
    version seen;  ///< not known: the object is absent, or it was written to
    bool seen_is_last = true;
    bool is_absent = false;
    std::uint64_t object_size = byte_range::kAll;
    std::int64_t time_ns = 0;      ///< the last time at which the object is known to have had this state
    std::int64_t recorded_ns = 0;  ///< the same, only from records
    std::uint64_t longest = 0;     ///< of the extents
    std::multimap<std::uint64_t, std::shared_ptr<const disk_extent>> extents;  ///< by offset in the object

    void forget_bytes();
    bool cover(std::uint64_t begin, std::uint64_t length, std::vector<extent_part>& out) const;
  };
  struct hash {
    std::size_t operator()(const cached_object& of) const noexcept { return static_cast<std::size_t>(of.word[0]); }
  };

  const std::int64_t trust_ns_;
  mutable std::mutex mutex_;
  std::unordered_map<cached_object, entry, hash> entries_;
};

}  // namespace penstock::inline v0
