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

// Except for its alignment, an allocation ends where its last page does.
fake_memory::pages pages_of(std::uint64_t address, std::uint64_t bytes) {
  return {address / kPage * kPage, round_up(address + bytes, kPage)};
}

bool protect(const fake_memory::pages& which, int how) {
  return mprotect(reinterpret_cast<void*>(which.begin), which.end - which.begin, how) == 0;
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
  if (!protect(pages_of(address, bytes), PROT_READ | PROT_WRITE)) return 0;
  std::memset(reinterpret_cast<void*>(address), kJunk, bytes);
  protect(pages_of(address, bytes), PROT_NONE);
  live_[address] = {bytes, device};
  sum_ += bytes;
  peak_ = std::max(peak_, sum_);
  return address;
}

bool fake_memory::free(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(address);
  if (found == live_.end()) return false;
  const pages held = pages_of(address, found->second.bytes);
  madvise(reinterpret_cast<void*>(held.begin), held.end - held.begin, MADV_DONTNEED);
  protect(held, PROT_NONE);
  sum_ -= found->second.bytes;
  live_.erase(found);
  return true;
}

const fake_memory::block* fake_memory::find(std::uint64_t address, std::uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  return holder(address, bytes);
}

const fake_memory::block* fake_memory::holder(std::uint64_t address, std::uint64_t bytes) const {
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

void fake_memory::open(const pages& which) {
  protect(which, PROT_READ | PROT_WRITE);
  open_.push_back(which);
}

// Pages that another operation has opened remain open.
void fake_memory::close(const pages& which) {
  open_.erase(std::find(open_.begin(), open_.end(), which));
  for (std::uint64_t at = which.begin; at < which.end;) {
    std::uint64_t kept = at, next = which.end;
    for (const pages& other : open_) {
      if (other.begin <= at) kept = std::max(kept, other.end);
      if (other.begin > at) next = std::min(next, other.begin);
    }
    if (kept == at) protect({at, next}, PROT_NONE);
    at = kept == at ? next : kept;
  }
}

fake_memory::access::access(fake_memory& memory) : memory_(memory) {
  const std::lock_guard lock(memory_.mutex_);
  for (const auto& [address, each] : memory_.live_) opened_.push_back(pages_of(address, each.bytes));
  for (const pages& each : opened_) memory_.open(each);
}

fake_memory::access::access(fake_memory& memory, std::initializer_list<const void*> begins, std::uint64_t bytes)
    : memory_(memory) {
  const std::lock_guard lock(memory_.mutex_);
  for (const void* const begin : begins) {
    const auto address = reinterpret_cast<std::uint64_t>(begin);
    if (memory_.holder(address, bytes) != nullptr) opened_.push_back(pages_of(address, bytes));
  }
  for (const pages& each : opened_) memory_.open(each);
}

fake_memory::access::~access() {
  const std::lock_guard lock(memory_.mutex_);
  for (const pages& each : opened_) memory_.close(each);
}

}  // namespace penstock::test
