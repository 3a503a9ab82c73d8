#include "cuda/page_locked_memory.h"

#include <sys/mman.h>

#include "base/system_calls.h"

namespace penstock::inline v0::cuda {
namespace {

page_locked_memory register_ours(const driver& with, std::uint64_t bytes) noexcept {
  void* const made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return {};
  use_huge_pages(made, bytes);
#ifdef MADV_DONTFORK
  // After a fork, a write of this process could move to a new page, while the device reads the registered one. A forked
  // process does not use the memory.
  (void)madvise(made, bytes, MADV_DONTFORK);
#endif
  if (with.mem_host_register(made, bytes, kHostRegisterPortable) == kSuccess)
    return {static_cast<std::byte*>(made), bytes, true};
  munmap(made, bytes);
  return {};
}

}  // namespace

page_locked_memory take_page_locked(const driver& with, std::uint64_t bytes) noexcept {
  void* made = nullptr;
  if (with.mem_host_alloc(&made, bytes, kHostAllocPortable) != kSuccess) return {};
  if (system_writes_to(made)) return {static_cast<std::byte*>(made), bytes, false};
  with.mem_free_host(made);
  return register_ours(with, bytes);
}

void give_page_locked(const driver& with, const page_locked_memory& memory) noexcept {
  if (!memory.is_ours) {
    with.mem_free_host(memory.data);
    return;
  }
  with.mem_host_unregister(memory.data);
  munmap(memory.data, memory.bytes);
}

}  // namespace penstock::inline v0::cuda
