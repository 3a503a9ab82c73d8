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

/// Decoded cells kept between reads, least recently used first to go. Thread-safe.
///
/// For reads of parts: windows that share tiles, rows of a chunk one after the other. A cell is kept from its second
/// partial read on, and only if the first was not long ago, so that a pass over an array larger than the cache costs
/// nothing and keeps nothing; from the first on while many cells are wanted again soon. A kept cell is only as good as
/// its version: a read asks the store for that, and for nothing else.
class cell_cache {
 public:
  /// \param limit_bytes  0: nothing is kept.
  cell_cache(ledger& accounts, std::uint64_t limit_bytes) noexcept : ledger_(accounts), limit_bytes_(limit_bytes) {}
  ~cell_cache() { clear(); }

  /// Whether there is anything to find; costs next to nothing.
  bool empty() const noexcept { return bytes_.load(std::memory_order_relaxed) == 0; }
  /// Null where the cell is not kept. A cell of another version than `expected`, where that is known, goes.
  std::shared_ptr<const kept_cell> find(std::uint64_t uid, cell_id cell, const version& expected);

  /// A part of a cell is wanted that is not kept: whether it should be now.
  bool is_worth_keeping(std::uint64_t uid, cell_id cell, std::uint64_t decoded_bytes) noexcept;
  /// A cell to decode into, `decoded_bytes` long; null where there is no memory for it, or it would not be kept.
  std::shared_ptr<kept_cell> make_room(std::uint64_t decoded_bytes);
  void insert(std::uint64_t uid, cell_id cell, std::shared_ptr<const kept_cell> made);

  void drop(std::uint64_t uid, cell_id cell);
  /// Forgets everything of one open array.
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
  // A cell that was read in part, and how many bytes had been by then. Two threads may mix two of them up, which costs
  // a cell its place or gives it one.
  struct trace {
    std::atomic<std::uint64_t> cell{0}, when{0};
  };

  void remove(slots::iterator at);
  // Of a cell that a part of is wanted: whether a part of it was wanted not long ago.
  void note_return(bool returns) noexcept;

  ledger& ledger_;
  const std::uint64_t limit_bytes_;
  std::atomic<std::uint64_t> bytes_{0}, hits_{0}, read_in_part_{0};
  std::array<trace, 4096> traces_;
  std::atomic<std::int32_t> returns_{0};  // of the last parts those of cells that were wanted before; of 2^16
  mutable std::mutex mutex_;              // of what follows
  slots order_;                           // most recently used first
  std::unordered_map<key_type, slots::iterator, hash> by_key_;
};

}  // namespace penstock::inline v0
