#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "cuda/driver.h"
#include "cuda/page_locked_memory.h"

namespace penstock::inline v0::cuda {

inline constexpr std::uint64_t kDefaultPageLockedBytes = std::uint64_t{256} << 20;

/// Page-locked host memory, from which the device copies: blocks of any size, returned when their copy has ended.
///
/// Grows by segments up to its limit and retains them; idle segments are released for a block that fits in none of
/// them.
/// Thread-safe.
class page_locked_ring {
 public:
  /// \param node  NUMA node of the host from which memory is taken if the node has some; nullopt: any node.
  page_locked_ring(const driver& with, context_ref context, std::uint64_t limit_bytes,
                   std::optional<unsigned> node = std::nullopt) noexcept;
  ~page_locked_ring() { clear(); }
  page_locked_ring(const page_locked_ring&) = delete;
  page_locked_ring& operator=(const page_locked_ring&) = delete;

  /// Returns all memory to the driver, before the context is destroyed. No block may be in use.
  void clear() noexcept;

  /// Aligned to 256 bytes. Null if no space is free yet, or if the ring is smaller than that.
  std::byte* take(std::uint64_t bytes);
  /// As `take`, but only from memory that is already held. It makes no call of the driver, because such a call may wait
  /// for the device.
  std::byte* take_held(std::uint64_t bytes);
  /// Whether `take` would request more from the driver.
  bool may_grow(std::uint64_t bytes) const;
  /// Makes space for this many bytes, as `take` does. Returns false if no memory can be allocated.
  bool grow(std::uint64_t bytes);
  /// Adds an owner of the block: it is returned when all have released it.
  void share(std::byte* block) noexcept;
  void give(std::byte* block) noexcept;
  /// Returns the memory after a block's first `bytes` bytes.
  void shrink(std::byte* block, std::uint64_t bytes) noexcept;

  /// Whether memory of this size is or may become free: a refused caller waits for returned blocks.
  bool can_hold(std::uint64_t bytes) const noexcept { return bytes <= limit_.load(std::memory_order_relaxed); }
  std::uint64_t limit_bytes() const noexcept { return limit_.load(std::memory_order_relaxed); }
  /// Stops handing out blocks: after a driver failure, outstanding blocks may never be returned.
  void close() noexcept { limit_.store(0, std::memory_order_relaxed); }
  std::uint64_t held_bytes() const noexcept { return held_.load(std::memory_order_relaxed); }
  std::uint64_t used_bytes() const noexcept { return used_.load(std::memory_order_relaxed); }

 private:
  struct range {
    std::uint64_t begin, end;
  };
  struct taken_range : range {
    unsigned users = 1;
  };
  struct segment {
    page_locked_memory memory;
    std::vector<range> free;
    std::vector<taken_range> taken;

    bool holds(const std::byte* block) const noexcept {
      return block >= memory.data && block < memory.data + memory.bytes;
    }
  };
  std::byte* take_from(segment& in, std::uint64_t bytes);
  struct found_block {
    segment* in;
    taken_range* what;
  };
  found_block find(const std::byte* block) noexcept PENSTOCK_REQUIRES(mutex_);
  bool has_room(std::uint64_t bytes) const noexcept PENSTOCK_REQUIRES(mutex_);
  std::uint64_t left() const noexcept;
  bool idle_suffice(std::uint64_t bytes) const noexcept PENSTOCK_REQUIRES(mutex_);
  std::vector<page_locked_memory> take_idle(std::uint64_t bytes) PENSTOCK_REQUIRES(mutex_);
  bool add_segment(std::uint64_t bytes) PENSTOCK_REQUIRES(growing_);
  static void give_range(segment& in, range back) noexcept;

  const driver& driver_;
  const context_ref context_;
  const std::optional<unsigned> node_;
  std::atomic<std::uint64_t> limit_;  // less if the machine has no more memory
  mutex growing_;                     // held during calls of the driver
  mutable mutex mutex_;               // never held during a call of the driver
  std::vector<segment> segments_ PENSTOCK_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> held_{0}, used_{0};
};

}  // namespace penstock::inline v0::cuda
