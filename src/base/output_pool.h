#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <penstock/result.h>
#include "base/ledger.h"

namespace penstock::inline v0 {

class output_pool_state;

/// Memory of one result; returned to its pool when destroyed. Move-only.
///
/// May outlive the pool and its ledger, and may cross a fork: then its memory is returned to the system.
class output_block {
 public:
  output_block() noexcept = default;
  output_block(output_block&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        mapped_bytes_(std::exchange(other.mapped_bytes_, 0)),
        pool_(std::exchange(other.pool_, nullptr)) {}
  output_block& operator=(output_block&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(mapped_bytes_, other.mapped_bytes_);
    std::swap(pool_, other.pool_);
    return *this;
  }
  ~output_block();

  /// Page-aligned; null for 0 bytes. Contains data of an earlier result.
  std::byte* data() const noexcept { return data_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  friend class output_pool;
  output_block(std::byte* data, std::uint64_t bytes, std::uint64_t mapped_bytes, output_pool_state* pool) noexcept
      : data_(data), bytes_(bytes), mapped_bytes_(mapped_bytes), pool_(pool) {}

  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t mapped_bytes_ = 0;
  output_pool_state* pool_ = nullptr;  // one share of the state
};

/// Recycles the memory of large results: a fresh page from the system costs about as much as decoding into it.
///
/// Idle memory is counted in the ledger (`memory_use::output_pool`) and bounded by its output limit, the oldest is
/// released first; the system may reclaim idle pages whenever it needs them. Thread-safe. In a forked child a pool of
/// the parent only maps and unmaps.
class output_pool {
 public:
  /// Borrows `accounts` for the life of the pool.
  explicit output_pool(ledger& accounts);
  output_pool(const output_pool&) = delete;
  output_pool& operator=(const output_pool&) = delete;
  ~output_pool();

  /// Exactly `bytes` bytes with unspecified contents.
  /// \error resource_exhausted  The system cannot provide it, even after idle memory was released.
  result<output_block> take(std::uint64_t bytes);

  /// Returns all idle memory to the system.
  void clear() noexcept;

 private:
  output_pool_state* state_;
};

}  // namespace penstock::inline v0
