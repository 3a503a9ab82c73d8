#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <penstock/result.h>
#include "base/ledger.h"

namespace penstock::inline v0 {

/// Owned, 64-byte aligned, uninitialised memory that only grows; counted in a ledger when it has one. Move-only.
class buffer {
 public:
  explicit buffer(ledger* accounts = nullptr, memory_use use = memory_use::scratch) noexcept
      : ledger_(accounts), use_(use) {}
  buffer(buffer&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        capacity_(std::exchange(other.capacity_, 0)),
        ledger_(other.ledger_),
        use_(other.use_) {}
  buffer& operator=(buffer&& other) noexcept;
  ~buffer() { free(); }

  /// At least `bytes` bytes; contents are lost when it grows. Grows to the next power of two (or 1/4 step), so that
  /// repeated use settles.
  /// \error resource_exhausted  The ledger's limit or the system's memory.
  result<std::span<std::byte>> reserve(std::uint64_t bytes);

  /// The same, but keeps the first `kept` bytes. Both blocks exist while it grows.
  result<std::span<std::byte>> extend(std::uint64_t kept, std::uint64_t bytes);

  std::byte* data() noexcept { return data_; }
  const std::byte* data() const noexcept { return data_; }
  std::uint64_t capacity() const noexcept { return capacity_; }
  void free() noexcept;

 private:
  void* block_ = nullptr;      // as returned by the allocator
  std::byte* data_ = nullptr;  // in it
  std::uint64_t capacity_ = 0;
  ledger* ledger_;
  memory_use use_;
};

}  // namespace penstock::inline v0
