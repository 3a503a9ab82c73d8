#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>

#include <penstock/extend/layout.h>
#include <penstock/store.h>
#include "base/buffer.h"
#include "base/ledger.h"

namespace penstock::inline v0 {

/// A decoded cell, in C order and native byte order.
struct kept_cell {
  std::span<std::byte> items;
  version seen;  ///< of the object that it was decoded from
  buffer memory;
};

/// Decoded cells cached between reads; the least recently used are dropped first. Thread-safe.
///
/// For reads of parts: windows that share tiles, rows of a chunk one after the other. A cell is cached from its second
/// partial read on, and only if the first was recent: a pass over an array larger than the cache costs nothing and
/// caches nothing. While many cells are requested again soon, a cell is cached from its first partial read on. A cached
/// cell is valid for its version: a read requests only that from the store.
class cell_cache {
 public:
  /// \param limit_bytes  0: nothing is cached.
  cell_cache(ledger& accounts, std::uint64_t limit_bytes) noexcept : ledger_(accounts), limit_bytes_(limit_bytes) {}
  ~cell_cache() { clear(); }

  /// Whether the cache has any cells; costs next to nothing.
  bool empty() const noexcept { return bytes_.load(std::memory_order_relaxed) == 0; }
  /// Null if the cell is not cached. A cell whose version differs from `expected`, if that is known, is dropped.
  std::shared_ptr<const kept_cell> find(std::uint64_t uid, cell_id cell, const version& expected);

  /// Called if a part of a cell that is not cached is requested. Returns whether to cache the cell now.
  bool is_worth_keeping(std::uint64_t uid, cell_id cell, std::uint64_t decoded_bytes) noexcept;
  /// A cell to decode into, `decoded_bytes` long; null if its memory cannot be allocated, or it would not be cached.
  std::shared_ptr<kept_cell> make_room(std::uint64_t decoded_bytes);
  void insert(std::uint64_t uid, cell_id cell, std::shared_ptr<const kept_cell> made);

  void drop(std::uint64_t uid, cell_id cell);
  /// Drops all entries of one open array.
  void drop_all(std::uint64_t uid);
  void clear();

  std::uint64_t hits() const noexcept { return hits_.load(std::memory_order_relaxed); }

 private:
  struct key_type {
    std::uint64_t uid;
    cell_id cell;
    friend bool operator==(const key_type&, const key_type&) = default;
  };
  struct hash {
    std::size_t operator()(const key_type& key) const noexcept;
  };
  struct slot {
    key_type key;
    std::shared_ptr<const kept_cell> cell;
  };
  using slots = std::list<slot>;
  // A cell that was read in part, and the number of bytes read by then. Two threads may mix up two entries, so that a
  // cell is cached needlessly, or not.
  struct trace {
    std::atomic<std::uint64_t> cell{0}, when{0};
  };

  void remove(slots::iterator at);
  // For a cell of which a part is requested: whether a part of it was requested recently.
  void note_return(bool returns) noexcept;

  ledger& ledger_;
  const std::uint64_t limit_bytes_;
  std::atomic<std::uint64_t> bytes_{0}, hits_{0}, read_in_part_{0};
  std::array<trace, 4096> traces_;
  std::atomic<std::int32_t> returns_{0};  // fraction of recent parts in cells that were requested before; of 2^16
  mutable std::mutex mutex_;              // protects the members below
  slots order_;                           // most recently used first
  std::unordered_map<key_type, slots::iterator, hash> by_key_;
};

}  // namespace penstock::inline v0
