#pragma once

/// \file
/// Counts the calls of a piece of code to the allocator and to the kernel's file functions, exactly.
/// Include it in one source file of a program: it defines operator new, open, stat, ... there, which count for the
/// calling thread and then call the originals. Not for programs under sanitizers, which define functions of those names
/// themselves.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdlib>
#include <functional>
#include <new>
#include <ostream>
#include <utility>

namespace penstock::test {

struct call_counts {
  int opens = 0, closes = 0, stats = 0, fstats = 0, preads = 0, reads = 0, allocations = 0;
  friend bool operator==(const call_counts&, const call_counts&) = default;
};

inline void PrintTo(const call_counts& c, std::ostream* out) {
  *out << "open " << c.opens << " close " << c.closes << " stat " << c.stats << " fstat " << c.fstats << " pread "
       << c.preads << " read " << c.reads << " new " << c.allocations;
}

inline thread_local call_counts* counting = nullptr;
inline thread_local void (*at_allocation)() = nullptr;  ///< called once, by the next allocation

inline void count(int call_counts::* which) noexcept {
  if (counting != nullptr) ++(counting->*which);
}

/// The calls of `body` on this thread.
inline call_counts count_calls(const std::function<void()>& body) {
  call_counts out;
  counting = &out;
  body();
  counting = nullptr;
  return out;
}

/// The function that the program's own one hides.
template <class F>
F* next_function(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

// Not inlined, as operator new and delete are not: otherwise, g++ reports the pair of malloc and free as a mismatch.
[[gnu::noinline]] inline void* counted_allocation(std::size_t size) {
  count(&call_counts::allocations);
  if (at_allocation != nullptr) std::exchange(at_allocation, nullptr)();
  return std::malloc(size == 0 ? 1 : size);
}

}  // namespace penstock::test

// NOLINTBEGIN: the declarations are the system's
extern "C" {
int open(const char* path, int flags, ...) {
  static const auto real = penstock::test::next_function<int(const char*, int, ...)>("open");
  penstock::test::count(&penstock::test::call_counts::opens);
  std::va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return real(path, flags, mode);
}
int close(int file) {
  static const auto real = penstock::test::next_function<int(int)>("close");
  penstock::test::count(&penstock::test::call_counts::closes);
  return real(file);
}
int stat(const char* path, struct stat* out) noexcept {
  static const auto real = penstock::test::next_function<int(const char*, struct stat*)>("stat");
  penstock::test::count(&penstock::test::call_counts::stats);
  return real(path, out);
}
int fstat(int file, struct stat* out) noexcept {
  static const auto real = penstock::test::next_function<int(int, struct stat*)>("fstat");
  penstock::test::count(&penstock::test::call_counts::fstats);
  return real(file, out);
}
ssize_t pread(int file, void* to, size_t size, off_t offset) {
  static const auto real = penstock::test::next_function<ssize_t(int, void*, size_t, off_t)>("pread");
  penstock::test::count(&penstock::test::call_counts::preads);
  return real(file, to, size, offset);
}
ssize_t read(int file, void* to, size_t size) {
  static const auto real = penstock::test::next_function<ssize_t(int, void*, size_t)>("read");
  penstock::test::count(&penstock::test::call_counts::reads);
  return real(file, to, size);
}
}

[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* const memory = penstock::test::counted_allocation(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return penstock::test::counted_allocation(size);
  } catch (const std::bad_alloc&) {  // of `at_allocation`
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
// NOLINTEND
