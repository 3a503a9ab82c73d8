#include "store/folder_swap.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "store/file_parts.h"
#include "store/stray_files.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kOldPrefix = ".penstock-old-";
/// More files than this are written to the device by one call for the whole file system.
constexpr int kMostSyncs = 256;

constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;

struct close_folder {
  void operator()(::DIR* folder) const noexcept { ::closedir(folder); }
};
using open_names = std::unique_ptr<::DIR, close_folder>;

open_names names_of(int folder) noexcept {
  const int copy = ::openat(folder, ".", kFolder);
  if (copy < 0) return nullptr;
  ::DIR* const opened = ::fdopendir(copy);
  if (opened == nullptr) ::close(copy);
  return open_names(opened);
}

/// Calls `entry(name, is_folder)` for every entry except "." and "..".
template <class F>
result<> for_each_entry(int folder, const F& entry) {
  const open_names names = names_of(folder);
  if (!names) return read_failure(errno, "reading the folder");
  for (;;) {
    errno = 0;
    const ::dirent* const found = ::readdir(names.get());  // NOLINT(concurrency-mt-unsafe): the stream is not shared
    if (found == nullptr) {
      if (errno != 0) return read_failure(errno, "reading the folder");
      return {};
    }
    const std::string_view name(found->d_name);
    if (name == "." || name == "..") continue;
    bool is_folder = found->d_type == DT_DIR;
    if (found->d_type == DT_UNKNOWN) {
      struct ::stat status{};
      if (::fstatat(folder, found->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
      is_folder = S_ISDIR(status.st_mode);
    }
    PENSTOCK_TRY(entry(found->d_name, is_folder));
  }
}

result<descriptor> open_below(int above, const char* name) {
  descriptor out(::openat(above, name, kFolder));
  if (!out) return read_failure(errno, "opening the folder");
  return out;
}

/// Syncs the files of a tree to the device.
result<> sync_tree(int folder, int& count) {
  PENSTOCK_TRY(for_each_entry(folder, [&](const char* name, bool is_folder) -> result<> {
    if (count > kMostSyncs) return {};
    if (is_folder) {
      PENSTOCK_ASSIGN(const descriptor below, open_below(folder, name));
      return sync_tree(below.get(), count);
    }
    struct ::stat status{};
    if (::fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode)) return {};
    if (++count > kMostSyncs) return {};
    const descriptor file(::openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file) return read_failure(errno, "opening");
    return sync_file_bytes(file.get());
  }));
  return sync_file(folder);
}

result<> sync_draft(int folder) {
  int count = 0;
  PENSTOCK_TRY(sync_tree(folder, count));
#ifdef __linux__
  if (count > kMostSyncs && ::syncfs(folder) != 0) return write_failure(errno, "syncing the file system");
#else
  if (count > kMostSyncs) ::sync();
#endif
  return {};
}

/// Gives the kept files of a tree a second name in another one.
class keeper {
 public:
  explicit keeper(const std::function<bool(std::string_view)>& belongs) : belongs_(belongs) {}

  /// \param to  The folder with the same path in the new tree; -1: it may not exist yet.
  result<> keep(int from, int to, const std::string& path) {
    return for_each_entry(from, [&](const char* name, bool is_folder) -> result<> {
      const std::string_view text(name);
      if (text.starts_with(kTemporaryPrefix) || text.starts_with(kOldPrefix)) return {};
      const std::string at = path + name;
      if (!is_folder) return belongs_(at) ? result<>() : link(from, name, to, at);
      PENSTOCK_ASSIGN(const descriptor below, open_below(from, name));
      bool any = false;
      PENSTOCK_TRY(finds_any(below.get(), at + "/", any));
      if (!any) return {};
      struct ::stat status{};
      if (::fstat(below.get(), &status) != 0) return read_failure(errno, "looking up the folder");
      if (::mkdirat(to, name, status.st_mode & 07777U) != 0 && errno != EEXIST)
        return write_failure(errno, "creating the folder");
      auto made = open_below(to, name);
      if (!made.ok()) return in_the_way(at);
      return keep(below.get(), made->get(), at + "/");
    });
  }

 private:
  static error in_the_way(const std::string& at) {
    return {errc::invalid_argument,
            fmt::format("'{}' is not part of the overwritten node, and the new node needs its name: move it", at)};
  }

  result<> finds_any(int folder, const std::string& path, bool& any) {
    return for_each_entry(folder, [&](const char* name, bool is_folder) -> result<> {
      if (any || std::string_view(name).starts_with(kTemporaryPrefix)) return {};
      if (!is_folder) {
        any = !belongs_(path + name);
        return {};
      }
      PENSTOCK_ASSIGN(const descriptor below, open_below(folder, name));
      return finds_any(below.get(), path + name + "/", any);
    });
  }

  static result<> link(int from, const char* name, int to, const std::string& at) {
    if (::linkat(from, name, to, name, 0) == 0) return {};
    if (errno == EEXIST) return in_the_way(at);
    if (errno == ENOSPC || errno == EDQUOT || errno == EACCES) return write_failure(errno, "linking a file to be kept");
    return error(
        errc::invalid_argument,
        fmt::format("'{}' is not part of the overwritten node, and this file system cannot keep it: move it", at));
  }

  const std::function<bool(std::string_view)>& belongs_;
};

std::string above(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string old_name(const std::string& folder) {
  return above(folder) + "/" + std::string(kOldPrefix) + folder.substr(folder.rfind('/') + 1);
}

bool is_there(const std::string& path) noexcept {
  struct ::stat status{};
  return ::lstat(path.c_str(), &status) == 0;
}

}  // namespace

bool remove_tree(int above, const char* name) noexcept {
  const descriptor folder(::openat(above, name, kFolder));
  if (!folder) return errno == ENOENT;
  if (const open_names names = names_of(folder.get())) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is not shared
    while (const ::dirent* const found = ::readdir(names.get())) {
      const std::string_view text(found->d_name);
      if (text == "." || text == "..") continue;
      if (::unlinkat(folder.get(), found->d_name, 0) == 0) continue;
      if (errno == EISDIR || errno == EPERM) (void)remove_tree(folder.get(), found->d_name);
    }
  }
  return ::unlinkat(above, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

std::unique_ptr<folder_swap> folder_swap::make(const std::string& folder) noexcept {
  const std::unique_ptr<char, decltype(&::free)> real(::realpath(folder.c_str(), nullptr), &::free);
  if (!real) return nullptr;
  std::string target(real.get());
  struct ::stat here{}, parent{};
  const std::string beside = above(target);
  if (target == "/" || ::stat(target.c_str(), &here) != 0 || !S_ISDIR(here.st_mode)) return nullptr;
  if (::stat(beside.c_str(), &parent) != 0 || parent.st_dev != here.st_dev) return nullptr;
  if (const descriptor swept(::open(beside.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); swept)
    remove_stray_files(swept.get());
  auto salt = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) ^
              reinterpret_cast<std::uintptr_t>(&target);
  for (int attempt = 0; attempt < 100; ++attempt, salt = salt * 6364136223846793005U + 1442695040888963407U) {
    std::string draft = (beside == "/" ? "" : beside) + "/" + temporary_name(salt);
    if (::mkdir(draft.c_str(), 0777) == 0) {
      descriptor lock(::open(draft.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      if (lock) (void)::flock(lock.get(), LOCK_EX | LOCK_NB);
      if (::mkdir((draft + "/node").c_str(), 0777) != 0) {
        ::rmdir(draft.c_str());
        return nullptr;
      }
      return std::unique_ptr<folder_swap>(new folder_swap(std::move(target), std::move(draft), std::move(lock)));
    }
    if (errno != EEXIST && errno != EINTR) break;
  }
  return nullptr;
}

folder_swap::~folder_swap() {
  (void)remove_tree(AT_FDCWD, hidden_.c_str());  // if anything remains, a later writer removes it
}

result<> folder_swap::replace(const std::function<bool(std::string_view)>& belongs) {
  const descriptor from(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!from) return read_failure(errno, "opening the folder to be replaced");
  const descriptor to(::open(draft_.c_str(), kFolder));
  if (!to) return read_failure(errno, "opening the new folder");
  PENSTOCK_TRY(keeper(belongs).keep(from.get(), to.get(), ""));
  PENSTOCK_TRY(sync_draft(to.get()));
  struct ::stat status{};
  if (::fstat(from.get(), &status) != 0) return read_failure(errno, "looking up the folder");
  (void)::fchmod(to.get(), status.st_mode & 07777U);
  bool done = false;
#ifdef RENAME_EXCHANGE
  if (::renameat2(AT_FDCWD, draft_.c_str(), AT_FDCWD, folder_.c_str(), RENAME_EXCHANGE) == 0) {
    done = true;
  } else if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) {
    return write_failure(errno, "exchanging the folders");
  }
#endif
  if (!done) {
    const std::string old = old_name(folder_);
    if (is_there(old)) (void)remove_tree(AT_FDCWD, old.c_str());
    if (::rename(folder_.c_str(), old.c_str()) != 0) return write_failure(errno, "renaming the old folder");
    if (::rename(draft_.c_str(), folder_.c_str()) != 0) {
      const int code = errno;
      (void)::rename(old.c_str(), folder_.c_str());
      return write_failure(code, "renaming the new folder");
    }
    (void)::rename(old.c_str(), draft_.c_str());
  }
  if (const descriptor parent(::open(above(folder_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); parent)
    (void)sync_file(parent.get());
  return {};
}

}  // namespace penstock::inline v0
