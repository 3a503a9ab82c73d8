#pragma once

#include <sys/stat.h>
#include <time.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

/// Calls that Linux has and other systems lack, each with an alternative for those. They are tested on Linux only.
namespace penstock::inline v0 {

/// The time of the last change of a file's content.
inline const ::timespec& modified_at(const struct ::stat& of) noexcept {
#ifdef __APPLE__
  return of.st_mtimespec;
#else
  return of.st_mtim;
#endif
}
/// The time of the last change of a file's content or its attributes.
inline const ::timespec& changed_at(const struct ::stat& of) noexcept {
#ifdef __APPLE__
  return of.st_ctimespec;
#else
  return of.st_ctim;
#endif
}

/// Exchanges the names of two files or folders, atomically. Source: renameat2(2), RENAME_EXCHANGE.
/// \returns 0, or `errno`: ENOSYS or EINVAL where the system or the file system has no such call. Nothing changed then.
int exchange_names(const char* one, const char* other) noexcept;

/// Renames a file; never replaces another one if the system has a call for that, otherwise after a check.
/// \returns 0, or `errno`: EEXIST if `to` exists.
int rename_to_new(const char* from, const char* to) noexcept;

/// Sets the size of an open, empty file, and allocates its blocks if the system and the file system can.
/// \returns 0, or `errno`.
int allocate_file(int file, std::uint64_t bytes) noexcept;

/// Whether the calling thread is the first one of its process: after a fork, the one that forked.
bool is_first_thread() noexcept;

/// Lets short waits of the calling thread end in time, within 1 us; a hint.
void wait_precisely() noexcept;

/// The number of processors that the calling thread may use. Source: sched_getaffinity(2).
/// \returns nothing if the system cannot say.
std::optional<unsigned> processors_of_thread() noexcept;

/// Requests huge pages for mapped memory; a hint.
void use_huge_pages(void* memory, std::size_t bytes) noexcept;

/// Whether the system's calls can write to this byte of mapped memory. True where that cannot be checked.
bool system_writes_to(void* byte) noexcept;

/// Where the pages of the calling thread are allocated: a mode of set_mempolicy(2), and a bit for each NUMA node.
/// \returns false where the system does not have it, or refuses it.
bool get_memory_policy(int& mode, std::span<unsigned long> nodes) noexcept;
bool set_memory_policy(int mode, std::span<const unsigned long> nodes) noexcept;

}  // namespace penstock::inline v0
