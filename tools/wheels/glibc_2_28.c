// Functions of a glibc later than 2.28 that g++ 12 and its libstdc++ use, for one module: linked into the wheels only.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

// glibc 2.32. False is always correct: libstdc++ then counts references with atomic operations.
HIDDEN char __libc_single_threaded = 0;

// glibc 2.30.
HIDDEN pid_t gettid(void) { return (pid_t)syscall(SYS_gettid); }

// glibc 2.30, for condition variables that wait on the steady clock. Here they wait on the system's clock, as libstdc++
// itself does with an older glibc: its caller checks the intended clock, so that a step of the system's clock only ends
// a wait early or late.
HIDDEN int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                  const struct timespec* until) {
  struct timespec now, system;
  if (clock == CLOCK_REALTIME) return pthread_cond_timedwait(condition, mutex, until);
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &system);
  system.tv_sec += until->tv_sec - now.tv_sec;
  system.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (system.tv_nsec < 0) {
    system.tv_nsec += 1000000000;
    --system.tv_sec;
  } else if (system.tv_nsec >= 1000000000) {
    system.tv_nsec -= 1000000000;
    ++system.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &system);
}

// glibc 2.36, for std::random_device.
HIDDEN uint32_t arc4random(void) {
  uint32_t value;
  while (getrandom(&value, sizeof value, 0) != (ssize_t)sizeof value) {
  }
  return value;
}

struct query {
  uintptr_t pc;
  struct dl_find_object* out;
};

static int find_in(struct dl_phdr_info* info, size_t size, void* data) {
  struct query* const q = data;
  uintptr_t first = UINTPTR_MAX, last = 0, frames = 0;
  int hit = 0;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* const each = &info->dlpi_phdr[i];
    const uintptr_t at = info->dlpi_addr + each->p_vaddr;
    if (each->p_type == PT_GNU_EH_FRAME) frames = at;
    if (each->p_type != PT_LOAD) continue;
    if (at < first) first = at;
    if (at + each->p_memsz > last) last = at + each->p_memsz;
    hit |= q->pc >= at && q->pc < at + each->p_memsz;
  }
  if (!hit || frames == 0) return 0;
  q->out->dlfo_flags = 0;
  q->out->dlfo_map_start = (void*)first;
  q->out->dlfo_map_end = (void*)last;
  q->out->dlfo_link_map = NULL;
  q->out->dlfo_eh_frame = (void*)frames;
  return 1;
}

// glibc 2.35: where the unwinder of GCC 12 finds the frames of a function. Earlier unwinders called dl_iterate_phdr.
HIDDEN int _dl_find_object(void* pc, struct dl_find_object* out) {
  struct query q = {(uintptr_t)pc, out};
  return dl_iterate_phdr(find_in, &q) == 1 ? 0 : -1;
}
