#include "cuda/page_locked_memory.h"

#include <sys/mman.h>
#include <sys/random.h>

#include <cerrno>

namespace penstock::inline v0::cuda {
namespace {

// A system call that writes a byte to the memory, as reading a file does.
bool system_writes_to(void* memory) noexcept { return getrandom(memory, 1, GRND_NONBLOCK) >= 0 || errno != EFAULT; }

page_locked_memory register_ours(const driver& with, std::uint64_t bytes) noexcept {
  void* const made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return {};
  (void)madvise(made, bytes, MADV_HUGEPAGE);
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
