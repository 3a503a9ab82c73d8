#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <penstock/extend/layout.h>
#include "base/ledger.h"

namespace penstock::inline v0 {

/// Indexes cached between reads; the least recently used are dropped first. Thread-safe.
///
/// An entry is valid for its version: a read that depends on it passes that version to the store.
class index_cache {
 public:
  /// Above this size the oldest entries are dropped; at least one entry is kept.
  static constexpr std::uint64_t kDefaultBytes = std::uint64_t{24} << 20;

  explicit index_cache(ledger& accounts, std::uint64_t limit_bytes = kDefaultBytes) noexcept
      : ledger_(accounts), limit_bytes_(limit_bytes) {}
  ~index_cache() { clear(); }

  /// Copies the entry to `out`; false if there is none.
  bool find(std::uint64_t uid, const index_key& key, index_entry& out);
  void insert(std::uint64_t uid, const index_key& key, const index_entry& entry);
  /// Drops every node of one object.
  void drop(std::uint64_t uid, object_id object);
  /// Drops all entries of one open array.
  void drop_all(std::uint64_t uid);
  void clear();

  std::uint64_t hits() const;
  std::uint64_t misses() const;

 private:
  struct key_type {
    std::uint64_t uid;
    object_id object;
    std::uint64_t node;
    friend bool operator==(const key_type&, const key_type&) = default;
  };
  struct hash {
    std::size_t operator()(const key_type& key) const noexcept;
  };
  struct slot {
    key_type key;
    index_entry entry;
    std::uint64_t bytes;
  };
  using slots = std::list<slot>;

  void remove(slots::iterator at);
  // Drops the entries of one open array. Stops at the last of them: an array that is closed was usually used last.
  template <class Which>
  void drop_where(std::uint64_t uid, const Which& which);

  ledger& ledger_;
  const std::uint64_t limit_bytes_;
  mutable std::mutex mutex_;
  slots order_;  // most recently used first
  std::unordered_map<key_type, slots::iterator, hash> by_key_;
  std::unordered_map<std::uint64_t, std::size_t> entries_of_;  // for each open array that has entries, their number
  std::uint64_t bytes_ = 0, hits_ = 0, misses_ = 0;
};

/// The indexes that one read currently has. Keeps its memory when cleared; small and open-addressed, because a warm
/// read must not allocate.
class index_table {
 public:
  /// The entry does not move until `clear`.
  const index_entry* find(std::uint32_t source, const index_key& key) const noexcept;
  /// Adds or replaces.
  index_entry& insert(std::uint32_t source, const index_key& key);
  void clear() noexcept;

 private:
  struct slot {
    index_key key;
    std::uint32_t source = 0;
    index_entry* entry = nullptr;  // null: free
  };
  std::size_t probe(std::uint32_t source, const index_key& key) const noexcept;
  void grow();

  std::vector<slot> slots_;
  std::vector<std::uint32_t> used_;
  std::vector<std::unique_ptr<index_entry>> entries_;  // the first used_.size() are in use
};

}  // namespace penstock::inline v0
