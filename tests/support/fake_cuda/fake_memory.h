#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <mutex>
#include <vector>

namespace penstock::test {

/// Device memory of the fake driver: address space that faults when it is accessed, except for the memory of a running
/// operation of the driver.
///
/// Addresses are never used twice, so a use after free faults too, and an unmapped page follows each allocation.
class fake_memory {
 public:
  struct block {
    std::uint64_t bytes = 0;
    int device = 0;
  };

  fake_memory();
  /// 0 if the address space is used up.
  std::uint64_t allocate(std::uint64_t bytes, int device);
  /// False: no allocation begins there.
  bool free(std::uint64_t address);
  /// The allocation that holds all of [address, address + bytes); null: none does.
  const block* find(std::uint64_t address, std::uint64_t bytes) const;
  std::uint64_t live_bytes() const;
  /// The most since the last call.
  std::uint64_t take_peak_bytes();
  std::uint64_t live_allocations() const;

  /// Pages, by their addresses.
  struct pages {
    std::uint64_t begin = 0, end = 0;
    bool operator==(const pages&) const = default;
  };

  /// Makes memory accessible for the scope of an operation. Memory that is not live remains inaccessible.
  class access {
   public:
    /// All live memory: for kernels, which follow pointers of their own.
    explicit access(fake_memory& memory);
    /// `bytes` from each of these addresses; addresses outside of device memory are ignored.
    access(fake_memory& memory, std::initializer_list<const void*> begins, std::uint64_t bytes);
    ~access();
    access(const access&) = delete;
    access& operator=(const access&) = delete;

   private:
    fake_memory& memory_;
    std::vector<pages> opened_;
  };

 private:
  const block* holder(std::uint64_t address, std::uint64_t bytes) const;
  void open(const pages& which);
  void close(const pages& which);

  mutable std::mutex mutex_;
  std::byte* region_ = nullptr;
  std::uint64_t region_bytes_ = 0, used_ = 0;
  std::map<std::uint64_t, block> live_;  // blocks by first address
  std::uint64_t sum_ = 0, peak_ = 0;     // bytes
  std::vector<pages> open_;              // pages that running operations have opened
};

}  // namespace penstock::test
