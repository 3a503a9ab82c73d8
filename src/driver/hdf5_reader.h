#pragma once

#include <penstock/result.h>
#include <penstock/store.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/extend/driver.h>
#include "format/hdf5/hdf5_cache_image.h"
#include "format/hdf5/hdf5_file.h"
#include "format/hdf5/hdf5_pages.h"
#include "store/held_bytes.h"

namespace penstock::inline v0 {

/// A file in a synchronous store, read when a parser needs its bytes. Reads ahead while requests follow each other.
class hdf5_stored_file final : public hdf5_source {
 public:
  hdf5_stored_file(const store& from, std::string_view key) noexcept : from_(from), key_(key) {}
  /// A file whose version and size are known.
  /// \param head  Its first known bytes. Borrowed.
  hdf5_stored_file(const store& from, std::string_view key, version seen, std::uint64_t size,
                   std::span<const std::byte> head) noexcept
      : from_(from), key_(key), head_(head), seen_(std::move(seen)), size_(size) {}

  /// Determines the version and the size: the superblock's if the store does not report one.
  /// \error unsupported  Neither has a size.
  result<> begin();
  /// A file of at most 128 KiB is read as a whole when bytes after its head are needed: for parsers that visit most of
  /// its metadata.
  void read_as_a_whole() noexcept { as_a_whole_ = size_ <= kMostWhole; }
  const version& seen() const noexcept { return seen_; }

  std::uint64_t size() const noexcept override { return size_; }
  result<std::span<const std::byte>> read(std::uint64_t offset, std::uint64_t length) override;

 private:
  static constexpr std::uint64_t kLeastWindow = std::uint64_t{4} << 10, kMostWindow = std::uint64_t{1} << 20;
  static constexpr std::uint64_t kMostWhole = std::uint64_t{128} << 10;

  const store& from_;
  std::string_view key_;
  std::span<const std::byte> head_;
  version seen_;
  std::uint64_t size_ = 0, ahead_ = kLeastWindow;
  bool as_a_whole_ = false;
  struct window {
    std::uint64_t begin = 0;
    std::vector<std::byte> bytes;
  };
  std::array<window, 4> windows_;  // the last ranges, the newest at `newest_`: parsers alternate between places
  std::size_t newest_ = 0;
};

/// Reads metadata of one version of an HDF5 file.
///
/// A synchronous store is read serially, as parsers need bytes. From an asynchronous one, all pages that are known to
/// be needed are requested together, in rounds, and cached: pages of one dataset serve the next one. Thread-safe.
class hdf5_reader {
 public:
  /// \param head  The first bytes of the file, its version and its size, if they are known; else null.
  /// \error unsupported  Neither the store nor the superblock has the file's size.
  /// \error corrupt_data  The superblock has a size, and the file is shorter.
  static result<std::shared_ptr<hdf5_reader>> open(std::shared_ptr<const store> from, std::string key,
                                                   const object_head* head);

  /// Calls `parse` with the file, several times if it has to wait for bytes.
  /// \param readings  See hdf5_file::open.
  /// \param most  Whether it visits most of the metadata.
  /// \returns The result of the last call. \error As the store, and conflict: the file changed during the read.
  template <class Parse>
  auto parse(Parse&& parse, std::uint64_t readings = 32, bool most = false)
      -> decltype(parse(std::declval<hdf5_file&>())) {
    const auto once = [&](hdf5_source& source) -> decltype(parse(std::declval<hdf5_file&>())) {
      PENSTOCK_ASSIGN(hdf5_file file, hdf5_file::open(source, hdf5_checksums::verified, readings));
      PENSTOCK_TRY(read_hdf5_cache_image(file));
      if (in_rounds()) note_paging(file);
      return parse(file);
    };
    if (from_->traits().inline_completion) {
      // Only the first call uses pages that were read before: later calls notice a change of the file.
      const std::vector<std::byte> head = has_head_.exchange(false) ? std::move(head_) : std::vector<std::byte>();
      hdf5_stored_file source(*from_, key_, seen_, pages_.size(), head);
      if (most) source.read_as_a_whole();
      return once(source);
    }
    const std::lock_guard lock(mutex_);
    auto made = parse_hdf5_in_rounds(
        pages_, ahead_,
        [&] {
          if (hopes_for_end_) pages_.hope(pages_.size() - std::min(pages_.size(), kHopedEnd), kHopedEnd);
          return once(pages_);
        },
        [&](std::span<const byte_range> ranges) { return fetch(ranges); });
    forget_if_large();
    return made;
  }

  /// The next round trip also requests this range, if that is within the limit of reading ahead. Only for calls within
  /// `parse`.
  void hope(std::uint64_t offset, std::uint64_t length) { pages_.hope(offset, length); }
  /// The bytes of a range, for reads of values; null if some are not fetched. Only for calls within `parse`.
  std::shared_ptr<const held_bytes> held(std::uint64_t offset, std::uint64_t length);

  const std::shared_ptr<const store>& from() const noexcept { return from_; }
  const std::string& key() const noexcept { return key_; }
  const version& seen() const noexcept { return seen_; }
  /// Whether bytes are fetched in rounds.
  bool in_rounds() const { return !from_->traits().inline_completion; }
  /// The size of the cached pages. Only for calls within `parse`.
  std::uint64_t kept_bytes() const noexcept { return pages_.fetched_bytes(); }

 private:
  static constexpr std::uint64_t kPageBytes = std::uint64_t{4} << 10;
  static constexpr std::uint64_t kHopedEnd = std::uint64_t{16} << 10;

  hdf5_reader(std::shared_ptr<const store> from, std::string key, version seen, std::uint64_t size)
      : from_(std::move(from)), key_(std::move(key)), seen_(std::move(seen)), pages_(size, kPageBytes) {}
  void note_paging(hdf5_file& file);
  result<> fetch(std::span<const byte_range> ranges);
  void forget_if_large();

  std::shared_ptr<const store> from_;
  std::string key_;
  version seen_;
  std::vector<std::byte> head_;  // first bytes of a file that is read serially
  std::atomic<bool> has_head_ = true;
  std::mutex mutex_;
  hdf5_pages pages_;  // after `open` guarded by mutex_, except for its size
  // With a latency of 50 ms, a request takes as long as some 100 KiB; the front is where writers can put all metadata.
  hdf5_ahead ahead_{.most_gap = std::uint64_t{128} << 10,
                    .front = std::uint64_t{1} << 20,
                    .most_after = std::uint64_t{8} << 10,
                    .most_before = std::uint64_t{8} << 10,
                    .allowance = std::uint64_t{1280} << 10};
  bool knows_paging_ = false;
  bool hopes_for_end_ = false;  // many files end with metadata: the end is fetched with the first missing pages
  std::deque<std::weak_ptr<const held_bytes>> held_;  // of open arrays, oldest first; guarded by mutex_
};

}  // namespace penstock::inline v0
