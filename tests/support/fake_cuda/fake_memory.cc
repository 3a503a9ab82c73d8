#include "support/fake_cuda/fake_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace penstock::test {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kAlignment = 256;  // as cuMemAlloc
constexpr int kJunk = 0xCD;                // fresh memory is not zero

std::uint64_t round_up(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }

// The pages of an allocation that ends, but for its alignment, where its last page does.
void* pages_of(std::uint64_t address) { return reinterpret_cast<void*>(address / kPage * kPage); }
std::uint64_t page_bytes(std::uint64_t address, std::uint64_t bytes) {
  return round_up(address + bytes, kPage) - address / kPage * kPage;
}

}  // namespace

fake_memory::fake_memory() {
  for (region_bytes_ = std::uint64_t{1} << 40; region_bytes_ >= std::uint64_t{1} << 32; region_bytes_ /= 4) {
    void* const made = mmap(nullptr, region_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) continue;
    region_ = static_cast<std::byte*>(made);
    return;
  }
  region_bytes_ = 0;
}

std::uint64_t fake_memory::allocate(std::uint64_t bytes, int device) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t room = round_up(bytes, kPage);
  if (room + kPage > region_bytes_ - used_) return 0;
  const std::uint64_t address = reinterpret_cast<std::uint64_t>(region_) + used_ + room - round_up(bytes, kAlignment);
  used_ += room + kPage;
  if (mprotect(pages_of(address), page_bytes(address, bytes), PROT_READ | PROT_WRITE) != 0) return 0;
  std::memset(reinterpret_cast<void*>(address), kJunk, bytes);
  if (open_ == 0) mprotect(pages_of(address), page_bytes(address, bytes), PROT_NONE);
  live_[address] = {bytes, device};
  sum_ += bytes;
  peak_ = std::max(peak_, sum_);
  return address;
}

bool fake_memory::free(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(address);
  if (found == live_.end()) return false;
  void* const pages = pages_of(address);
  const std::uint64_t bytes = page_bytes(address, found->second.bytes);
  madvise(pages, bytes, MADV_DONTNEED);
  mprotect(pages, bytes, PROT_NONE);
  sum_ -= found->second.bytes;
  live_.erase(found);
  return true;
}

const fake_memory::block* fake_memory::find(std::uint64_t address, std::uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  auto after = live_.upper_bound(address);
  if (after == live_.begin()) return nullptr;
  --after;
  const std::uint64_t offset = address - after->first;
  return offset <= after->second.bytes && bytes <= after->second.bytes - offset ? &after->second : nullptr;
}

std::uint64_t fake_memory::live_bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [address, each] : live_) sum += each.bytes;
  return sum;
}

std::uint64_t fake_memory::take_peak_bytes() {
  const std::lock_guard lock(mutex_);
  return std::exchange(peak_, sum_);
}

std::uint64_t fake_memory::live_allocations() const {
  const std::lock_guard lock(mutex_);
  return live_.size();
}

void fake_memory::open() {
  const std::lock_guard lock(mutex_);
  if (open_++ == 0) protect(PROT_READ | PROT_WRITE);
}

void fake_memory::close() {
  const std::lock_guard lock(mutex_);
  if (--open_ == 0) protect(PROT_NONE);
}

void fake_memory::protect(int how) {
  for (const auto& [address, each] : live_) mprotect(pages_of(address), page_bytes(address, each.bytes), how);
}

}  // namespace penstock::test
