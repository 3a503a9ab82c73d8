#include "codec/library_memory.h"

#include <algorithm>
#include <new>

namespace penstock::inline v0 {

library_memory::~library_memory() {
  for (block& one : blocks_) one.used = false;
  drop_unused();
}

void* library_memory::take(std::size_t bytes) noexcept {
  block* best = nullptr;
  for (block& one : blocks_) {
    const bool fits = !one.used && one.bytes >= bytes && one.bytes / 2 <= bytes;
    if (fits && (best == nullptr || one.bytes < best->bytes)) best = &one;
  }
  if (best != nullptr) {
    best->used = true;
    return best->memory.get();
  }
  if (accounts_ != nullptr && !accounts_->take(memory_use::scratch, bytes).ok()) {
    drop_unused();
    if (!accounts_->take(memory_use::scratch, bytes).ok()) return nullptr;
  }
  std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[bytes]);
  if (memory == nullptr) {
    if (accounts_ != nullptr) accounts_->give(memory_use::scratch, bytes);
    return nullptr;
  }
  blocks_.push_back({std::move(memory), bytes, true});
  return blocks_.back().memory.get();
}

void library_memory::give(void* memory) noexcept {
  for (block& one : blocks_) {
    if (one.memory.get() == memory) one.used = false;
  }
}

void library_memory::drop_unused() noexcept {
  for (const block& one : blocks_) {
    if (!one.used && accounts_ != nullptr) accounts_->give(memory_use::scratch, one.bytes);
  }
  blocks_.erase(std::remove_if(blocks_.begin(), blocks_.end(), [](const block& one) { return !one.used; }),
                blocks_.end());
}

}  // namespace penstock::inline v0
