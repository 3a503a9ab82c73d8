/* Counts the large allocations of a process, in all threads: for tests that preload it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

static atomic_size_t least; /* 0: nothing is counted */
static atomic_long counted;

void large_allocations_begin(size_t from_bytes) {
  atomic_store(&counted, 0);
  atomic_store(&least, from_bytes);
}

long large_allocations_end(void) {
  atomic_store(&least, 0);
  return atomic_load(&counted);
}

static void note(size_t bytes) {
  const size_t from = atomic_load_explicit(&least, memory_order_relaxed);
  if (from != 0 && bytes >= from) atomic_fetch_add(&counted, 1);
}

#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))

void* malloc(size_t bytes) {
  static void* (*next)(size_t);
  if (next == NULL) next = NEXT(void* (*)(size_t), "malloc");
  note(bytes);
  return next(bytes);
}

void* realloc(void* old, size_t bytes) {
  static void* (*next)(void*, size_t);
  if (next == NULL) next = NEXT(void* (*)(void*, size_t), "realloc");
  note(bytes);
  return next(old, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  static void* (*next)(size_t, size_t);
  if (next == NULL) next = NEXT(void* (*)(size_t, size_t), "aligned_alloc");
  note(bytes);
  return next(alignment, bytes);
}

int posix_memalign(void** out, size_t alignment, size_t bytes) {
  static int (*next)(void**, size_t, size_t);
  if (next == NULL) next = NEXT(int (*)(void**, size_t, size_t), "posix_memalign");
  note(bytes);
  return next(out, alignment, bytes);
}

void* mmap(void* at, size_t bytes, int protection, int flags, int file, off_t offset) {
  static void* (*next)(void*, size_t, int, int, int, off_t);
  if (next == NULL) next = NEXT(void* (*)(void*, size_t, int, int, int, off_t), "mmap");
  if (file < 0) note(bytes);
  return next(at, bytes, protection, flags, file, offset);
}
