#include "base/system_calls.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#ifdef __linux__
#include <sched.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#endif

namespace penstock::inline v0 {

int exchange_names(const char* one, const char* other) noexcept {
#ifdef RENAME_EXCHANGE
  return ::renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE) == 0 ? 0 : errno;
#elif defined(__APPLE__)
  return ::renamex_np(one, other, RENAME_SWAP) == 0 ? 0 : errno;
#else
  static_cast<void>(one), static_cast<void>(other);
  return ENOSYS;
#endif
}

int rename_to_new(const char* from, const char* to) noexcept {
#ifdef RENAME_NOREPLACE
  if (::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
#elif defined(__APPLE__)
  if (::renamex_np(from, to, RENAME_EXCL) == 0) return 0;
  if (errno != EINVAL && errno != ENOTSUP) return errno;
#endif
  struct ::stat existing{};
  if (::lstat(to, &existing) == 0) return EEXIST;
  return ::rename(from, to) == 0 ? 0 : errno;
}

int allocate_file(int file, std::uint64_t bytes) noexcept {
  const auto size = static_cast<::off_t>(bytes);
#ifndef __APPLE__
  const int failed = ::posix_fallocate(file, 0, size);
  if (failed != EOPNOTSUPP && failed != EINVAL) return failed;
#endif
  return ::ftruncate(file, size) == 0 ? 0 : errno;
}

bool is_first_thread() noexcept {
#ifdef __linux__
  return ::syscall(SYS_gettid) == ::getpid();
#else
  return ::pthread_main_np() != 0;
#endif
}

void wait_precisely() noexcept {
#ifdef PR_SET_TIMERSLACK
  constexpr unsigned long kNanoseconds = 1000;
  (void)::prctl(PR_SET_TIMERSLACK, kNanoseconds, 0, 0, 0);
#endif
}

std::optional<unsigned> processors_of_thread() noexcept {
#ifdef __linux__
  constexpr int kMost = 1 << 16;
  for (int processors = 1024; processors <= kMost; processors *= 2) {  // fewer than the kernel's: EINVAL
    cpu_set_t* const set = CPU_ALLOC(processors);
    if (set == nullptr) return std::nullopt;
    const std::size_t bytes = CPU_ALLOC_SIZE(processors);
    const int failed = ::sched_getaffinity(0, bytes, set) == 0 ? 0 : errno;
    const int count = failed == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return static_cast<unsigned>(count);
    if (failed != EINVAL) return std::nullopt;
  }
#endif
  return std::nullopt;
}

void use_huge_pages(void* memory, std::size_t bytes) noexcept {
#ifdef MADV_HUGEPAGE
  (void)::madvise(memory, bytes, MADV_HUGEPAGE);
#else
  static_cast<void>(memory), static_cast<void>(bytes);
#endif
}

bool system_writes_to(void* byte) noexcept {
#ifdef GRND_NONBLOCK
  return ::getrandom(byte, 1, GRND_NONBLOCK) >= 0 || errno != EFAULT;
#else
  static_cast<void>(byte);
  return true;
#endif
}

#ifdef SYS_set_mempolicy
namespace {

// The system uses one bit less than it is given.
unsigned long bits_of(std::size_t words) noexcept { return 8 * sizeof(unsigned long) * words + 1; }

}  // namespace
#endif

bool get_memory_policy(int& mode, std::span<unsigned long> nodes) noexcept {
#ifdef SYS_get_mempolicy
  return ::syscall(SYS_get_mempolicy, &mode, nodes.data(), bits_of(nodes.size()), nullptr, 0UL) == 0;
#else
  static_cast<void>(mode), static_cast<void>(nodes);
  return false;
#endif
}

bool set_memory_policy(int mode, std::span<const unsigned long> nodes) noexcept {
#ifdef SYS_set_mempolicy
  return ::syscall(SYS_set_mempolicy, mode, nodes.data(), bits_of(nodes.size())) == 0;
#else
  static_cast<void>(mode), static_cast<void>(nodes);
  return false;
#endif
}

}  // namespace penstock::inline v0
