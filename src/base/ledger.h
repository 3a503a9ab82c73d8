#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <penstock/result.h>

namespace penstock::inline v0 {

/// The purpose of memory. One account each.
enum class memory_use : std::uint8_t { scratch, encoded, index, cells, output_pool, page_locked, device };
inline constexpr std::size_t kMemoryUses = 7;

/// Counts every byte that a context holds, so that limits hold and reports are exact.
///
/// Thread-safe. A limit covers scratch + encoded + index together (`memory_limit`); the output pool has its own, and
/// cached cells are bounded by their cache.
class ledger {
 public:
  explicit ledger(std::uint64_t memory_limit_bytes, std::uint64_t output_limit_bytes) noexcept
      : memory_limit_(memory_limit_bytes), output_limit_(output_limit_bytes) {}
  ledger(const ledger&) = delete;
  ledger& operator=(const ledger&) = delete;

  /// \error resource_exhausted  The account's limit would be exceeded; nothing was counted.
  result<> take(memory_use use, std::uint64_t bytes) noexcept;
  void give(memory_use use, std::uint64_t bytes) noexcept;

  std::uint64_t held(memory_use use) const noexcept { return held_[index(use)].load(std::memory_order_relaxed); }
  std::uint64_t peak(memory_use use) const noexcept { return peak_[index(use)].load(std::memory_order_relaxed); }
  std::uint64_t memory_limit() const noexcept { return memory_limit_; }
  std::uint64_t output_limit() const noexcept { return output_limit_; }

 private:
  static std::size_t index(memory_use use) noexcept { return static_cast<std::size_t>(use); }
  std::uint64_t memory_limit_, output_limit_;
  std::atomic<std::uint64_t> limited_{0};
  std::array<std::atomic<std::uint64_t>, kMemoryUses> held_{};
  std::array<std::atomic<std::uint64_t>, kMemoryUses> peak_{};
};

}  // namespace penstock::inline v0
