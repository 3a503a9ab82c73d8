#pragma once

#include <penstock/store.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "store/file_status.h"

namespace penstock::inline v0 {

/// The object that a record is about: a hash of the storage and the key.
struct cached_object {
  std::array<std::uint64_t, 2> word{};
  friend bool operator==(const cached_object&, const cached_object&) = default;
};

/// A version in a form that another process can restore: the words, and the text of `version::pin`.
struct lasting_version {
  std::array<std::uint64_t, 4> word{};
  std::string text;
};

/// A pair of files that one process appends to: encoded ranges, and records that describe them.
///
/// Immutable except for `parsed`, `own_from` and `own_end` (guarded by the folder's scan) and the atomics.
struct disk_segment {
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  /// Continues after the own records, if all before them were parsed and this process no longer appends.
  bool skip_own() noexcept {
    if (own_end == kNone || parsed < own_from) return false;
    parsed = own_end;
    own_from = own_end = kNone;
    return true;
  }

  std::string name;
  descriptor data;
  std::uint64_t id = 0;
  std::uint64_t parsed = 0;  ///< bytes of the records that were parsed
  /// Records from here on are this process's own: `append` returned them. kNone: none are.
  std::uint64_t own_from = kNone;
  std::uint64_t own_end = kNone;     ///< end of the own records; kNone: this process still appends
  std::atomic<bool> is_gone{false};  ///< the folder no longer has it
  std::atomic<std::int64_t> touched_ns{0};
};

/// Bytes of one object, in a segment.
struct disk_extent {
  std::shared_ptr<disk_segment> where;
  std::uint64_t at = 0;      ///< in the segment's data
  std::uint64_t offset = 0;  ///< in the object
  std::uint64_t length = 0;
  std::uint64_t seed = 0;           ///< for the sums: the identity of these bytes
  std::vector<std::uint64_t> sums;  ///< one for each `kBlock` bytes
  static constexpr std::uint64_t kBlock = std::uint64_t{64} << 10;
};

enum class disk_record_kind : std::uint32_t {
  range = 1,      ///< bytes of an object
  dropped = 2,    ///< the object may have changed: earlier records are invalid
  confirmed = 3,  ///< the object still had this version
  absent = 4,     ///< the object did not exist
};

struct disk_record {
  disk_record_kind kind = disk_record_kind::range;
  cached_object object;
  std::int64_t time_ns = 0;  ///< since 1970: the object had this state then, or after it
  lasting_version seen;
  bool seen_is_last = true;
  std::uint64_t object_size = byte_range::kAll;
  disk_extent extent;  ///< of a range
};

struct disk_segments_options {
  static constexpr std::uint64_t kLeastLimit = std::uint64_t{1} << 20;
  std::string folder;
  std::uint64_t limit_bytes = std::uint64_t{10} << 30;
  /// Resolution of the time of last use, by which segments are removed.
  std::chrono::nanoseconds touch_interval = std::chrono::seconds(5);
};

/// Append-only files in a folder that processes of one user on one machine share. Thread-safe.
///
/// Any of them may end at any moment, and the files may contain any bytes: a record is used only if its checksum is
/// correct, and bytes only if theirs are. Files that are not named as segments, that belong to other users or that are
/// links are neither read nor changed. No file is read beyond its own sizes.
class disk_segments {
 public:
  /// Creates the folder (mode 0700) if it does not exist.
  /// \error io_error, permission_denied  It cannot be created, or not be read.
  static result<std::unique_ptr<disk_segments>> open(disk_segments_options options);
  ~disk_segments();

  using record_sink = std::function<void(disk_record&&)>;
  /// Passes each record to `sink` that another `disk_segments` appended since the last call.
  /// \returns Whether a segment was removed: its extents are invalid.
  bool scan(const record_sink& sink);

  /// The longest range that is cached.
  std::uint64_t longest() const noexcept { return capacity_ - capacity_ / 8; }
  /// Writes bytes, then the record that makes them valid. `offset` and `length` of the record's extent are given; the
  /// others are set. Returns false if nothing was stored: no space, no disk, too long.
  bool append(disk_record& record, std::span<const std::byte> bytes);

  /// Reads `to.size()` bytes of an extent, from `begin` within it, and compares their sums.
  /// \returns False if they differ from the appended bytes. `disk_segment::is_gone` then distinguishes removal from
  /// damage.
  bool read(const disk_extent& from, std::uint64_t begin, std::span<std::byte> to);

  /// Returns false if another `disk_segments` holds the claim. A claim ends with its process at the latest.
  bool try_claim(std::uint64_t what) noexcept;
  void release(std::uint64_t what) noexcept;

  /// The size of the folder's segments on the disk.
  std::uint64_t size_bytes();
  /// Whether writing has failed, for example on a full disk: nothing more is appended.
  bool is_off() const noexcept { return is_off_.load(std::memory_order_relaxed); }

 private:
  struct writer;
  struct found;
  explicit disk_segments(disk_segments_options options);
  std::shared_ptr<disk_segment> adopt(const std::string& name);
  void parse(disk_segment& from, const record_sink& sink);
  static bool read_checked(const disk_extent& from, std::uint64_t begin, std::span<std::byte> to);
  bool open_writer();
  std::unique_ptr<writer> try_old_writer(const found& each);
  std::unique_ptr<writer> new_writer();
  std::vector<found> list_segments();
  bool make_room(std::vector<found>& all);
  bool remove(const found& which);
  descriptor open_file(const std::string& name, int flags) const;
  void touch(disk_segment& what) noexcept;

  const disk_segments_options options_;
  const std::uint64_t capacity_;  // bytes of a segment, data and records
  descriptor folder_;
  descriptor claims_, writers_;
  std::atomic<bool> is_off_{false};

  std::mutex scanning_;  // protects the members below
  std::unordered_map<std::string, std::shared_ptr<disk_segment>> known_;

  std::mutex writing_;  // protects the members below
  std::shared_ptr<writer> writer_;
  std::chrono::steady_clock::time_point no_room_until_;
};

}  // namespace penstock::inline v0
