// Loaded before libc (LD_PRELOAD): records what a program does to the files below a folder, in order, and can make the
// n-th of these calls fail. python/tests/power_cuts.py replays the record as a disk that loses what was not synced.
//
// POWER_ROOT  the folder, absolute and without links
// POWER_LOG   the file to record to; may be missing
// POWER_FAIL  `call:n:how`: the n-th (from 1) successful `write`, `fsync`, `rename`, `link`, `open`, `mkdir`, `unlink`
//             or `truncate` (or `any`) gets the error number `how`; how = 0: a short count
//
// Record: seven little-endian 64-bit numbers (operation, inode, offset, bytes, length of path, length of second path,
// length of data), then these.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { kCreate = 1, kWrite, kTruncate, kRename, kLink, kUnlink, kMkdir, kRmdir, kSyncFile, kSyncFolder, kSyncAll, kMark };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const char* root;
static size_t root_size;
static int log_file = -1;
static char fail_call[16];
static long fail_at, fail_how, calls;

#define REAL(type, name) ((type)dlsym(RTLD_NEXT, name))
typedef int (*open_fn)(const char*, int, ...);
typedef int (*openat_fn)(int, const char*, int, ...);
typedef ssize_t (*write_fn)(int, const void*, size_t);
typedef ssize_t (*pwrite_fn)(int, const void*, size_t, off_t);
typedef ssize_t (*writev_fn)(int, const struct iovec*, int);
typedef ssize_t (*pwritev_fn)(int, const struct iovec*, int, off_t);
typedef int (*ftruncate_fn)(int, off_t);
typedef int (*renameat2_fn)(int, const char*, int, const char*, unsigned);
typedef int (*linkat_fn)(int, const char*, int, const char*, int);
typedef int (*unlinkat_fn)(int, const char*, int);
typedef int (*mkdirat_fn)(int, const char*, mode_t);
typedef int (*sync_fn)(int);

__attribute__((constructor)) static void start(void) {
  root = getenv("POWER_ROOT");
  root_size = root != NULL ? strlen(root) : 0;
  const char* const name = getenv("POWER_LOG");
  if (name != NULL) log_file = REAL(open_fn, "open")(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  const char* const fail = getenv("POWER_FAIL");
  if (fail != NULL && sscanf(fail, "%15[a-z]:%ld:%ld", fail_call, &fail_at, &fail_how) != 3) abort();
}

// For a program that tries many failures: as POWER_FAIL, from the next call on. `at` = 0: none fails.
void power_fail(const char* call, long at, long how) {
  pthread_mutex_lock(&mutex);
  snprintf(fail_call, sizeof fail_call, "%s", call);
  fail_at = at;
  fail_how = how;
  calls = 0;
  pthread_mutex_unlock(&mutex);
}
// How many such calls there were since.
long power_calls(void) {
  pthread_mutex_lock(&mutex);
  const long out = calls;
  pthread_mutex_unlock(&mutex);
  return out;
}

static int is_below(const char* path) {
  return root != NULL && strncmp(path, root, root_size) == 0 && (path[root_size] == '/' || path[root_size] == '\0');
}

// The absolute path of `name` in the folder `at`. Returns whether it is below the root.
static int place(int at, const char* name, char* out) {
  if (root == NULL || name == NULL) return 0;
  if (name[0] == '/') {
    snprintf(out, PATH_MAX, "%s", name);
  } else {
    char base[PATH_MAX] = "";
    if (at == AT_FDCWD) {
      if (getcwd(base, sizeof base) == NULL) return 0;
    } else {
      char link[64];
      snprintf(link, sizeof link, "/proc/self/fd/%d", at);
      const ssize_t got = readlink(link, base, sizeof base - 1);
      if (got <= 0) return 0;
      base[got] = '\0';
    }
    if (snprintf(out, PATH_MAX, "%s/%s", base, name) >= PATH_MAX) return 0;
  }
  return is_below(out);
}

static int of_file(int file, char* path, struct stat* status) {
  if (root == NULL || fstat(file, status) != 0) return 0;
  if (!S_ISREG(status->st_mode) && !S_ISDIR(status->st_mode)) return 0;
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t got = readlink(link, path, PATH_MAX - 1);
  if (got <= 0) return 0;
  path[got] = '\0';
  return is_below(path);
}

static void put(const void* data, size_t size) {
  const char* at = data;
  while (size > 0) {
    const ssize_t wrote = REAL(write_fn, "write")(log_file, at, size);
    if (wrote <= 0) abort();
    at += wrote;
    size -= (size_t)wrote;
  }
}

static void record(int what, uint64_t inode, uint64_t offset, uint64_t bytes, const char* path, const char* second,
                   const struct iovec* data, int count) {
  if (log_file < 0) return;
  const int saved = errno;
  const uint64_t head[7] = {(uint64_t)what,
                            inode,
                            offset,
                            bytes,
                            path != NULL ? strlen(path) : 0,
                            second != NULL ? strlen(second) : 0,
                            data != NULL ? bytes : 0};
  put(head, sizeof head);
  put(path, (size_t)head[4]);
  put(second, (size_t)head[5]);
  for (int i = 0; i < count && bytes > 0; ++i) {
    const size_t part = data[i].iov_len < bytes ? data[i].iov_len : (size_t)bytes;
    put(data[i].iov_base, part);
    bytes -= part;
  }
  errno = saved;
}

// Whether this call is to fail; errno is set then.
static int fails(const char* call) {
  if (fail_at == 0 || (strcmp(call, fail_call) != 0 && strcmp("any", fail_call) != 0)) return 0;
  ++calls;
  if (calls != fail_at) return 0;
  if (fail_how == 0) return 1;
  errno = (int)fail_how;
  return 1;
}

static int open_at(int at, const char* name, int flags, mode_t mode) {
  char path[PATH_MAX];
  const openat_fn real = REAL(openat_fn, "openat");
  const int nameless = (flags & O_TMPFILE) == O_TMPFILE;
  if ((!nameless && (flags & (O_CREAT | O_TRUNC)) == 0) || !place(at, name, path)) return real(at, name, flags, mode);
  pthread_mutex_lock(&mutex);
  struct stat before, status;
  const int was_there = fstatat(at, name, &before, 0) == 0;
  int out = -1;
  if (fail_how == 0 || !fails("open")) out = real(at, name, flags, mode);
  if (out >= 0 && fstat(out, &status) == 0 && S_ISREG(status.st_mode)) {
    if (nameless)
      record(kCreate, status.st_ino, 0, 0, "", NULL, NULL, 0);
    else if (!was_there)
      record(kCreate, status.st_ino, 0, 0, path, NULL, NULL, 0);
    else if ((flags & O_TRUNC) != 0)
      record(kTruncate, status.st_ino, 0, 0, path, NULL, NULL, 0);
  }
  pthread_mutex_unlock(&mutex);
  return out;
}

#define MODE                                 \
  mode_t mode = 0;                           \
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) { \
    va_list rest;                            \
    va_start(rest, flags);                   \
    mode = va_arg(rest, mode_t);             \
    va_end(rest);                            \
  }

int open(const char* name, int flags, ...) {
  MODE return open_at(AT_FDCWD, name, flags, mode);
}
int open64(const char* name, int flags, ...) {
  MODE return open_at(AT_FDCWD, name, flags, mode);
}
int openat(int at, const char* name, int flags, ...) {
  MODE return open_at(at, name, flags, mode);
}
int openat64(int at, const char* name, int flags, ...) {
  MODE return open_at(at, name, flags, mode);
}
int creat(const char* name, mode_t mode) { return open_at(AT_FDCWD, name, O_WRONLY | O_CREAT | O_TRUNC, mode); }

// A write of several parts at `offset`, or at the file's position (-1).
static ssize_t write_parts(int file, const struct iovec* parts, int count, off_t offset) {
  char path[PATH_MAX];
  struct stat status;
  if (!of_file(file, path, &status)) {
    return offset < 0 ? REAL(writev_fn, "writev")(file, parts, count)
                      : REAL(pwritev_fn, "pwritev")(file, parts, count, offset);
  }
  pthread_mutex_lock(&mutex);
  ssize_t wrote = -1;
  struct iovec first = {NULL, 0};
  const int now = fails("write");
  if (now && fail_how == 0) {  // a short count
    first = parts[0];
    first.iov_len = (first.iov_len + 1) / 2;
    parts = &first;
    count = 1;
  }
  if (!now || fail_how == 0) {
    off_t at = offset;
    if (offset < 0) {
      at = (fcntl(file, F_GETFL) & O_APPEND) != 0 ? status.st_size : lseek(file, 0, SEEK_CUR);
      wrote = REAL(writev_fn, "writev")(file, parts, count);
    } else {
      wrote = REAL(pwritev_fn, "pwritev")(file, parts, count, offset);
    }
    if (wrote > 0) record(kWrite, status.st_ino, (uint64_t)at, (uint64_t)wrote, path, NULL, parts, count);
  }
  pthread_mutex_unlock(&mutex);
  return wrote;
}

ssize_t write(int file, const void* data, size_t size) {
  const struct iovec one = {(void*)data, size};
  struct stat status;
  char path[PATH_MAX];
  if (!of_file(file, path, &status)) return REAL(write_fn, "write")(file, data, size);
  return write_parts(file, &one, 1, -1);
}
ssize_t writev(int file, const struct iovec* parts, int count) { return write_parts(file, parts, count, -1); }
ssize_t pwrite(int file, const void* data, size_t size, off_t offset) {
  const struct iovec one = {(void*)data, size};
  return write_parts(file, &one, 1, offset);
}
ssize_t pwrite64(int file, const void* data, size_t size, off_t offset) { return pwrite(file, data, size, offset); }
ssize_t pwritev(int file, const struct iovec* parts, int count, off_t offset) {
  return write_parts(file, parts, count, offset);
}
ssize_t pwritev64(int file, const struct iovec* parts, int count, off_t offset) {
  return write_parts(file, parts, count, offset);
}

// Programs fall back to reading and writing, which is recorded.
ssize_t copy_file_range(int from, off_t* in, int to, off_t* out, size_t size, unsigned flags) {
  (void)from, (void)in, (void)to, (void)out, (void)size, (void)flags;
  errno = ENOSYS;
  return -1;
}
ssize_t sendfile(int to, int from, off_t* offset, size_t size) {
  (void)from, (void)to, (void)offset, (void)size;
  errno = EINVAL;
  return -1;
}
ssize_t sendfile64(int to, int from, off_t* offset, size_t size) { return sendfile(to, from, offset, size); }

int ftruncate(int file, off_t size) {
  char path[PATH_MAX];
  struct stat status;
  if (!of_file(file, path, &status)) return REAL(ftruncate_fn, "ftruncate")(file, size);
  pthread_mutex_lock(&mutex);
  int out = -1;
  if (fail_how == 0 || !fails("truncate")) out = REAL(ftruncate_fn, "ftruncate")(file, size);
  if (out == 0) record(kTruncate, status.st_ino, (uint64_t)size, 0, path, NULL, NULL, 0);
  pthread_mutex_unlock(&mutex);
  return out;
}
int ftruncate64(int file, off_t size) { return ftruncate(file, size); }

int renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) {
  char first[PATH_MAX], second[PATH_MAX];
  const renameat2_fn real = REAL(renameat2_fn, "renameat2");
  if (!place(from_at, from, first) || !place(to_at, to, second)) return real(from_at, from, to_at, to, flags);
  pthread_mutex_lock(&mutex);
  int out = -1;
  if (fail_how == 0 || !fails("rename")) out = real(from_at, from, to_at, to, flags);
  if (out == 0) record(kRename, 0, flags, 0, first, second, NULL, 0);
  pthread_mutex_unlock(&mutex);
  return out;
}
int renameat(int from_at, const char* from, int to_at, const char* to) { return renameat2(from_at, from, to_at, to, 0); }
int rename(const char* from, const char* to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

int linkat(int from_at, const char* from, int to_at, const char* to, int flags) {
  char first[PATH_MAX], second[PATH_MAX];
  const linkat_fn real = REAL(linkat_fn, "linkat");
  if (!place(from_at, from, first) || !place(to_at, to, second)) return real(from_at, from, to_at, to, flags);
  pthread_mutex_lock(&mutex);
  int out = -1;
  if (fail_how == 0 || !fails("link")) out = real(from_at, from, to_at, to, flags);
  if (out == 0) record(kLink, 0, 0, 0, first, second, NULL, 0);
  pthread_mutex_unlock(&mutex);
  return out;
}
int link(const char* from, const char* to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int unlinkat(int at, const char* name, int flags) {
  char path[PATH_MAX];
  const unlinkat_fn real = REAL(unlinkat_fn, "unlinkat");
  if (!place(at, name, path)) return real(at, name, flags);
  pthread_mutex_lock(&mutex);
  int out = -1;
  // Cleaning up after a failure must not fail too: removing works on a full disk.
  if (strcmp("unlink", fail_call) != 0 || !fails("unlink")) out = real(at, name, flags);
  if (out == 0) record((flags & AT_REMOVEDIR) != 0 ? kRmdir : kUnlink, 0, 0, 0, path, NULL, NULL, 0);
  if (strstr(path, "/.power-mark-") != NULL) record(kMark, 0, 0, 0, path, NULL, NULL, 0);
  pthread_mutex_unlock(&mutex);
  return out;
}
int unlink(const char* name) { return unlinkat(AT_FDCWD, name, 0); }
int remove(const char* name) {
  const int out = unlinkat(AT_FDCWD, name, 0);
  return out == 0 || errno != EISDIR ? out : unlinkat(AT_FDCWD, name, AT_REMOVEDIR);
}
int rmdir(const char* name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }

int mkdirat(int at, const char* name, mode_t mode) {
  char path[PATH_MAX];
  const mkdirat_fn real = REAL(mkdirat_fn, "mkdirat");
  if (!place(at, name, path)) return real(at, name, mode);
  pthread_mutex_lock(&mutex);
  int out = -1;
  if (fail_how == 0 || !fails("mkdir")) out = real(at, name, mode);
  if (out == 0) record(kMkdir, 0, 0, 0, path, NULL, NULL, 0);
  pthread_mutex_unlock(&mutex);
  return out;
}
int mkdir(const char* name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

static int sync_one(int file, const char* name) {
  char path[PATH_MAX];
  struct stat status;
  const sync_fn real = REAL(sync_fn, name);
  if (!of_file(file, path, &status)) return real(file);
  pthread_mutex_lock(&mutex);
  int out = -1;
  if (fail_how == 0 || !fails("fsync")) out = 0;  // the recorded disk is synced, this machine's need not be
  if (out == 0) record(S_ISDIR(status.st_mode) ? kSyncFolder : kSyncFile, status.st_ino, 0, 0, path, NULL, NULL, 0);
  pthread_mutex_unlock(&mutex);
  return out;
}
int fsync(int file) { return sync_one(file, "fsync"); }
int fdatasync(int file) { return sync_one(file, "fdatasync"); }
int syncfs(int file) {
  char path[PATH_MAX];
  struct stat status;
  if (!of_file(file, path, &status)) return REAL(sync_fn, "syncfs")(file);
  pthread_mutex_lock(&mutex);
  record(kSyncAll, 0, 0, 0, path, NULL, NULL, 0);
  pthread_mutex_unlock(&mutex);
  return 0;
}
