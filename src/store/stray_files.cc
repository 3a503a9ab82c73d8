#include "store/stray_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <ctime>
#include <memory>

#include "store/file_status.h"
#include "store/folder_swap.h"

namespace penstock::inline v0 {
namespace {

constexpr std::time_t kLongestWrite = 3600;

// The process number in the name of a temporary file; 0: another file of the store.
::pid_t writer_of(std::string_view name) noexcept {
  name.remove_prefix(kTemporaryPrefix.size());
  ::pid_t out = 0;
  const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), out);
  const bool good = failed == std::errc() && end != name.data() + name.size() && *end == '-' && out > 0;
  return good ? out : 0;
}

void remove_if_stray(int folder, const char* name, ::pid_t writer) noexcept {
  const bool process_gone = ::kill(writer, 0) != 0 && errno == ESRCH;
  struct ::stat status{};
  if (::fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return;
  const bool is_folder = S_ISDIR(status.st_mode);  // of a node that was to replace another one
  if (!S_ISREG(status.st_mode) && !is_folder) return;
  if (!process_gone && std::time(nullptr) - status.st_mtime < kLongestWrite) return;
  const descriptor file(::openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return;
  if (is_folder)
    (void)remove_tree(folder, name);
  else
    ::unlinkat(folder, name, 0);
}

}  // namespace

std::string temporary_name(std::uint64_t salt) {
  return fmt::format("{}{}-{:016x}", kTemporaryPrefix, ::getpid(), salt);
}

void remove_stray_files(int folder) noexcept {
  constexpr int kMostNames = 65'536;
  const int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);  // has its own position
  if (copy < 0) return;
  ::DIR* const names = ::fdopendir(copy);
  if (names == nullptr) {
    ::close(copy);
    return;
  }
  for (int i = 0; i < kMostNames; ++i) {
    const ::dirent* const entry = ::readdir(names);  // NOLINT(concurrency-mt-unsafe): the stream is not shared
    if (entry == nullptr) break;
    const std::string_view name(entry->d_name);
    if (name.substr(0, kTemporaryPrefix.size()) != kTemporaryPrefix) continue;
    if (const ::pid_t writer = writer_of(name); writer != 0 && writer != ::getpid())
      remove_if_stray(folder, entry->d_name, writer);
  }
  ::closedir(names);
}

}  // namespace penstock::inline v0
