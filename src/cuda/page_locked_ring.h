#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "cuda/driver.h"

namespace penstock::inline v0::cuda {

/// Page-locked host memory, from which the device copies: blocks of any size, given back when their copy has ended.
///
/// Grows by segments up to its limit and keeps them. Thread-safe. The context must be current in `take`.
class page_locked_ring {
 public:
  page_locked_ring(const driver& with, std::uint64_t limit_bytes) noexcept;
  ~page_locked_ring();
  page_locked_ring(const page_locked_ring&) = delete;
  page_locked_ring& operator=(const page_locked_ring&) = delete;

  /// 256-byte aligned; null where there is no room, or will never be for so many bytes.
  std::byte* take(std::uint64_t bytes);
  void give(std::byte* block) noexcept;

  /// Room is left for a request of ordinary size.
  bool has_room() const noexcept { return used_.load(std::memory_order_relaxed) + ordinary_ <= limit_; }
  std::uint64_t limit_bytes() const noexcept { return limit_; }
  std::uint64_t held_bytes() const noexcept { return held_.load(std::memory_order_relaxed); }
  std::uint64_t used_bytes() const noexcept { return used_.load(std::memory_order_relaxed); }

 private:
  struct range {
    std::uint64_t begin, end;
  };
  struct segment {
    std::byte* data = nullptr;
    std::uint64_t bytes = 0;
    std::vector<range> free, taken;
  };
  std::byte* take_from(segment& in, std::uint64_t bytes);
  bool grow(std::uint64_t bytes);

  const driver& driver_;
  const std::uint64_t limit_, ordinary_;
  std::mutex mutex_;  // of the segments
  std::vector<segment> segments_;
  std::atomic<std::uint64_t> held_{0}, used_{0};
};

}  // namespace penstock::inline v0::cuda
