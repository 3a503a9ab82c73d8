#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace penstock::test {

/// Device memory of the fake driver: address space that faults when touched, except while the driver runs an operation.
///
/// Addresses are never used twice, so a use after free faults too, and an unmapped page stands behind each allocation.
class fake_memory {
 public:
  struct block {
    std::uint64_t bytes = 0;
    int device = 0;
  };

  fake_memory();
  /// 0 where the address space is used up.
  std::uint64_t allocate(std::uint64_t bytes, int device);
  /// False: no allocation begins there.
  bool free(std::uint64_t address);
  /// The allocation that holds all of [address, address + bytes); null: none does.
  const block* find(std::uint64_t address, std::uint64_t bytes) const;
  std::uint64_t live_bytes() const;
  /// The most since the last call.
  std::uint64_t take_peak_bytes();
  std::uint64_t live_allocations() const;

  /// Makes all live memory accessible, for the scope of an operation.
  class access {
   public:
    explicit access(fake_memory& memory) : memory_(memory) { memory_.open(); }
    ~access() { memory_.close(); }
    access(const access&) = delete;
    access& operator=(const access&) = delete;

   private:
    fake_memory& memory_;
  };

 private:
  void open();
  void close();
  void protect(int how);

  mutable std::mutex mutex_;
  std::byte* region_ = nullptr;
  std::uint64_t region_bytes_ = 0, used_ = 0;
  std::map<std::uint64_t, block> live_;  // by first address
  std::uint64_t sum_ = 0, peak_ = 0;     // of bytes
  int open_ = 0;
};

}  // namespace penstock::test
