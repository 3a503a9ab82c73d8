#pragma once

#include <penstock/store.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/fork_local.h"

namespace penstock::inline v0 {

/// Objects in this process's memory. Thread-safe; reads run in parallel and allocate nothing.
///
/// Reads are lent the object itself: a rewrite or an erase does not change the bytes of earlier leases. A version is a
/// number that no other write of this store gets. A forked child has a copy of its own; after a fork during a write,
/// the child's copy returns `io_error`, because that write is incomplete.
class memory_store final : public store {
 public:
  memory_store();
  ~memory_store() override;
  memory_store(const memory_store&) = delete;
  memory_store& operator=(const memory_store&) = delete;

  store_traits traits() const override;
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override;
  /// \error version_changed  The condition does not hold; nothing was written.
  result<version> put(std::string_view key, std::span<const part> parts, const write_condition& condition) override;
  result<> erase(std::string_view key, const write_condition& condition) override;
  /// The sink is called without a lock: it may use the store.
  result<> list(std::string_view prefix, listing what, key_sink& sink) const override;
  std::string uri() const override;

 private:
  class object;
  class object_ref;
  class write_mark;
  struct key_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view key) const noexcept { return std::hash<std::string_view>()(key); }
  };

  result<read_done> read_one(const byte_read& wanted) const;
  result<> whole() const;
  result<> check_guard_of(const write_condition& condition) const;

  mutable fork_local<std::shared_mutex> mutex_;
  std::atomic<bool> writing_{false};  // true only under the exclusive lock: otherwise a write was interrupted by a fork
  std::uint64_t last_generation_ = 0;
  std::unordered_map<std::string, object*, key_hash, std::equal_to<>> objects_;
};

}  // namespace penstock::inline v0
